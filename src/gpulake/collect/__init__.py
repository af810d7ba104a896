"""Read this machine: host, links, processes, GPUs and kernel, into files that survive it.

This room runs on bare nodes: it imports the standard library and `core`, and for GPUs `pynvml`.
"""
