"""From stories to diagnoses: the root cause and its symptoms."""
