"""One file a detector. It scores a series, each point by what came before it."""
