"""File formats, wire formats and names of metrics, each read and defined once for every room."""
