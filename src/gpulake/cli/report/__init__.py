"""Write reports from the last complete build."""
