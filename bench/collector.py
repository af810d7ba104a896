"""What collecting costs: ours, pidstat and node_exporter watch the same processes over the same minute.

All three run at once, so that each sees the same machine; what counts is the CPU time that each of them used.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.data import Bench
from bench.lines import Line, cpu_ratio
from bench.measure import PROGRAMS, BenchError, environment, free_port, interleaved, process_cpu_seconds, run

WARM_UP_SECONDS = 10
WATCHED_SECONDS = 60
BARS_PERCENT = {500: 1.0, 2000: 2.5}
MOST_MEBIBYTES = 60
MOST_PARSE_MINUTES = 10
DAY_SECONDS = 86_400
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Share:
    """Of one core over the time watched, and the memory at its end."""

    percent: float
    mebibytes: float


def collector(bench: Bench) -> Iterator[Line]:
    for count, bar in BARS_PERCENT.items():
        folder = bench.folder("collector")
        shares = _watched(count, folder)
        ours = shares["ours"]
        label = f"{count:,} processes at 1 Hz"
        yield Line(f"{label}: ours", ours.percent, "% of a core", bar)
        yield Line(f"{label}: ours, memory", ours.mebibytes, "MiB", MOST_MEBIBYTES)
        for peer in ("pidstat", "node_exporter"):
            if peer not in shares:
                print(f"{peer} is not installed here: not compared", file=sys.stderr)
                continue
            yield Line(f"{label}: {peer}", shares[peer].percent, "% of a core", kind="peer")
            yield Line(f"{label}: {peer}, memory", shares[peer].mebibytes, "MiB", kind="peer")
            yield cpu_ratio(f"{label}: times less CPU than {peer}", shares[peer].percent, ours.percent)
    yield from _parsing(folder, label)


def _parsing(folder: Path, label: str) -> Iterator[Line]:
    """What was collected is parsed; a day would have so many times the ticks, and parsing grows with them."""
    (node,) = (path.parent for path in folder.rglob("segments"))
    (again,) = interleaved(2, lambda: run([PROGRAMS / "gpulake", "collect", "parse", node], folder))
    (start,) = interleaved(3, lambda: run([PROGRAMS / "gpulake", "collect", "parse", "--help"], folder))
    day = (again.cpu_seconds - start.cpu_seconds) * DAY_SECONDS / (WARM_UP_SECONDS + WATCHED_SECONDS)
    what = f"{label}: parsing a day, extrapolated from {WARM_UP_SECONDS + WATCHED_SECONDS} s, CPU time"
    yield Line(what, day / 60, "min", MOST_PARSE_MINUTES)


def _watched(count: int, folder: Path) -> dict[str, Share]:
    with ExitStack() as stack:
        stack.enter_context(_sleepers(count))
        pids = {"ours": stack.enter_context(_running(_ours(folder)))}
        if pidstat := shutil.which("pidstat"):
            pids["pidstat"] = stack.enter_context(_running([pidstat, "-u", "-r", "-d", "1"]))
        scrape = ""
        if exporter := shutil.which("prometheus-node-exporter"):
            address = f"127.0.0.1:{free_port()}"
            scrape = f"http://{address}/metrics"
            words = [exporter, "--collector.processes", f"--web.listen-address={address}"]
            pids["node_exporter"] = stack.enter_context(_running(words))
        _each_second(WARM_UP_SECONDS, scrape)
        before = {name: process_cpu_seconds(pid) for name, pid in pids.items()}
        begun = time.monotonic()
        _each_second(WATCHED_SECONDS, scrape)
        seconds = time.monotonic() - begun
        return {
            name: Share(100 * (process_cpu_seconds(pid) - before[name]) / seconds, _mebibytes(pid))
            for name, pid in pids.items()
        }


def _ours(folder: Path) -> list[str]:
    words = ["collect", "run", "--run-id", "bench", "--dir", str(folder), "--sources", "host,nic,pid"]
    return [str(PROGRAMS / "gpulake"), *words, "--interval", "1s"]


@contextmanager
def _sleepers(count: int) -> Iterator[None]:
    sleepers = [subprocess.Popen(["sleep", "3600"]) for _ in range(count)]
    try:
        yield
    finally:
        for sleeper in sleepers:
            sleeper.kill()
        for sleeper in sleepers:
            sleeper.wait()


@contextmanager
def _running(words: list[str]) -> Iterator[int]:
    process = subprocess.Popen(
        words, env=environment({}), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process.pid
        if process.poll() is not None:
            raise BenchError(f"{' '.join(words)} ended by itself with {process.returncode}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _each_second(seconds: int, scrape: str) -> None:
    due = time.monotonic()
    for _ in range(seconds):
        due += 1
        time.sleep(max(0.0, due - time.monotonic()))
        if scrape:
            with urllib.request.urlopen(scrape, timeout=10) as page:
                page.read()


def _mebibytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / (1 << 20)
