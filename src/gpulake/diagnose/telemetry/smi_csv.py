"""Logs of `nvidia-smi --query-gpu=... --format=csv -l N`, with units or without."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, tzinfo

from gpulake.diagnose.telemetry.samples import GPU_FIELDS, Gathering, GpuSample, gpu_sample
from gpulake.formats.names import written
from gpulake.formats.smi_csv import header_names

NAMES = ("uuid", "index", "pci_bus_id", "serial")
NO_NAME = "0"
JUMP_SECONDS = 600.0
NEAR_SECONDS = 0.02  # between two GPUs of one round; rounds are further apart
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?: ?(%|MiB|GiB|W|MHz))?", re.ASCII)
# How much of our unit one of a printed unit is; without units (`nounits`), the field's unit counts.
WRITTEN = written("nvidia_smi")
FACTORS = {"%": 0.01, "MiB": float(1 << 20), "GiB": float(1 << 30), "W": 1.0, "MHz": 1e6}


def fields(header: str) -> tuple[str, ...]:
    """The columns of a header of nvidia-smi; none where it is not one."""
    names = header_names(tuple(field.strip() for field in header.lstrip("\ufeff").split(",")))
    is_measured = any(name.startswith(("utilization_", "memory_", "power_")) for name in names)
    return names if is_measured and "timestamp" in names else ()


def read(lines: Iterable[str], gathering: Gathering, node: str, zone: tzinfo) -> None:
    names: tuple[str, ...] = ()
    last, latest, rows, near = 0.0, 0.0, 0, 0
    for line in lines:
        if not line.strip():
            continue
        if header := fields(line):  # a log that was begun again has another one
            names = header
            continue
        values = [value.strip() for value in line.split(",")]
        if len(values) != len(names):
            gathering.bad_rows += 1
            continue
        row = dict(zip(names, values, strict=True))
        at = _moment(row["timestamp"], zone, latest)
        latest = latest if at is None else at
        if at is None:
            gathering.bad_rows += 1
        elif gathering.counts(at):
            gathering.add_gpu(_sample(row, at, node))
            if not set(NAMES) & row.keys():
                near, rows, last = near + (abs(at - last) < NEAR_SECONDS), rows + 1, at
    if near > rows / 4:
        gathering.forget_gpu(node, NO_NAME)
        gathering.note("No column of the nvidia-smi log tells its GPUs apart: add uuid or index to --query-gpu.")


def _sample(row: dict[str, str], at: float, node: str) -> GpuSample:
    measured = {field: value for field in GPU_FIELDS if (value := _value(row, field)) is not None}
    reasons = row.get("clocks_event_reasons_active", "")
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", reasons):
        measured["clock_event_reasons"] = int(reasons, 16)
    return gpu_sample(at, node, next((row[name] for name in NAMES if row.get(name)), NO_NAME), measured)


def _value(row: dict[str, str], field: str) -> float | None:
    names, factor = WRITTEN.get(field, ((), 1.0))
    for found in (_NUMBER.fullmatch(row.get(name, "")) for name in names):
        if found:
            return float(found[1]) * (FACTORS[found[2]] if found[2] else factor)
    return None


def _moment(text: str, zone: tzinfo, latest: float) -> float | None:
    """2026/11/15 08:47:20.123, in the zone of the node, which it does not say. An hour that clocks show twice, in
    autumn, is the second one once they have jumped back."""
    try:
        moment = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return moment.timestamp()
    first, second = (moment.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    return second if first < latest - JUMP_SECONDS and second >= latest - JUMP_SECONDS else first
