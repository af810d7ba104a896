"""The metadata of a workload that we write and read."""

from __future__ import annotations

# In the metadata of a tasks.parquet: the MHz that stand for one GPU.
GPU_MHZ = "gpulake.gpu_mhz"
