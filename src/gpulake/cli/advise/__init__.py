"""Advise from theory and from the lake's own past: checkpoints, spares, run times, policies."""
