#!/bin/sh
# Prolog of slurmd: a collector for the time of a job, with its id as the name of the run. It never fails a job.
# In slurm.conf: Prolog=/etc/slurm/gpulake/prolog.sh and Epilog=/etc/slurm/gpulake/epilog.sh
bundle=${COLLECT_BUNDLE:-/opt/gpulake/collect.pyz} # gpulake collect bundle /opt/gpulake/collect.pyz
runs=${COLLECT_RUNS:-/var/lib/gpulake/runs}
mkdir -p "$runs" && timeout 20 "$bundle" start --dir "$runs" --run-id "${SLURM_CLUSTER_NAME:-slurm}-$SLURM_JOB_ID" > /dev/null
exit 0
