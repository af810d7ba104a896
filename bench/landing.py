"""What landing text costs: rows of each format per CPU-second, from the file to the committed bronze table."""

from __future__ import annotations

import random
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.lines import Line
from gpulake.core.clock import SystemClock
from gpulake.core.config import Config
from gpulake.core.progress import silent
from gpulake.lake import Lake
from gpulake.land.landing import land

ROWS = 200_000
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
# By format: the file's name, and the least rows per CPU-second.
FORMATS = {"prometheus": ("page.prom", 200_000), "cctf": ("host_metrics.jsonl", None), "slurm": ("sacct.txt", None)}


def landing(out: Path, seed: int) -> Iterator[Line]:
    folder = out / "landing"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, (file, bar) in FORMATS.items():
        path = folder / file
        path.write_text("".join(TEXTS[name](random.Random(seed))), encoding="utf-8")
        lake = Lake(Config(lake=folder / f"lake-{name}")).create()
        before = _cpu_seconds()
        with lake.writing():
            (landed,) = land(lake, [path], SystemClock(), silent).landings
        rate = landed.rows_landed / (_cpu_seconds() - before)
        yield Line(f"landing {name} text, rows per CPU-second", rate, "", bar, "at least")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _prometheus(draw: random.Random) -> Iterator[str]:
    for page in range(ROWS // (GPUS * len(METRICS))):
        node = page % NODES
        for metric, form in METRICS.items():
            yield f"# HELP {metric} measured\n# TYPE {metric} gauge\n"
            for gpu in range(GPUS):
                labels = (
                    f'gpu="{gpu}",UUID="GPU-{gpu:08x}-1234-5678-9abc-{node:012x}",pci_bus_id="00000000:{gpu:02X}:00.0",'
                    f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="node-{node:03}"'
                )
                yield f"{metric}{{{labels}}} {form.format(draw.random() * 90)} {1_700_000_000_000 + page * 15_000}\n"


def _cctf(draw: random.Random) -> Iterator[str]:
    for row in range(ROWS):
        at, used = 1_700_000_000_000 + row * 1000, draw.random() * 100
        yield f'{{"ts_ms": {at}, "node": "node-{row % NODES:03}", "cpu_util": {used:.2f}, "mem_free_mb": 7}}\n'


def _slurm(draw: random.Random) -> Iterator[str]:
    yield "JobID|JobIDRaw|State|User|Submit|Start|End|ElapsedRaw|AllocTRES|NodeList|\n"
    for row in range(ROWS):
        day, gpus = f"2024-05-{1 + row % 28:02}", draw.choice((1, 2, 4, 8))
        yield (
            f"{row}|{row}|COMPLETED|u{row % 97}|{day}T10:00:00|{day}T10:00:05|{day}T11:00:05|3600|"
            f"billing=8,cpu=8,gres/gpu={gpus},mem=64G,node=1|node-{row % NODES:03}|\n"
        )


TEXTS = {"prometheus": _prometheus, "cctf": _cctf, "slurm": _slurm}
