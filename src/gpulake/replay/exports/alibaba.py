"""The lake's tasks as the CSV that Alibaba's simulator reads, with estimates of run times made from the past alone.

The estimates of the published file know the whole trace, and with it the future; these know only what had ended.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpulake.core.disk import replace_text
from gpulake.core.errors import InputError
from gpulake.lake import LakeReader
from gpulake.replay.alibaba_simulator import COLUMNS, ESTIMATES
from gpulake.replay.predictions import SQL, Floats, predict, tasks_of

NO_GPU, UNKNOWN_GPU = "CPU", "MISC"  # in the simulator's words
# The lake's own name of the task: a column that the simulator drops.
HEADER = (*COLUMNS, *ESTIMATES, "jobid")
NO_ESTIMATE = 0.0  # nothing had ended: the simulator's own history answers so


def simulator_rows(reader: LakeReader, cluster: str) -> list[dict[str, Any]]:
    """One row per task of which the run time is known, in the order of submission; times from the first submission."""
    table = reader.query(SQL["simulator_jobs"], cluster=cluster)
    tasks = tasks_of(table)
    if not table.num_rows:
        raise InputError(f"no task of {cluster} has a known run time", "land jobs that have ended, and build")
    user_request = table["user_request"].to_numpy()
    estimates = {
        "user_dur": predict(tasks).user_median,
        "user_gpu_dur": predict(replace(tasks, group=tasks.user, request=user_request)).seconds,
        "group_dur": predict(replace(tasks, request=tasks.group)).seconds,
        "group_gpu_dur": predict(tasks).seconds,
    }
    order = np.argsort(tasks.submitted, kind="stable")
    return list(_rows(table.take(order), {name: column[order] for name, column in estimates.items()}))


def _rows(table: Any, estimates: dict[str, Floats]) -> Iterator[dict[str, Any]]:
    begin = table["submitted"][0].as_py()
    for place, row in enumerate(table.to_pylist()):
        gpus = row["requested_gpus"] or 0
        role = "" if row["task_name"] == "job" else f"/{row['task_name']}"
        yield {
            "job_id": place + 1,
            "user": row["user_id"] or "",
            "gpu_type": (row["gpu_type"] or UNKNOWN_GPU) if gpus else NO_GPU,
            "submit_time": round(row["submitted"] - begin),
            "duration": max(1, round(row["seconds"])),
            "num_inst": max(1, row["planned_instances"] or 1),
            "num_cpu": row["requested_cores"] or 0,
            "num_gpu": gpus,
            "wait_time": row["wait_seconds"],
            **{name: _known(float(column[place])) for name, column in estimates.items()},
            "jobid": f"{row['job_id']}{role}",
        }


def _known(seconds: float) -> float:
    return NO_ESTIMATE if np.isnan(seconds) else seconds


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, HEADER, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    replace_text(path, text.getvalue())
