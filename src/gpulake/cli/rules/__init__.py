"""Look at the rules of the diagnosis, try them, and review what was learned."""
