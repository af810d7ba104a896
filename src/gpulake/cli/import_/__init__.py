"""Land a workload of a simulator in the lake."""
