"""GPUs through NVML, read in a separate process: a driver that hangs or crashes takes only that process down."""
