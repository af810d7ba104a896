"""GPUs through NVML, read in a process of its own: a driver that hangs or crashes takes only that process with it."""
