"""What a process costs: wall time, CPU time and peak memory, with those of every process that it waited for."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Beside the interpreter that runs the benchmark, so that both sides use the same installation.
PROGRAMS = Path(sys.executable).parent
# A small process starts the command and measures it: the peak memory of a process is at least that of who started it.
LAUNCHER = """
import json, os, sys, time
begin = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ), 0)
cost = time.perf_counter() - begin, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
with open(sys.argv[1], "w") as file:
    json.dump(cost, file)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class BenchError(Exception):
    """The benchmark itself cannot be believed, or cannot go on."""


@dataclass(frozen=True)
class Cost:
    seconds: float
    mebibytes: float
    cpu_seconds: float  # tells a slow program from a busy machine


def run(command: Sequence[str | Path], folder: Path, settings: Mapping[str, str] | None = None) -> Cost:
    """Runs a command in a folder; its words are shown only if it fails."""
    cost = folder / "cost.json"
    words = [str(part) for part in command]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, str(cost), *words],
        cwd=folder,
        env=environment(settings or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise BenchError(f"{' '.join(words)} exits {done.returncode}:\n{done.stdout[-4000:]}")
    return Cost(*json.loads(cost.read_text(encoding="utf-8")))


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """One time zone for both sides, no calls home, no settings of another lake; modules are compiled once."""
    left_out = ("GPULAKE_", "DBT_", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**inherited, "TZ": "UTC", "DO_NOT_TRACK": "1", **settings}


def together(steps: Sequence[Cost]) -> Cost:
    """Steps that follow each other."""
    return Cost(
        sum(step.seconds for step in steps),
        max(step.mebibytes for step in steps),
        sum(step.cpu_seconds for step in steps),
    )


def best(costs: Sequence[Cost]) -> Cost:
    """What disturbs a run adds to its time, so the least is nearest to what the program needs; memory is the most."""
    return Cost(
        min(cost.seconds for cost in costs),
        max(cost.mebibytes for cost in costs),
        min(cost.cpu_seconds for cost in costs),
    )


def interleaved(rounds: int, *sides: Callable[[], Cost]) -> list[Cost]:
    """The best of each side; they run in turn, so that a busy minute costs all of them."""
    costs: list[list[Cost]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, found in zip(sides, costs, strict=True):
            found.append(side())
    return [best(found) for found in costs]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def cpu_seconds() -> float:
    """Of this process so far, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def process_cpu_seconds(pid: int) -> float:
    """Of a process that still runs."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
