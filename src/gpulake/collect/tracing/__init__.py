"""Traces of applications: invocations, trace contexts, and parsers of the logs that contain them."""
