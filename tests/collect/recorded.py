"""Our own recording: a training job of two minutes on one H200, collected at 5 Hz while nvidia-smi polled beside it."""

from __future__ import annotations

import csv
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

RECORDING = Path(__file__).parents[1] / "fixtures" / "h200_run.tar.gz"


class SmiSample(NamedTuple):
    ts_ms: float
    utilisation_percent: float
    memory_used_mib: float
    power_watts: float
    temperature_celsius: float


def unpack_recording(folder: Path) -> Path:
    """RUN_DIR, with nvidia_smi.csv and metrics.prom (the collector's own page at half time) in its parent."""
    with tarfile.open(RECORDING) as archive:
        archive.extractall(folder, filter="data")
    return folder / "gpu0"


def smi_samples(folder: Path) -> list[SmiSample]:
    with (folder / "nvidia_smi.csv").open() as text:
        rows = list(csv.reader(text, skipinitialspace=True))
    return [
        SmiSample(_milliseconds(at), float(busy), float(memory), float(power), float(heat))
        for at, busy, memory, power, _, heat, _ in rows[1:]
    ]


def _milliseconds(text: str) -> float:
    return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp() * 1000
