"""Logs of `nvidia-smi --query-gpu=... --format=csv -l N`, with units or without."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, tzinfo

from gpulake.diagnose.telemetry.samples import Gathering, GpuSample
from gpulake.formats.plausible import is_plausible

NAMES = ("uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")
POWERS = ("power.draw", "power.draw.instant", "power.draw.average")
NO_NAME = "0"
JUMP_SECONDS = 600.0
NEAR_SECONDS = 0.02  # between two GPUs of one round; rounds are further apart
_FIELD = re.compile(r"([a-z][a-z0-9_.]*)(?: \[[^\]]*\])?")
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?: ?(%|MiB|GiB|W|MHz))?", re.ASCII)
SCALES = {None: 1.0, "%": 0.01, "MiB": float(1 << 20), "GiB": float(1 << 30), "W": 1.0, "MHz": 1e6}
# Without units (`nounits`) the field says them.
UNITS = {"utilization.gpu": "%", "memory.used": "MiB", "memory.total": "MiB"}


def fields(header: str) -> tuple[str, ...]:
    """The columns of a header of nvidia-smi; none where it is not one."""
    found = [_FIELD.fullmatch(field.strip()) for field in header.lstrip("\ufeff").split(",")]
    names = tuple(field[1] for field in found if field)
    is_ours = len(names) == len(found) and any(name.startswith(("utilization.", "memory.", "power.")) for name in names)
    return names if is_ours and "timestamp" in names else ()


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
    reasons = row.get("clocks_event_reasons.active") or row.get("clocks_throttle_reasons.active") or ""
    return GpuSample(
        at_seconds=at,
        node=node,
        gpu=next((row[name] for name in NAMES if row.get(name)), NO_NAME),
        busy_ratio=_value(row, "utilization.gpu", "_ratio"),
        memory_used_bytes=_value(row, "memory.used", "_bytes"),
        memory_total_bytes=_value(row, "memory.total", "_bytes"),
        power_watts=_first(_value(row, name, "_watts") for name in POWERS),
        temperature_celsius=_value(row, "temperature.gpu", "_celsius"),
        ecc_corrected=_count(row, "ecc.errors.corrected.volatile.total"),
        ecc_uncorrected=_count(row, "ecc.errors.uncorrected.volatile.total"),
        clock_event_reasons=int(reasons, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", reasons) else None,
    )


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _value(row: dict[str, str], name: str, unit: str) -> float | None:
    found = _NUMBER.fullmatch(row.get(name, ""))
    if found is None:
        return None
    value = float(found[1]) * SCALES[found[2] or UNITS.get(name)]
    return value if is_plausible(unit, value) else None


def _count(row: dict[str, str], name: str) -> int | None:
    text = row.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def _moment(text: str, zone: tzinfo, latest: float) -> float | None:
    """2026/11/15 08:47:20.123, in the zone of the node, which it does not say. An hour that clocks show twice, in
    autumn, is the second one once they have jumped back."""
    try:
        told = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        return None
    if told.tzinfo is not None:
        return told.timestamp()
    first, second = (told.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    return second if first < latest - JUMP_SECONDS and second >= latest - JUMP_SECONDS else first
