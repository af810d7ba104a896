"""Room `replay`: what would have happened under another policy, and workloads for other simulators."""
