"""gpulake: from raw GPU-cluster traces to tested tables, findings and plots."""

__version__ = "0.1.0"
