"""What if: changes to a past, and what they do to waits, GPU-hours and cost."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.config import GpuType
from gpulake.core.errors import InputError, UsageError, choice_hint
from gpulake.core.gpu_models import matching
from gpulake.replay.backtest import QUANTILES, Fit, queue_lengths, shared, starts_of
from gpulake.replay.kernel.arrays import GPU
from gpulake.replay.policies import POLICIES
from gpulake.replay.simulation import Outcome, simulate
from gpulake.replay.trace import Machines
from gpulake.replay.window import Window

_GPUS = re.compile(r"([+-]\d{1,6})(?::(.+))?")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
GPUS_OF_MACHINE = 8  # of an added machine, if the cluster has none of its type


@dataclass(frozen=True)
class Scenario:
    """Nothing changed where nothing is said."""

    name: str = "as it is"
    policy: str = ""  # empty: the one that the back-test found
    gpus: str = ""  # such as +64:A100 or -8
    checkpoint_seconds: int = 0  # 0: none, a failure loses all
    cordon_after: int = 0  # failures of a machine after which it is taken out for good; 0: never
    cancel_idle_seconds: int = 0  # a run whose GPUs are idle all its life is cancelled then; 0: never

    def __post_init__(self) -> None:
        for key in ("name", "policy", "gpus"):
            if not isinstance(value := getattr(self, key), str):
                raise UsageError(f"{key} is no text: {value!r}", f'put it in quotes: {key} = "{value}"')
        if type(self.cordon_after) is not int or self.cordon_after < 0:
            raise UsageError(f"cordon_after is no number of failures: {self.cordon_after!r}", "write: cordon_after = 2")
        if self.policy:
            POLICIES.get(self.policy)
        if self.gpus and not _GPUS.fullmatch(self.gpus):
            raise UsageError(f"{self.gpus!r} is no change of GPUs", "write it like +64:A100 or -8")


@dataclass(frozen=True)
class Result:
    scenario: Scenario
    policy: str
    runs: int
    unstarted: int
    wait_seconds: tuple[float, ...]  # p50, p90, p99
    by_size: dict[str, tuple[float, ...]]
    utilisation_ratio: float  # of the GPU time of the machines, held
    fragmented_ratio: float  # of the free GPU time, on machines that are partly held
    queue_mean: float
    queue: NDArray[np.float64]  # waiting runs, at each full hour
    held_gpu_hours: float
    lost_gpu_hours: float
    energy_kwh: float | None
    cost: float | None
    outcome: Outcome

    def as_record(self) -> dict[str, Any]:
        left_out = {"outcome", "queue", "scenario"}
        columns = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out}
        return {"scenario": self.scenario.name, **columns}


def read_scenarios(path: Path) -> list[Scenario]:
    """`[[scenario]]` tables with the options of the command as keys: name, policy, gpus, checkpoint, …"""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("scenario", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}", "write [[scenario]] tables in TOML") from error
    if not isinstance(tables, list) or not tables:
        raise InputError(f"{path} has no [[scenario]]", 'write: [[scenario]], name = "more", gpus = "+64"')
    found = [_scenario(number, table) for number, table in enumerate(tables, 1)]
    names = ["as it is", "what if", *(one.name for one in found)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f"two scenarios are named {twice!r}", "the rows of each are known by its name: give it another"
        )
    return found


def _scenario(number: int, table: Any) -> Scenario:
    if not isinstance(table, Mapping):
        raise InputError(
            f"scenario {number} is no table: {table!r}", 'write: [[scenario]], name = "more", gpus = "+64"'
        )
    spans = {"checkpoint": "checkpoint_seconds", "cancel_idle": "cancel_idle_seconds"}
    values: dict[str, Any] = {"name": f"scenario {number}"}
    for key, value in dict[str, Any](table).items():
        known = {"name", "policy", "gpus", "cordon_after", *spans}
        if key not in known:
            raise UsageError(f"a scenario has no {key!r}", choice_hint(key, known))
        values[spans.get(key, key)] = span_seconds(value) if key in spans else value
    return Scenario(**values)


def span_seconds(text: object) -> int:
    found = _SPAN.fullmatch(str(text))
    seconds = int(float(found[1]) * _SECONDS[found[2]]) if found else 0
    if seconds < 1:
        raise UsageError(f"{text!r} is no span of time", "write it like 30m, 2h or 3d")
    return seconds


def changed(window: Window, scenario: Scenario) -> Window:
    trace, machines = window.trace, window.machines
    if scenario.cancel_idle_seconds:
        most = scenario.cancel_idle_seconds
        trace = replace(trace, work=np.where(window.past.is_idle, np.minimum(trace.work, most), trace.work))
    if scenario.cordon_after:
        machines = _cordoned(machines, scenario.cordon_after, window.until - window.begin + 2)
    if scenario.gpus:
        machines = _resized(machines, scenario.gpus)
    return replace(window, trace=trace, machines=machines)


def _cordoned(machines: Machines, after: int, until: int) -> Machines:
    """From its so manieth failure on a machine stays out."""
    order = np.argsort(machines.out_from, kind="stable")
    which, begin, end = machines.out_machine[order], machines.out_from[order], machines.out_until[order].copy()
    is_kept = np.ones(len(which), np.bool_)
    for machine in np.unique(which):
        places = np.flatnonzero(which == machine)
        if len(places) >= after:
            end[places[after - 1]] = until
            is_kept[places[after:]] = False
    return machines.with_outages(which[is_kept], begin[is_kept], end[is_kept])


def _resized(machines: Machines, text: str) -> Machines:
    """More machines like those of the type, or fewer of them, the last first."""
    found = _GPUS.fullmatch(text)
    assert found is not None, text
    change, given = int(found[1]), found[2]
    kinds = {kind.lower(): kind for kind in machines.types}
    if given is None and len(kinds) > 1:
        raise UsageError(f"{text!r} names no type, and there are several", f"write {text}:{machines.types[0]}")
    kind = kinds.get((given or machines.types[0]).lower())
    if kind is None:
        raise UsageError(f"no machine has GPUs of type {given!r}", choice_hint(given or "", set(machines.types)))
    places = np.flatnonzero(np.array(machines.types) == kind)
    gpus = machines.gpus.copy()
    if change < 0:
        if -change > gpus[places].sum():
            raise UsageError(f"{kind} has {gpus[places].sum()} GPUs", "remove fewer")
        for place in places[::-1]:
            taken = min(int(gpus[place]), -change)
            gpus[place] -= taken
            change += taken
        return replace(machines, gpus=gpus)
    each = int(np.median(gpus[places])) or GPUS_OF_MACHINE
    more = [each] * (change // each) + ([change % each] if change % each else [])
    if len(places) == 1 and machines.gpus[places[0]] > 64:
        gpus[places[0]] += change  # a pool that stands for all machines
        return replace(machines, gpus=gpus)
    column = machines.allow[:, places].max(axis=1, keepdims=True)
    return replace(
        machines,
        gpus=np.concatenate([gpus, np.array(more, np.int64)]),
        allow=np.concatenate([machines.allow, np.repeat(column, len(more), axis=1)], axis=1),
        tier=np.concatenate([machines.tier, np.repeat(machines.tier[places[:1]], len(more))]),
        types=(*machines.types, *(kind,) * len(more)),
    )


def simulate_all(
    window: Window, fit: Fit, scenarios: Sequence[Scenario], gpu_types: Mapping[str, GpuType]
) -> list[Result]:
    if window.is_warm.all():
        raise InputError("no run became eligible in the time that is simulated", "take more --weeks")
    return [_result(window, fit, scenario, gpu_types) for scenario in scenarios]


def _result(window: Window, fit: Fit, scenario: Scenario, gpu_types: Mapping[str, GpuType]) -> Result:
    used = changed(replace(window, machines=shared(window.machines, fit.capacity_share)), scenario)
    name = scenario.policy or fit.policy
    tuning = replace(fit.tuning, checkpoint_seconds=scenario.checkpoint_seconds)
    if scenario.policy and scenario.policy != fit.policy:
        tuning = replace(tuning, depth=0)
    outcome = simulate(
        used.trace, used.machines, POLICIES.get(name), tuning, until=used.until - used.begin + 2, is_logged=True
    )
    waits, is_scored = used.waits(outcome), ~used.is_warm
    hours = (used.until - used.begin) / 3600
    total = used.machines.total_gpus * hours
    held = float(outcome.held_gpu_seconds.sum()) / 3600
    queue = queue_lengths(used, starts_of(used, outcome))
    sizes = used.past.size
    return Result(
        scenario,
        name,
        int(is_scored.sum()),
        int((is_scored & (outcome.start < 0)).sum()),
        _levels(waits[is_scored]),
        {size: _levels(waits[is_scored & (sizes == size)]) for size in np.unique(sizes[is_scored]).tolist()},
        held / total if total else 0.0,
        _fragmented(used, outcome),
        float(queue.mean()),
        queue,
        held,
        float(outcome.lost_gpu_seconds.sum()) / 3600,
        *_price(used, outcome, hours, gpu_types),
        outcome,
    )


def _levels(waits: Any) -> tuple[float, ...]:
    return tuple(float(np.quantile(waits, level)) for level in QUANTILES) if len(waits) else (0.0,) * len(QUANTILES)


def _fragmented(window: Window, outcome: Outcome) -> float:
    """Of the free GPUs at full hours, the share on machines that are partly held."""
    hours = np.arange(1, window.until - window.begin, 3600)
    held = np.zeros((len(hours) + 1, len(window.machines.gpus)))
    _, machine, _, begin, end, part = outcome.log.T
    np.add.at(held, (np.searchsorted(hours, begin), machine), part)
    np.add.at(held, (np.searchsorted(hours, end), machine), -part)
    held = np.cumsum(held, axis=0)[:-1] / GPU
    free = np.maximum(0, window.machines.gpus - held)
    return float(free[held > 0].sum() / free.sum()) if free.sum() else 0.0


def _price(
    window: Window, outcome: Outcome, hours: float, gpu_types: Mapping[str, GpuType]
) -> tuple[float | None, float | None]:
    """Energy of the boards (held: busy, else idle) and the price of what was held; None if a type's is unknown."""
    energy, cost = 0.0, 0.0
    types = np.array(window.machines.types)
    for kind in np.unique(types):
        known = matching(str(kind), gpu_types)
        of_type = np.isin(outcome.log[:, 1], np.flatnonzero(types == kind))
        log = outcome.log[of_type]
        held = float(((log[:, 4] - log[:, 3]) * log[:, 5]).sum()) / GPU / 3600
        free = max(0.0, float(window.machines.gpus[types == kind].sum()) * hours - held)
        energy += (held * known.busy_watts + free * known.idle_watts) / 1000 if known else float("nan")
        cost += held * known.price_per_hour if known else float("nan")
        if known and min(known.busy_watts, known.idle_watts) < 0:
            energy = float("nan")
        if known and known.price_per_hour < 0:
            cost = float("nan")
    return (None if np.isnan(energy) else energy), (None if np.isnan(cost) else cost)
