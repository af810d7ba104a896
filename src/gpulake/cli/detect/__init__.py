"""Look at what was detected: what was expected, what was seen, and which jobs ran then."""
