"""NCCL flight-recorder dumps: who the others wait for."""
