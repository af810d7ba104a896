"""Rules: patterns as data, what they mean, and one automaton for all of them."""
