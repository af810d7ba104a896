"""The parts of a machine that sources read: /proc, its processes and their owners, links, and the kernel's words."""
