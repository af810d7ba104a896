"""Runs of our own on a real GPU, as series."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gpulake.detect.series import Series, usual_interval_ms
from gpulake.detect.training import NEEDED, Steps


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def telemetry(path: Path, begin_ms: int = 0, end_ms: int = 2**62) -> Series:
    head, *rows = read_lines(path)
    total = head["meta"]["mem_total"]
    rows = [row for row in rows if begin_ms <= row["ts_ms"] <= end_ms]
    times = np.array([row["ts_ms"] for row in rows], dtype=np.int64)
    values = [[row["gpu_util"] / 100, row["cpu_util"] / 100, row["mem_used"] / total] for row in rows]
    return Series("lab", NEEDED, times, np.array(values), usual_interval_ms(times))


def steps(path: Path) -> Steps:
    rows = read_lines(path)
    return Steps(
        np.array([row["ts_ms"] for row in rows], dtype=np.int64),
        np.array([row["step_ms"] for row in rows], dtype=np.float64),
    )
