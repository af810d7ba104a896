#!/bin/sh
# Epilog of slurmd: the collector of a job ends; its files are parsed, and may be landed from a shared folder.
bundle=${COLLECT_BUNDLE:-/opt/gpulake/collect.pyz}
runs=${COLLECT_RUNS:-/var/lib/gpulake/runs}
run=${SLURM_CLUSTER_NAME:-slurm}-$SLURM_JOB_ID
timeout 20 "$bundle" stop --dir "$runs" --run-id "$run" > /dev/null
for node in "$runs/$run"/*; do timeout 60 "$bundle" parse "$node" > /dev/null; done
exit 0
