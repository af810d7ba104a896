"""The dashboard: pages of panels, each panel a question of the lake; the API answers the same questions."""
