"""Digests become stories: who said what when, in which run."""
