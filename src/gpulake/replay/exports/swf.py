"""Jobs of the lake in the Standard Workload Format. A processor is a GPU, or a core where that is asked for.

Users, groups, applications and queues become numbers in the order of their first job: the format has no names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpulake.core.disk import replace_text
from gpulake.core.errors import InputError
from gpulake.core.packaged import queries
from gpulake.formats.swf import FIELDS, GPU, PROCESSORS, START, UNKNOWN
from gpulake.lake import LakeReader

SQL = queries("gpulake.replay.exports", "swf.sql")
STATUSES = {"succeeded": 1, "failed": 0, "node_fail": 0, "timeout": 0, "cancelled": 5, "interrupted": 5}


def write_swf(reader: LakeReader, cluster: str, processors: str, path: Path) -> dict[str, Any]:
    """What was written, left out and rounded, by reason."""
    rows = reader.rows(SQL["jobs"], cluster=cluster, processors=processors)
    (capacity,) = reader.rows(SQL["capacity"], cluster=cluster)
    left_out: Counter[str] = Counter()
    kept = []
    for row in rows:
        if row["submitted"] is None:
            left_out["submission unknown"] += 1
        elif not (row["requested"] or row["allocated"]):
            left_out[f"no {processors}"] += 1
        else:
            kept.append(row)
    if not kept:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "it has none"
        raise InputError(f"no job of {cluster} to export: {reasons}", "for jobs without GPUs give --processors cores")
    begin = math.floor(kept[0]["submitted"])
    numbers: dict[str, dict[str, int]] = {name: {} for name in ("user_id", "account_id", "group_id", "partition_id")}
    lines = [_line(place, row, begin, numbers) for place, row in enumerate(kept, start=1)]
    most = capacity["gpus" if processors == GPU else "cores"] or UNKNOWN
    header = _header(cluster, processors, begin, len(lines), most, numbers["partition_id"])
    replace_text(path, "\n".join([*header, *lines]) + "\n")
    rounded = sum(1 for row in kept if (row["allocated"] or row["requested"]) % 1)
    return {"jobs": len(kept), "left_out": dict(left_out), "rounded": rounded}


def _header(cluster: str, processors: str, begin: int, jobs: int, most: int, queues: dict[str, int]) -> Sequence[str]:
    return [
        "; Version: 2.2",
        f"; Computer: {' '.join(cluster.split())}",
        "; Conversion: gpulake export swf",
        f"; MaxJobs: {jobs}",
        f"; MaxRecords: {jobs}",
        f"; {START}: {begin}",
        "; TimeZoneString: UTC",
        f"; StartTime: {datetime.fromtimestamp(begin, UTC):%a %b %d %H:%M:%S UTC %Y}",
        f"; MaxProcs: {most}",
        f"; {PROCESSORS}: {processors}",
        "; Note: parts of a processor are rounded up",
        f"; MaxQueues: {len(queues)}",
        *(f"; Queue: {number} {' '.join(name.split())}" for name, number in queues.items()),
    ]


def _line(place: int, row: dict[str, Any], begin: int, numbers: dict[str, dict[str, int]]) -> str:
    started, ended = row["started"], row["ended"]
    has_run = started is not None and ended is not None and ended >= started
    requested, allocated = _processors(row["requested"]), _processors(row["allocated"])
    size = max(requested, allocated)
    of = {
        name: known.setdefault(row[name], len(known) + 1) if row[name] else UNKNOWN for name, known in numbers.items()
    }
    fields = {
        "job_number": place,
        "submit_time": _seconds(row["submitted"] - begin),
        "wait_time": _seconds(max(0, started - row["submitted"])) if has_run else UNKNOWN,
        "run_time": _seconds(ended - started) if has_run else UNKNOWN,
        "allocated_processors": allocated if has_run else UNKNOWN,
        "requested_processors": requested,
        "requested_memory": round(row["memory_bytes"] / size / 1024) if row["memory_bytes"] else UNKNOWN,
        "status": STATUSES.get(row["status"], UNKNOWN),
        "user_number": of["user_id"],
        "group_number": of["account_id"],
        "executable_number": of["group_id"],
        "queue_number": of["partition_id"],
    }
    return " ".join(str(fields.get(name, UNKNOWN)) for name in FIELDS)


def _processors(count: float | None) -> int:
    return math.ceil(count - 1e-9) if count else UNKNOWN


def _seconds(seconds: float) -> str:
    """Without a point where there is nothing behind it."""
    return f"{round(seconds, 3):.3f}".rstrip("0").rstrip(".")
