"""Room `diagnose`: logs and what was measured beside them become diagnoses."""
