"""Read-only: reports and plots from the tables of a build."""
