"""What landing text costs: rows of each format per CPU-second, from the file to the committed bronze table.

Beside it, what a plain parser of the same text takes in Python, without checking or storing anything.
"""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_fd_to_metric_families

from bench.data import Bench
from bench.lines import Line, cpu_ratio
from bench.measure import cpu_seconds
from gpulake.core.clock import SystemClock
from gpulake.core.config import Config
from gpulake.core.progress import silent
from gpulake.lake import Lake
from gpulake.land.landing import land

ROWS = 200_000
SMOKE_ROWS = 50_000
ROUNDS = 3
GPUS = 8
NODES = 64
METRICS = {
    "DCGM_FI_DEV_GPU_UTIL": "{:.0f}",
    "DCGM_FI_DEV_FB_USED": "{:.0f}",
    "DCGM_FI_DEV_POWER_USAGE": "{:.3f}",
    "DCGM_FI_DEV_GPU_TEMP": "{:.0f}",
    "DCGM_FI_DEV_XID_ERRORS": "0",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "5{:012.0f}",
}


def landing(bench: Bench) -> Iterator[Line]:
    folder, rows = bench.folder("landing"), SMOKE_ROWS if bench.is_smoke else ROWS
    for name, form in FORMATS.items():
        path = folder / form.file
        path.write_text("".join(form.text(random.Random(bench.seed), rows)), encoding="utf-8")
        ours, theirs = float("inf"), float("inf")
        for _ in range(ROUNDS):
            landed, seconds = _landed(path, folder / "lake")
            ours = min(ours, seconds)
            begin = cpu_seconds()
            parsed = form.peer(path)
            theirs = min(theirs, cpu_seconds() - begin)
        what = f"landing {name}, rows per CPU-second"
        yield Line(what, landed / ours, "", form.bar, "at least")
        yield Line(f"{what}, {form.peer_name}", parsed / theirs, "", kind="peer")
        yield cpu_ratio(f"landing {name}, CPU ratio to {form.peer_name}", theirs / parsed, ours / landed)


def _landed(path: Path, place: Path) -> tuple[int, float]:
    shutil.rmtree(place, ignore_errors=True)
    lake = Lake(Config(lake=place)).create()
    begin = cpu_seconds()
    with lake.writing():
        (landed,) = land(lake, [path], SystemClock(), silent).landings
    return landed.rows_landed, cpu_seconds() - begin


def _prometheus(draw: random.Random, rows: int) -> Iterator[str]:
    for page in range(rows // (GPUS * len(METRICS))):
        node = page % NODES
        for metric, form in METRICS.items():
            yield f"# HELP {metric} measured\n# TYPE {metric} gauge\n"
            for gpu in range(GPUS):
                labels = (
                    f'gpu="{gpu}",UUID="GPU-{gpu:08x}-1234-5678-9abc-{node:012x}",pci_bus_id="00000000:{gpu:02X}:00.0",'
                    f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="node-{node:03}"'
                )
                yield f"{metric}{{{labels}}} {form.format(draw.random() * 90)} {1_700_000_000_000 + page * 15_000}\n"


def _cctf(draw: random.Random, rows: int) -> Iterator[str]:
    for row in range(rows):
        at, used = 1_700_000_000_000 + row * 1000, draw.random() * 100
        yield f'{{"ts_ms": {at}, "node": "node-{row % NODES:03}", "cpu_util": {used:.2f}, "mem_free_mb": 7}}\n'


def _slurm(draw: random.Random, rows: int) -> Iterator[str]:
    yield "JobID|JobIDRaw|State|User|Submit|Start|End|ElapsedRaw|AllocTRES|NodeList|\n"
    for row in range(rows):
        day, gpus = f"2024-05-{1 + row % 28:02}", draw.choice((1, 2, 4, 8))
        yield (
            f"{row}|{row}|COMPLETED|u{row % 97}|{day}T10:00:00|{day}T10:00:05|{day}T11:00:05|3600|"
            f"billing=8,cpu=8,gres/gpu={gpus},mem=64G,node=1|node-{row % NODES:03}|\n"
        )


def _parsed_pages(path: Path) -> int:
    with path.open(encoding="utf-8") as page:
        return sum(len(family.samples) for family in text_fd_to_metric_families(page))


def _parsed_json(path: Path) -> int:
    with path.open(encoding="utf-8") as lines:
        return len([json.loads(line) for line in lines])


def _parsed_csv(path: Path) -> int:
    with path.open(encoding="utf-8", newline="") as lines:
        return len(list(csv.DictReader(lines, delimiter="|")))


@dataclass(frozen=True)
class Format:
    file: str
    text: Callable[[random.Random, int], Iterator[str]]
    peer: Callable[[Path], int]
    peer_name: str
    bar: float  # rows per CPU-second


FORMATS = {
    "Prometheus text": Format("page.prom", _prometheus, _parsed_pages, "prometheus_client", 200_000),
    "CCTF": Format("host_metrics.jsonl", _cctf, _parsed_json, "json.loads", 300_000),
    "sacct": Format("sacct.txt", _slurm, _parsed_csv, "csv.DictReader", 200_000),
}
