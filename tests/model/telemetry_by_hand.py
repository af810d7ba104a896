"""What the telemetry tables should say, worked out sample by sample, the slow way."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

MOST_INTERVALS = 3
MOST_SECONDS = 7200
SETTINGS = 0x2 | 0x10 | 0x100
REASONS = {
    "power": 0x4 | 0x80,
    "thermal": 0x20 | 0x40,
    "hardware": 0x8 | 0x40 | 0x80,
    "throttled": 0x4 | 0x8 | 0x20 | 0x40 | 0x80,
    "settings": SETTINGS,
}


class Gpu(NamedTuple):
    """One sample of one GPU. None: it does not say."""

    gpu_uuid: str
    ts_ms: int
    node: str = "a"
    gpu_busy_ratio: float | None = None
    temperature_celsius: float | None = None
    slowdown_temperature_celsius: float | None = None
    clock_event_reasons: int | None = None
    energy_joules_total: float | None = None
    power_watts: float | None = None
    ecc_corrected_total: int | None = None
    ecc_uncorrected_total: int | None = None
    pcie_replays_total: int | None = None
    remapped_rows_uncorrectable: int | None = None
    memory_used_bytes: int | None = None
    processes: int | None = None
    owner_kind: str | None = None
    owner_id: str | None = None
    owner_evidence: str | None = None


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps({key: value for key, value in row.items() if value is not None}) + "\n" for row in rows)


def gpu_file(samples: Sequence[Gpu]) -> str:
    return lines([sample._asdict() for sample in samples])


class Stretch(NamedTuple):
    """The part of a day that a sample stands for."""

    day: date
    sample: Gpu
    seconds: float


Rows = dict[tuple[Any, ...], dict[str, Any]]


def by_gpu(samples: Sequence[Gpu]) -> dict[str, list[Gpu]]:
    """In the order of time, each moment once."""
    found: dict[str, dict[int, Gpu]] = defaultdict(dict)
    for sample in samples:
        found[sample.gpu_uuid].setdefault(sample.ts_ms, sample)
    return {gpu: [rows[at] for at in sorted(rows)] for gpu, rows in found.items()}


def covers(rows: Sequence[Gpu]) -> list[float]:
    gaps = [(after.ts_ms - before.ts_ms) / 1000 for before, after in pairwise(rows)]
    usual = [median(gaps[max(at - 5, 0) : at + 6]) for at in range(len(gaps))]
    return [min(gap, MOST_INTERVALS * often, MOST_SECONDS) for gap, often in zip(gaps, usual, strict=True)] + [0.0]


def stretches(samples: Sequence[Gpu], zone: str) -> Iterator[Stretch]:
    """Cut at each midnight of the zone."""
    clock = ZoneInfo(zone)
    for rows in by_gpu(samples).values():
        for sample, seconds in zip(rows, covers(rows), strict=True):
            begin = datetime.fromtimestamp(sample.ts_ms / 1000, UTC)
            end = begin + timedelta(seconds=seconds)
            at, day = begin, begin.astimezone(clock).date()
            while True:
                midnight = datetime.combine(day + timedelta(days=1), time(), clock).astimezone(UTC)
                until = min(end, midnight)
                if until > at or day == begin.astimezone(clock).date():
                    yield Stretch(day, sample, (until - at).total_seconds())
                if end <= midnight:
                    break
                at, day = midnight, day + timedelta(days=1)


def grouped(parts: Iterator[Stretch]) -> dict[tuple[str, date], list[Stretch]]:
    found: dict[tuple[str, date], list[Stretch]] = defaultdict(list)
    for part in parts:
        found[part.sample.gpu_uuid, part.day].append(part)
    return found


def hot(samples: Sequence[Gpu], zone: str, threshold: float) -> Rows:
    known = (part for part in stretches(samples, zone) if part.sample.temperature_celsius is not None)
    rows: Rows = {}
    for (gpu, day), parts in grouped(known).items():
        total = sum(part.seconds for part in parts)
        pairs = sorted((float(part.sample.temperature_celsius or 0), part.seconds if total else 1.0) for part in parts)
        weight = sum(seconds for _, seconds in pairs)
        slow = [part.sample.slowdown_temperature_celsius for part in parts]
        limit = max((each for each in slow if each is not None), default=threshold)
        reached, p95 = 0.0, pairs[-1][0]
        for celsius in sorted({celsius for celsius, _ in pairs}):
            reached += sum(seconds for other, seconds in pairs if other == celsius)
            if reached >= 0.95 * weight - 1e-9:
                p95 = celsius
                break
        rows[gpu, day] = {
            "observed_hours": total / 3600,
            "mean_celsius": sum(celsius * seconds for celsius, seconds in pairs) / weight,
            "p95_celsius": p95,
            "max_celsius": pairs[-1][0],
            "threshold_celsius": limit,
            "hot_hours": sum(part.seconds for part in parts if (part.sample.temperature_celsius or 0) >= limit) / 3600,
        }
    return rows


def throttled(samples: Sequence[Gpu], zone: str) -> Rows:
    known = (part for part in stretches(samples, zone) if part.sample.clock_event_reasons is not None)
    return {
        (gpu, day): {
            "observed_hours": sum(part.seconds for part in parts) / 3600,
            **{
                f"{reason}_hours": sum(part.seconds for part in parts if (part.sample.clock_event_reasons or 0) & bits)
                / 3600
                for reason, bits in REASONS.items()
            },
        }
        for (gpu, day), parts in grouped(known).items()
    }


def grown(values: list[int | None], *, may_restart: bool) -> list[int]:
    """What a counter grew by at each sample."""
    before: int | None = None
    steps = []
    for value in values:
        step = 0
        if value is not None and before is not None:
            step = value - before if value >= before else value if may_restart else 0
        before = value if value is not None else before
        steps.append(step)
    return steps


def errors(samples: Sequence[Gpu], zone: str) -> Rows:
    rows: Rows = {}
    for gpu, ordered in by_gpu(samples).items():
        steps = {
            "ecc_corrected": grown([each.ecc_corrected_total for each in ordered], may_restart=True),
            "ecc_uncorrected": grown([each.ecc_uncorrected_total for each in ordered], may_restart=True),
            "pcie_replays": grown([each.pcie_replays_total for each in ordered], may_restart=True),
            "newly_remapped_uncorrectable": grown(
                [each.remapped_rows_uncorrectable for each in ordered], may_restart=False
            ),
        }
        for at, sample in enumerate(ordered):
            day = datetime.fromtimestamp(sample.ts_ms / 1000, ZoneInfo(zone)).date()
            row = rows.setdefault((gpu, day), dict.fromkeys([*steps, "errors", "serious_errors"], 0))
            for name, grown_by in steps.items():
                row[name] += grown_by[at]
                row["errors"] += grown_by[at]
                row["serious_errors"] += grown_by[at] if "uncorrect" in name else 0
    fleet = median(row["errors"] for row in rows.values()) if rows else 0
    for (gpu, day), row in rows.items():
        others = [other["errors"] for (name, when), other in rows.items() if name == gpu and when != day]
        usual = max(median(others) if others else 0, fleet)
        is_many = row["errors"] >= 10 * max(usual, 1)
        row["is_spike"] = is_many or (row["serious_errors"] > 0 and row["errors"] > usual)
    return rows


def energies(rows: Sequence[Gpu]) -> list[tuple[float | None, float]]:
    """Of each sample: by the counter, unless it went back or is not there; else by power. And what nobody saw."""
    found: list[tuple[float | None, float]] = []
    for at, (sample, seconds) in enumerate(zip(rows, covers(rows), strict=True)):
        later = rows[at + 1] if at + 1 < len(rows) else None
        now, then = sample.energy_joules_total, later.energy_joules_total if later else None
        if later and now is not None and then is not None and then >= now:
            seen = (then - now) * seconds / ((later.ts_ms - sample.ts_ms) / 1000)
            found.append((seen, then - now - seen))
        else:
            found.append((None if sample.power_watts is None else sample.power_watts * seconds, 0.0))
    return found


def owner_of(sample: Gpu, least_busy: float = 0.01) -> str:
    """What is in use has an owner; what has no process, and could be looked at, is nobody's."""
    if sample.owner_kind is not None:
        return sample.owner_kind
    if (sample.gpu_busy_ratio or 0) >= least_busy or (sample.memory_used_bytes or 0) >= 2**30 or sample.processes:
        return "unattributed"
    return "unknown" if sample.processes is None else "nobody"


