"""Predicts the run time of a task at its submission, from tasks that had ended by then: recurring jobs run alike.

The prediction is the median of the last runs of the same group with the same request; else of the last runs of the
group; else of the user; else of everybody. Tasks that ended at or after the submission do not count, nor does the GPU
type that a task was given later.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, fields
from heapq import heappush, heappushpop
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulake.core.packaged import queries
from gpulake.core.types import DurationScore
from gpulake.lake import LakeReader

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
RUNS_KEPT = 5
BLOCK_ROWS = 65_536
NO_GROUP = -1
NOTHING, EVERYBODY, USER, GROUP, REQUEST = range(5)
"""What a prediction rests on, the weakest first."""
PAST_RUNS = {"0": (0, 0), "1": (1, 1), "2 to 4": (2, 4), "5 to 9": (5, 9), "10 and more": (10, None)}
PREDICTED_UP_TO = {"1 min": 60.0, "10 min": 600.0, "1 h": 3600.0, "6 h": 21_600.0, "1 d": 86_400.0}
CLOSE = 0.25
# Times are whole seconds, so shorter runs have no useful logarithm.
LEAST_SECONDS = 1.0
SQL = queries("gpulake.replay", "predictions.sql", no_group=str(NO_GROUP))


@dataclass(frozen=True)
class Tasks:
    """Tasks with a known run time; times in seconds, the rest keys."""

    submitted: Floats
    ended: Floats
    seconds: Floats
    instances: Ints
    user: Ints
    group: Ints  # NO_GROUP: none
    request: Ints  # hash of the request, within its group


@dataclass(frozen=True)
class Predictions:
    """In seconds, for each task; NaN where nothing had ended yet."""

    seconds: Floats
    user_median: Floats
    overall_median: Floats
    basis: NDArray[np.int8]
    past_runs: Ints  # of its group


@dataclass(frozen=True)
class CalibrationRow:
    """Tasks with a predicted run time below a bound, and above the bound before it."""

    predicted_below: str
    tasks: int
    median_predicted_seconds: float
    median_seconds: float
    not_longer_ratio: float  # ran no longer than predicted; 0.5 if the median was met
    within_quarter_ratio: float


class RunningMedian:
    """The median of all added values: the lower and the upper half, each a heap."""

    __slots__ = ("high", "low")

    def __init__(self) -> None:
        self.low: list[float] = []  # negated
        self.high: list[float] = []

    def add(self, value: float) -> None:
        if len(self.low) > len(self.high):
            heappush(self.high, -heappushpop(self.low, -value))
        else:
            heappush(self.low, -heappushpop(self.high, value))

    @property
    def value(self) -> float:
        return -self.low[0] if len(self.low) > len(self.high) else (self.high[0] - self.low[0]) / 2


@dataclass
class Memory:
    """What has ended so far."""

    everybody: RunningMedian
    users: dict[int, RunningMedian]
    groups: dict[int, list[float]]  # the last runs; a deque would take five times the memory
    requests: dict[int, list[float]]
    runs: dict[int, int]

    def learn(self, seconds: float, user: int, group: int, request: int) -> None:
        self.everybody.add(seconds)
        self.users.setdefault(user, RunningMedian()).add(seconds)
        if group != NO_GROUP:
            self.runs[group] = self.runs.get(group, 0) + 1
            for recent in (self.groups.setdefault(group, []), self.requests.setdefault(request, [])):
                recent.append(seconds)
                del recent[:-RUNS_KEPT]

    def predict(self, user: int, group: int, request: int) -> tuple[float, float, float, int, int]:
        """The prediction, the medians of the user and of everybody, its basis, and the past runs of the group."""
        if not self.everybody.low:
            return np.nan, np.nan, np.nan, NOTHING, 0
        overall = self.everybody.value
        past = self.users.get(user)
        user_median = past.value if past else overall
        runs = self.runs.get(group, 0)
        if runs:
            same = self.requests.get(request, [])
            return median(same or self.groups[group]), user_median, overall, REQUEST if same else GROUP, runs
        return user_median, user_median, overall, USER if past else EVERYBODY, 0


def score_durations(reader: LakeReader, cluster: str = "pai") -> list[DurationScore]:
    """How well the run times of a cluster's tasks could have been predicted."""
    tasks = read_tasks(reader, cluster)
    return scores(tasks, predict(tasks))


def read_tasks(reader: LakeReader, cluster: str) -> Tasks:
    return tasks_of(reader.query(SQL["tasks"], cluster=cluster))


