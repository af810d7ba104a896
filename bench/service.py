"""gpulake run: what it costs while nothing comes, and whether a day of samples leaves its memory as it was."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench.data import Bench
from bench.lines import Line
from bench.measure import PROGRAMS, BenchError, environment, free_port
from gpulake.core.service_state import read_state

MOST_SHARE, MOST_MEBIBYTES, MOST_GROWTH = 1.0, 300.0, 1.1
GPUS, TICKS, TICK_SECONDS = 64, 20, 30  # of a request: ten minutes of 64 GPUs
REQUESTS = 144  # a day
METRICS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED")
START_SECONDS = 120.0
SETTINGS = """
lake = "lake"
[run]
folders = ["inbox"]
build_seconds = 10
dashboard = "127.0.0.1:{dashboard}"
[run.sources.collectors]
ingest = ["http", "--listen", "127.0.0.1:{receiver}"]
"""


@dataclass(frozen=True)
class Running:
    process: psutil.Process
    lake: Path
    receiver: str
    dashboard: str

    def send(self, number: int) -> None:
        """The samples of ten minutes, some time ago; it returns once they are in the lake."""
        begin = int(time.time()) - 2 * 86_400 + number * TICKS * TICK_SECONDS
        document = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [_metric(name, begin) for name in METRICS]}]}]}
        headers = {"Content-Type": "application/json"}
        body = json.dumps(document).encode()
        with urllib.request.urlopen(urllib.request.Request(self.receiver, body, headers), timeout=60) as answer:
            answer.read()

    def look(self) -> None:
        with urllib.request.urlopen(self.dashboard, timeout=60) as page:
            page.read()

    def cpu_seconds(self) -> float:
        """Of all its processes, those that ended too."""
        return sum(sum(one.cpu_times()[:4]) for one in self._all())

    def mebibytes(self) -> float:
        """Of the processes that last; what they share counts once."""
        found = 0
        for one in self._all():
            with suppress(psutil.Error):
                words = one.cmdline()
                if one.pid == self.process.pid or "ingest" in words or "serve" in words:
                    found += one.memory_full_info().pss
        return found / 2**20

    def _all(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]

    def until_built(self, since: datetime) -> None:
        """A build has succeeded since then, and the dashboard answers."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                parts = {part["name"]: part for part in read_state(self.lake)["parts"]}
                built = parts["build"]["succeeded_at"]
                if built and datetime.fromisoformat(built) > since and parts["build"]["state"] == "waiting":
                    self.look()
                    return
            time.sleep(0.2)
        raise BenchError("gpulake run made no build in time")


def _metric(name: str, begin: int) -> dict[str, object]:
    points = [
        {
            "timeUnixNano": str((begin + tick * TICK_SECONDS) * 10**9),
            "asDouble": float((gpu * 7 + tick) % 80),
            "attributes": [
                {"key": key, "value": {"stringValue": value}}
                for key, value in (("Hostname", f"g{gpu // 8}"), ("gpu", str(gpu % 8)), ("UUID", f"GPU-{gpu}"))
            ],
        }
        for tick in range(TICKS)
        for gpu in range(GPUS)
    ]
    return {"name": name, "gauge": {"dataPoints": points}}


def service(bench: Bench) -> Iterator[Line]:
    with _running(bench.folder("service")) as running:
        yield from _idle(running, bench.seconds)
        yield from _loaded(running)


@contextmanager
def _running(folder: Path) -> Iterator[Running]:
    receiver, dashboard = free_port(), free_port()
    (folder / "inbox").mkdir()
    (folder / "gpulake.toml").write_text(SETTINGS.format(receiver=receiver, dashboard=dashboard))
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen([PROGRAMS / "gpulake", "run"], cwd=folder, env=environment({}), stdout=log, stderr=log)
    found = Running(
        psutil.Process(child.pid),
        folder / "lake",
        f"http://127.0.0.1:{receiver}/v1/metrics",
        f"http://127.0.0.1:{dashboard}/now",
    )
    try:
        yield found
    finally:
        child.terminate()
        child.wait(60)


def _idle(running: Running, seconds: int) -> Iterator[Line]:
    since, deadline = datetime.now(UTC), time.monotonic() + START_SECONDS
    while True:
        try:
            running.send(0)
            break
        except OSError:  # it does not listen yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    running.until_built(since)
    time.sleep(5)
    begin, cpu = time.monotonic(), running.cpu_seconds()
    time.sleep(seconds)
    share = 100 * (running.cpu_seconds() - cpu) / (time.monotonic() - begin)
    yield Line(f"idle for {seconds} s: share of a core", share, "%", MOST_SHARE)
    yield Line(f"idle for {seconds} s: memory of all its processes", running.mebibytes(), "MiB", MOST_MEBIBYTES)


def _loaded(running: Running) -> Iterator[Line]:
    begin, cpu, held = time.monotonic(), running.cpu_seconds(), []
    for number in range(1, REQUESTS + 1):
        running.send(number)
        if number % 4 == 0:
            running.look()
        held.append(running.mebibytes())
    quarter = REQUESTS // 4
    early, late = statistics.median(held[quarter : 2 * quarter]), statistics.median(held[-quarter:])
    label = f"24 hours of {GPUS} GPUs in {time.monotonic() - begin:.0f} s, with builds and readers"
    samples = REQUESTS * GPUS * TICKS * len(METRICS)
    running.until_built(datetime.now(UTC))
    yield Line(f"{label}: CPU seconds per million samples", 1e6 * (running.cpu_seconds() - cpu) / samples, "s")
    yield Line(f"{label}: memory of what lasts, second quarter", early, "MiB")
    yield Line(f"{label}: memory of what lasts, last quarter, times that", late / early, "", MOST_GROWTH)