def energy(samples: Sequence[Gpu]) -> Rows:
    rows: Rows = {}
    for gpu, ordered in by_gpu(samples).items():
        for sample, (joules, unseen), seconds in zip(ordered, energies(ordered), covers(ordered), strict=True):
            if unseen > 1e-9:
                gap = rows.setdefault(("unseen", "unseen"), {"gpus": set(), "gpu_hours": 0.0, "energy_joules": 0.0})
                gap["gpus"].add(gpu)
                gap["energy_joules"] += unseen
            kind = owner_of(sample)
            key = (kind, sample.owner_id or kind)
            row = rows.setdefault(key, {"gpus": set(), "gpu_hours": 0.0, "energy_joules": None})
            row["gpus"].add(gpu)
            row["gpu_hours"] += seconds / 3600
            if joules is not None:
                row["energy_joules"] = (row["energy_joules"] or 0.0) + joules
    return {key: {**row, "gpus": len(row["gpus"])} for key, row in rows.items()}


def idle(samples: Sequence[Gpu], zone: str, held: Sequence[tuple[float, int, int]], ratio: float) -> Rows:
    """`held` has what the scheduler held of the node: GPUs, from and until, milliseconds."""
    names = (
        *("observed", "unmeasured", "free", "unknown", "held", "held_by_unknown", "held_idle", "held_busy"),
        *("held_empty", "idle_by_use", "idle_by_scheduler"),
    )
    views = [
        (sample, sample.ts_ms, sample.ts_ms + seconds * 1000)
        for rows in by_gpu(samples).values()
        for sample, seconds in zip(rows, covers(rows), strict=True)
    ]
    found: Rows = {}
    for (gpu, day), parts in grouped(stretches(samples, zone)).items():
        row = found[gpu, day] = dict.fromkeys([f"{name}_hours" for name in names], 0.0)
        for _, sample, seconds in parts:
            hours = seconds / 3600
            at_once = [each for each, begin, end in views if begin <= sample.ts_ms < end] or [sample]
            owned = sum(owner_of(each) not in ("nobody", "unknown") for each in at_once)
            seen = len(at_once)
            scheduled = sum(gpus for gpus, begin, end in held if begin <= sample.ts_ms < end)
            owner = owner_of(sample)
            has_owner = owner not in ("nobody", "unknown")
            share = 1.0 if has_owner else min(max(scheduled - owned, 0) / max(seen - owned, 1), 1.0)
            is_reported = bool(held) and min(each[1] for each in held) <= sample.ts_ms < max(each[2] for each in held)
            row["observed_hours"] += hours
            if sample.gpu_busy_ratio is None:
                row["unmeasured_hours"] += hours
                continue
            is_idle = sample.gpu_busy_ratio < ratio
            row["free_hours" if is_reported or owner == "nobody" else "unknown_hours"] += hours * (1 - share)
            row["held_hours"] += hours * share
            row["held_by_unknown_hours"] += hours if owner == "unattributed" else 0
            row["idle_by_use_hours"] += hours if is_idle and has_owner and not sample.owner_kind else 0
            row["held_idle_hours" if is_idle else "held_busy_hours"] += hours * share
            row["held_empty_hours"] += hours * share if is_idle and sample.processes == 0 else 0
            row["idle_by_scheduler_hours"] += hours * share if is_idle and not has_owner else 0
    return found
