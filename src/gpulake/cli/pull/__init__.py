"""Pull the records of a live site into the lake: what it does not have yet, since the last pull."""
