"""Land streams as they come, exactly once."""
