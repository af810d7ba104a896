"""The simulator: arrays in, arrays out, whole numbers only, so that every run gives the same answer.

Time is in seconds, GPUs in thousandths (`part`: 250 is a quarter of one GPU, 4000 are four whole ones). At one moment
jobs end, machines come back, machines fail, jobs arrive, and then the queue is gone through once.
"""
