"""What those who write a workload and those who read one agree on."""

from __future__ import annotations

# In the metadata of a tasks.parquet that we write: what stands for a GPU. OpenDC counts the parts that it was cut into.
GPU_MHZ = "gpulake.gpu_mhz"
