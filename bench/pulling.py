"""Pulling from a real Prometheus: samples per CPU-second beside a plain loop, and memory where labels explode."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench.data import Bench
from bench.lines import Line, cpu_ratio
from bench.measure import PROGRAMS, BenchError, Cost, environment, free_port, interleaved, run

STEP = 30
END = int(time.time()) // 7200 * 7200 - 7200  # of what promtool wrote: blocks of two hours, of the past
METRICS = (
    *("GPU_UTIL", "MEM_COPY_UTIL", "FB_USED", "FB_FREE", "POWER_USAGE"),
    *("GPU_TEMP", "MEMORY_TEMP", "SM_CLOCK", "MEM_CLOCK", "XID_ERRORS"),
)
# What one writes without this: each metric of the window, each sample a line of a CSV file.
LOOP = """
import csv, json, sys, urllib.parse, urllib.request
url, begin, end, step, *names = sys.argv[1:]
with open("loop.csv", "w", newline="") as file:
    rows = csv.writer(file)
    for name in names:
        asked = urllib.parse.urlencode({"query": name, "start": begin, "end": end, "step": step})
        with urllib.request.urlopen(f"{url}/api/v1/query_range?{asked}") as answer:
            result = json.loads(answer.read())["data"]["result"]
        for series in result:
            labels = json.dumps(series["metric"])
            for at, value in series["values"]:
                rows.writerow([at, labels, float(value)])
"""


@dataclass(frozen=True)
class Site:
    nodes: int
    steps: int
    gpus: int = 8

    @property
    def series(self) -> int:
        return self.nodes * self.gpus * len(METRICS)

    @property
    def samples(self) -> int:
        return self.series * self.steps

    def page(self) -> Iterator[str]:
        """OpenMetrics; a series after the other."""
        for metric in METRICS:
            yield f"# TYPE DCGM_FI_DEV_{metric} gauge\n"
            for node in range(self.nodes):
                for gpu in range(self.gpus):
                    labels = f'Hostname="gpu-{node:04}",UUID="GPU-{node:04}-{gpu}",gpu="{gpu}",modelName="H100"'
                    for step in range(self.steps):
                        at = END - (self.steps - 1 - step) * STEP
                        yield f"DCGM_FI_DEV_{metric}{{{labels}}} {(node * 7 + gpu + step) % 101} {at}\n"
        yield "# EOF\n"


SMOKE, FULL, EXPLOSION = Site(4, 120), Site(16, 480), Site(1250, 3)


def pulling(bench: Bench) -> Iterator[Line]:
    if not shutil.which("prometheus"):
        raise BenchError("the pull is measured against a real Prometheus: install the Debian package prometheus")
    folder = bench.folder("pulling")
    for site in (SMOKE,) if bench.is_smoke else (FULL, EXPLOSION):
        label = f"{site.series:,} series, {site.samples:,} samples"
        with _prometheus(folder, site) as url:
            begin = END - (site.steps - 1) * STEP
            loop = [sys.executable, "-c", LOOP, url, str(begin), str(END), str(STEP)]
            names = [f"DCGM_FI_DEV_{metric}" for metric in METRICS]
            rounds = 3 if site is not EXPLOSION else 1
            pull = partial(_pull, folder, site, url)
            ours, theirs = interleaved(rounds, pull, partial(run, [*loop, *names], folder))
        yield Line(
            f"{label}: pull and landing, samples per CPU-second", site.samples / ours.cpu_seconds, "", side="at least"
        )
        yield Line(f"{label}: pull and landing, peak memory", ours.mebibytes, "MiB")
        yield Line(f"{label}: a loop of urllib, json and csv, peak memory", theirs.mebibytes, "MiB", kind="peer")
        yield cpu_ratio(f"{label}: CPU ratio to that loop", theirs.cpu_seconds, ours.cpu_seconds)
    shutil.rmtree(folder)


def _pull(folder: Path, site: Site, url: str) -> Cost:
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    since, until = (datetime.fromtimestamp(at, UTC) for at in (END - (site.steps - 1) * STEP, END + 1))
    words = ["--since", f"{since:%Y-%m-%dT%H:%M:%SZ}", "--until", f"{until:%Y-%m-%dT%H:%M:%SZ}", "--lake", str(lake)]
    cost = run([PROGRAMS / "gpulake", "pull", "prometheus", "--url", url, *words], folder)
    query = "SELECT count(*) FROM bronze_prometheus_samples"
    counted = subprocess.run(
        [str(PROGRAMS / "gpulake"), "sql", query, "--format", "csv", "--lake", str(lake)],
        env=environment({}), capture_output=True, text=True, check=True,
    )  # fmt: skip
    if counted.stdout.split()[-1] != str(site.samples):
        raise BenchError(f"{counted.stdout.split()[-1]} of {site.samples} samples landed")
    return cost


@contextmanager
def _prometheus(folder: Path, site: Site) -> Iterator[str]:
    data, page, port = folder / "data", folder / "history.om", free_port()
    with page.open("w", encoding="utf-8") as file:
        file.writelines(site.page())
    run(["promtool", "tsdb", "create-blocks-from", "openmetrics", page, data], folder)
    page.unlink()
    (folder / "prometheus.yml").write_text("{}\n", encoding="utf-8")
    words = [
        *("--config.file", folder / "prometheus.yml", "--storage.tsdb.path", data, "--log.level", "error"),
        *("--storage.tsdb.retention.time", "10y", "--web.listen-address", f"127.0.0.1:{port}"),
    ]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(["prometheus", *map(str, words)])
    try:
        _wait_for(f"{url}/-/ready")
        yield url
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(data)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            if time.monotonic() > deadline:
                raise BenchError("Prometheus was not ready within a minute") from None
            time.sleep(0.05)
        else:
            return
