"""Raw files and streams become bronze tables."""
