"""Figures: rows of a question as plain Plotly dictionaries; one file a theme."""
