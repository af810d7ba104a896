"""Maintenance windows: incidents within one are recorded, and no alert is sent."""
