"""What a process costs: wall time, and the peak memory of it and of every process that it waited for."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Beside the interpreter that runs the benchmark, so that both sides use the same installation.
PROGRAMS = Path(sys.executable).parent


class BenchError(Exception):
    """The benchmark itself cannot be believed, or cannot go on."""


@dataclass(frozen=True)
class Cost:
    seconds: float
    mebibytes: float
    cpu_seconds: float  # tells a slow program from a busy machine


def run(command: Sequence[str | Path], folder: Path, settings: Mapping[str, str] | None = None) -> Cost:
    """Runs a command in a folder; its words are shown only if it fails."""
    with (folder / "last.log").open("w+b") as log:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env=environment(settings or {}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            words = log.read().decode("utf-8", "replace")
            raise BenchError(f"{' '.join(map(str, command))} exits {process.returncode}:\n{words[-4000:]}")
    return Cost(seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """One zone for both sides, no calls home, and nothing that the user set for a lake of theirs."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GPULAKE_", "DBT_"))}
    return {**inherited, "TZ": "UTC", "DO_NOT_TRACK": "1", **settings}


def together(steps: Sequence[Cost]) -> Cost:
    """Steps that follow each other."""
    return Cost(
        sum(step.seconds for step in steps),
        max(step.mebibytes for step in steps),
        sum(step.cpu_seconds for step in steps),
    )


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.mebibytes for cost in costs),
        statistics.median(cost.cpu_seconds for cost in costs),
    )
