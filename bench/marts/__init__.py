"""Seven marts from the same silver tables: our models, and the same in pandas. Both must come to the same totals."""
