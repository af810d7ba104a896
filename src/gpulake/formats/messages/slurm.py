"""Jobs that Slurm's own plugin jobcomp/kafka reports as they end. A script, which may say anything, is not kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from gpulake.formats.messages import MESSAGES, Message
from gpulake.formats.messages.rows import RowMessages
from gpulake.formats.slurm_jobs import worked_out

NAMES = {
    "username": "User",
    "account": "Account",
    "partition": "Partition",
    "qos": "QOS",
    "cluster": "Cluster",
    "state": "State",
    "exit_code": "ExitCode",
    "derived_ec": "DerivedExitCode",
    "job_name": "JobName",
    "@submit": "Submit",
    "@eligible": "Eligible",
    "@start": "Start",
    "@end": "End",
    "elapsed": "ElapsedRaw",
    "nodes": "NodeList",
    "total_nodes": "NNodes",
    "total_cpus": "NCPUS",
    "tres_req": "ReqTRES",
    "tres_alloc": "AllocTRES",
    "work_dir": "WorkDir",
    "reservation_name": "Reservation",
    "ntasks": "NTasks",
}
NOTHING = ("", "Unknown", "None", "(null)", "N/A")


def job_row(message: Message) -> dict[str, str]:
    said: Mapping[str, Any] = json.loads(message.value)
    job = str(said["jobid"])
    row = {column: str(said[name]) for name, column in NAMES.items() if str(said.get(name, "")) not in NOTHING}
    task, array = said.get("array_task_id"), said.get("array_job_id")
    is_task = isinstance(task, int) and bool(array)
    row |= {"JobIDRaw": job, "JobID": f"{array}_{task}" if is_task else job}
    if isinstance(said.get("time_limit"), int):
        row["TimelimitRaw"] = f"{said['time_limit'] / 60:g}"  # sent in seconds
    if message.at_ms:
        row["asked_at"] = datetime.fromtimestamp(message.at_ms / 1000, UTC).isoformat()
    return row | worked_out(row)


MESSAGES.register("slurm")(
    partial(RowMessages, "bronze_slurm_jobs", job_row, without=("other_fields",), secret=b'"script"')
)
