"""List alerts, send those that wait, and test sinks."""
