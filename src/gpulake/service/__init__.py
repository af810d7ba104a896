"""gpulake run: the commands as one service. Each part is a process of its own, which fails and comes back alone."""
