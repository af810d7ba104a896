"""Parts of a machine that sources read: /proc, processes and their owners, and links."""
