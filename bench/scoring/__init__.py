"""Scores detection and diagnosis on data with known answers: scripts/score."""
