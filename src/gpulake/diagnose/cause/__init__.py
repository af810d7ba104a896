"""Stories become diagnoses: the root cause, and what it brought about."""