def tasks_of(table: pa.Table) -> Tasks:
    return Tasks(**{field.name: table[field.name].to_numpy() for field in fields(Tasks)})


def predicted_seconds(jobs: Tasks) -> Floats:
    """The run time of each, from those that ended before its submission; NaN where none had."""
    return predict(jobs).seconds


def predict(tasks: Tasks) -> Predictions:
    """Replays submissions and ends in the order of time."""
    # A task that ended before its submission must not learn from itself.
    ended = np.maximum(tasks.ended, tasks.submitted)
    end_order = np.argsort(ended, kind="stable")
    submission_order = np.argsort(tasks.submitted, kind="stable")
    history = _rows(end_order, ended, tasks.seconds, tasks.user, tasks.group, tasks.request)
    submissions = _rows(submission_order, tasks.submitted, tasks.user, tasks.group, tasks.request)
    memory = Memory(RunningMedian(), {}, {}, {}, {})
    predicted: tuple[array[Any], ...] = (array("d"), array("d"), array("d"), array("b"), array("q"))
    following = next(history, None)
    for submitted, user, group, request in submissions:
        while following is not None and following[0] < submitted:
            memory.learn(*following[1:])
            following = next(history, None)
        for column, value in zip(predicted, memory.predict(user, group, request), strict=True):
            column.append(value)
    return Predictions(*(_placed(column, submission_order) for column in predicted))


def scores(tasks: Tasks, predictions: Predictions) -> list[DurationScore]:
    """By method and number of past runs of the group; `all` first."""
    methods = {
        "recurrence": predictions.seconds,
        "user": predictions.user_median,
        "everybody": predictions.overall_median,
    }
    out = []
    for method, seconds in methods.items():
        for name, (least, most) in {"all": (0, None), **PAST_RUNS}.items():
            chosen = (predictions.basis > NOTHING) & (predictions.past_runs >= least)
            if most is not None:
                chosen &= predictions.past_runs <= most
            out.append(_score(method, name, tasks, seconds, predictions.basis, chosen))
    return out


def calibration(tasks: Tasks, predictions: Predictions) -> list[CalibrationRow]:
    """By predicted run time: how long such tasks really ran. Calibrated: half of them no longer than predicted."""
    rows = []
    edges = pairwise([0.0, *PREDICTED_UP_TO.values(), np.inf])
    for name, (least, most) in zip([*PREDICTED_UP_TO, "longer"], edges, strict=True):
        chosen = (predictions.seconds >= least) & (predictions.seconds < most)
        true, predicted = tasks.seconds[chosen], predictions.seconds[chosen]
        if len(true):
            close = float(np.mean(np.abs(predicted - true) <= CLOSE * true))
            middle, at_most = float(np.median(true)), float(np.mean(true <= predicted))
            rows.append(CalibrationRow(name, len(true), float(np.median(predicted)), middle, at_most, close))
    return rows


def _score(
    method: str, past_runs: str, tasks: Tasks, predicted: Floats, basis: NDArray[np.int8], chosen: NDArray[np.bool_]
) -> DurationScore:
    true, seconds, instances = tasks.seconds[chosen], predicted[chosen], tasks.instances[chosen]
    is_close = np.abs(seconds - true) <= CLOSE * true
    errors = np.abs(np.log(np.maximum(seconds, LEAST_SECONDS) / np.maximum(true, LEAST_SECONDS)))
    count = int(chosen.sum())
    return DurationScore(
        method=method,
        past_runs=past_runs,
        tasks=count,
        instances=int(instances.sum()),
        from_group_ratio=float(np.mean(basis[chosen] >= GROUP)) if count else None,
        within_quarter_ratio=float(np.mean(is_close)) if count else None,
        within_quarter_instances_ratio=float(instances[is_close].sum() / instances.sum()) if count else None,
        median_log_error=float(np.median(errors)) if count else None,
    )


def _rows(order: NDArray[np.intp], *columns: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows in an order, a block at a time: Python numbers take four times the memory of an array's."""
    for begin in range(0, len(order), BLOCK_ROWS):
        block = order[begin : begin + BLOCK_ROWS]
        yield from zip(*(column[block].tolist() for column in columns), strict=True)


def _placed(values: array[Any], order: NDArray[np.intp]) -> NDArray[Any]:
    """Values given in an order, back in the places of the tasks."""
    ordered = np.array(values)
    placed = np.empty_like(ordered)
    placed[order] = ordered
    return placed
