"""Findings become incidents, and maintenance windows keep them quiet."""
