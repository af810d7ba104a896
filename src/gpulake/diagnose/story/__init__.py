"""From digests to stories: the events of each run of a log."""
