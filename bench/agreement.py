"""Both sides must give the same days, features, flags and scores; otherwise their times mean nothing."""

from __future__ import annotations

import csv
import math
import subprocess
from pathlib import Path
from typing import Any

import duckdb

from bench.measure import PROGRAMS, BenchError, environment

Rows = list[list[str]]
SCORE = "anomaly_score"
NUMBERS = ("avg_gpu_util", "p95_gpu_util", "avg_cpu_util", SCORE)
TOLERANCE = 1e-9
DAYS = f"""
SELECT strftime(dt, '%Y-%m-%d'), anomaly_flag, {", ".join(NUMBERS)}
FROM gold_cluster_util_daily_scored ORDER BY dt
"""
COUNTS = "SELECT (SELECT count(*) FROM silver_jobs), (SELECT count(*) FROM silver_gpu_timeseries)"


def check(reference: Path, lake: Path) -> int:
    """The number of days that both sides scored alike."""
    theirs, ours = _theirs(reference, COUNTS), _ours(lake, COUNTS)
    if theirs != ours:
        raise BenchError(f"rows of silver_jobs and silver_gpu_timeseries differ: {theirs} and {ours}")
    theirs, ours = _theirs(reference, DAYS), _ours(lake, DAYS)
    if not theirs or [row[:2] for row in theirs] != [row[:2] for row in ours]:
        raise BenchError(f"days or flags differ:\n{_differing(theirs, ours)}")
    for their, our in zip(theirs, ours, strict=True):
        for name, expected, given in zip(NUMBERS, their[2:], our[2:], strict=True):
            # A score may be as small as it likes, so it is compared as it stands.
            bound = TOLERANCE if name == SCORE else TOLERANCE * abs(float(expected))
            if not abs(float(expected) - float(given)) <= bound:
                raise BenchError(f"{name} of {their[0]} differs: the reference says {expected}, we say {given}")
    return len(ours)


def _theirs(reference: Path, query: str) -> Rows:
    with duckdb.connect(str(reference / "telemetry.db"), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return [[str(value) for value in row] for row in connection.execute(query).fetchall()]


def _ours(lake: Path, query: str) -> Rows:
    command = [str(PROGRAMS / "gpulake"), "sql", query, "--format", "csv", "--lake", str(lake)]
    answer = subprocess.run(command, env=environment({}), cwd=lake, capture_output=True, text=True, check=True)
    return list(csv.reader(answer.stdout.splitlines()))[1:]


def _differing(theirs: Rows, ours: Rows) -> str:
    only_theirs = [f"the reference: {row}" for row in theirs if row[:2] not in [other[:2] for other in ours]]
    only_ours = [f"ours: {row}" for row in ours if row[:2] not in [other[:2] for other in theirs]]
    return "\n".join([*only_theirs, *only_ours][:10]) or "one side has no days"


def check_marts(ours: dict[str, dict[str, Any]], frames: dict[str, dict[str, Any]]) -> None:
    """Refuses to compare the speed of two answers that differ."""
    for mart, answer in ours.items():
        for mine, theirs in zip(answer["figures"], frames[mart]["figures"], strict=True):
            if not math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-6):
                raise BenchError(f"{mart}: we say {mine}, pandas says {theirs}")
