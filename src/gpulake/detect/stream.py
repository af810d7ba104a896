"""The default detector over very many series at once, point by point: one metric each, a place a series.

It says what `surprise` says of a series of one metric. All that it remembers are arrays with a row a series, kept as a
Parquet file: going on from it is as good as never having stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.errors import InputError
from gpulake.detect.alarms import usual_gap
from gpulake.detect.calibration import LEAST_SPREAD, MOST_EXCEEDED, NOISE, WEARINESS
from gpulake.detect.detectors.surprise import (
    DAYS_KEPT,
    HALF,
    LAST_POINTS,
    LEAST_VARIATION,
    MOST_DEVIATIONS,
    POINTS_AN_ALARM,
    SLOT_MS,
    SMOOTHING,
    Surprise,
)
from gpulake.detect.running import FIRST_BLOCK, GROWTH, LEAST_BLOCK
from gpulake.detect.series import DAY_MS, Bools, Floats
from gpulake.detect.tail import BINS, bins_of, thresholds

FORMAT = "gpulake stream 1"
VIEWS = 3  # against the past, the last points, and the time of day


@dataclass
class Memory:
    """A row a series; what is of a view has a column a view."""

    shift: Floats
    sums: Floats
    squares: Floats
    seen: Floats
    largest: Floats
    mean: Floats  # as last fitted, and so on
    centre: Floats
    spread: Floats
    reach: Floats
    last: Floats  # the last points, the oldest overwritten
    usual: Floats  # by slot of the day
    days: Floats
    slot_sum: Floats  # of the slot that is now
    slot_seen: Floats
    total: Floats  # of all points, from the first on
    points: Floats
    statistic: Floats
    threshold: Floats
    burden: Floats  # of past alarms
    since: Floats  # points since the last flag
    counts: Floats


@dataclass(frozen=True)
class Judgement:
    """Of one moment, a place a series."""

    score: Floats
    is_flagged: Bools


def _empty(series: int, slots: int) -> Memory:
    def zeros(*columns: int) -> Floats:
        return np.zeros((series, *columns))

    views = {name: zeros(VIEWS) for name in ("sums", "squares", "seen", "largest", "mean", "centre", "spread", "reach")}
    plain = {name: zeros() for name in ("slot_sum", "slot_seen", "total", "points", "statistic", "burden")}
    return Memory(
        **views,
        **plain,
        shift=np.full((series, VIEWS), np.nan),
        last=np.full((series, LAST_POINTS), np.nan),
        usual=np.full((series, slots), np.nan),
        days=zeros(slots),
        threshold=np.full(series, np.inf),
        since=np.full(series, np.inf),
        counts=zeros(BINS),
    )


class Stream:
    """Series that are measured at the same times. One that starts later, or pauses, has NaN meanwhile."""

    def __init__(self, series: int, interval_ms: int, alarms_a_day: float = Surprise.alarms_a_day) -> None:
        self.interval_ms = interval_ms
        self.exceeded = min(MOST_EXCEEDED, alarms_a_day * POINTS_AN_ALARM * interval_ms / DAY_MS)
        self.gap = usual_gap(interval_ms)
        self.slot_ms = max(SLOT_MS, interval_ms)
        self.slots = max(1, DAY_MS // self.slot_ms)
        self.memory = _empty(series, self.slots)
        self.count = 0
        self.block_end = FIRST_BLOCK
        self.slot = -1
        self.moment_ms = -1

    def update(self, moment_ms: int, values: Floats) -> Judgement:
        memory = self.memory
        if self.count and moment_ms <= self.moment_ms:
            raise InputError(f"time {moment_ms} is not after {self.moment_ms}", "give each time once, in order")
        if self.count == self.block_end:
            self._fit()
        slot = moment_ms // self.slot_ms
        if slot != self.slot:
            self._end_slot()
            self.slot = slot
        is_there = ~np.isnan(values)
        residuals = self._residuals(values)
        blend = self._learn(residuals, ~np.isnan(residuals))
        memory.statistic *= 1.0 - 1.0 / SMOOTHING
        memory.statistic += blend / SMOOTHING
        if self.count >= FIRST_BLOCK:
            memory.counts[np.arange(len(values)), bins_of(memory.statistic)] += 1
        self._remember(values, is_there)
        is_ready = self.count >= Surprise.least_points
        is_flagged = self._flag(is_there) if is_ready else np.zeros(len(values), dtype=np.bool_)
        self.count += 1
        self.moment_ms = moment_ms
        score = memory.statistic / (memory.statistic + HALF) if is_ready else np.zeros(len(values))
        return Judgement(score, is_flagged)

    def _flag(self, is_there: Bools) -> Bools:
        """See `wearied`."""
        memory = self.memory
        memory.burden *= np.exp(-self.interval_ms / DAY_MS)
        is_lasting = memory.since <= self.gap
        threshold = memory.threshold * np.where(is_lasting, 1.0, WEARINESS**memory.burden)
        is_flagged = is_there & (memory.statistic >= threshold)
        memory.burden += is_flagged & ~is_lasting
        memory.since = np.where(is_flagged, 0.0, memory.since) + 1.0
        return np.asarray(is_flagged)

    def _residuals(self, values: Floats) -> Floats:
        memory = self.memory
        with np.errstate(invalid="ignore", divide="ignore"):
            usual = memory.usual[:, self.slot % self.slots]
            usual = np.where(np.isnan(usual), memory.shift[:, 0] + memory.total / memory.points, usual)
            is_known = ~np.isnan(memory.last)
            recent = np.where(is_known, memory.last, 0.0).sum(axis=1) / is_known.sum(axis=1)
        return np.stack([values, values - recent, values - usual], axis=1)

    def _learn(self, residuals: Floats, is_there: Bools) -> Floats:
        """Adds a moment to the sums, and returns how surprising it was."""
        memory = self.memory
        is_first = np.isnan(memory.shift) & is_there
        if is_first.any():
            memory.shift[is_first] = residuals[is_first]
        blend = np.zeros(len(residuals))
        kept = residuals
        if self.count >= FIRST_BLOCK:
            away = residuals - memory.mean
            deviations = np.where(is_there, np.clip(away / memory.spread, -MOST_DEVIATIONS, MOST_DEVIATIONS), 0.0)
            blend = np.cbrt((deviations**2).prod(axis=1))
            kept = memory.mean + np.clip(away, -memory.reach, memory.reach)
        moved = np.where(is_there, kept - memory.shift, memory.centre)
        memory.sums += moved
        memory.squares += moved**2
        memory.seen += is_there
        np.maximum(memory.largest, np.abs(moved), out=memory.largest)
        return blend

    def _remember(self, values: Floats, is_there: Bools) -> None:
        memory = self.memory
        filled = np.where(is_there, values, 0.0)
        memory.last[:, self.count % LAST_POINTS] = values
        memory.slot_sum += filled
        memory.total += np.where(is_there, values - memory.shift[:, 0], 0.0)
        memory.points += is_there
        memory.slot_seen += is_there

    def _end_slot(self) -> None:
        memory = self.memory
        is_new = memory.slot_seen > 0
        place = self.slot % self.slots
        usual, days = memory.usual[:, place], memory.days[:, place]
        days[is_new] = np.minimum(days[is_new] + 1, DAYS_KEPT)
        before = np.where(np.isnan(usual), 0.0, usual)[is_new]
        usual[is_new] = before + (memory.slot_sum[is_new] / memory.slot_seen[is_new] - before) / days[is_new]
        memory.slot_sum[:] = 0.0
        memory.slot_seen[:] = 0.0

    def _fit(self) -> None:
        """At the end of a block: what the next one is measured by."""
        memory, count = self.memory, self.count
        centre = memory.sums / count
        variance = (memory.squares / count - centre**2) * count / np.maximum(memory.seen, 1.0)
        spread = np.maximum(
            np.sqrt(np.maximum(variance, 0.0)), np.maximum(LEAST_VARIATION * memory.largest, LEAST_SPREAD)
        )
        mean = np.where(np.isnan(memory.shift), 0.0, memory.shift) + centre
        spread = np.maximum(spread, NOISE * np.abs(mean))
        with np.errstate(invalid="ignore"):
            has_varied = memory.largest > NOISE * np.abs(memory.shift)
        memory.mean, memory.centre, memory.spread = mean, centre, spread
        memory.reach = np.where(has_varied, MOST_DEVIATIONS * spread, np.inf)
        memory.threshold = thresholds(memory.counts, self.exceeded)
        self.block_end = count + max(LEAST_BLOCK, count // GROWTH)

    def save(self, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        columns: dict[str, Any] = {}
        for field in fields(Memory):
            values: NDArray[np.float64] = getattr(self.memory, field.name)
            flat = pa.array(values.reshape(-1))
            columns[field.name] = flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        numbers = {name: str(getattr(self, name)) for name in _NUMBERS}
        table = pa.table(columns).replace_schema_metadata(
            {"format": FORMAT, **numbers, "exceeded": repr(self.exceeded)}
        )
        parquet.write_table(table, path, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> Stream:
        from pyarrow import ArrowInvalid, parquet

        hint = "remove it; the stream begins anew"
        try:
            table = parquet.read_table(path)
            told = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
            if told.get("format") != FORMAT:
                raise InputError(f"{path} has format {told.get('format')!r}", hint)
            stream = cls(table.num_rows, int(told["interval_ms"]))
            for name in _NUMBERS:
                setattr(stream, name, int(told[name]))
            stream.exceeded = float(told["exceeded"])
            for field in fields(Memory):
                empty: NDArray[np.float64] = getattr(stream.memory, field.name)
                column = table[field.name].combine_chunks()
                values = column.to_numpy() if empty.ndim == 1 else column.flatten().to_numpy()
                setattr(stream.memory, field.name, np.array(values, dtype=np.float64).reshape(empty.shape))
        except (KeyError, ValueError, ArrowInvalid) as error:
            raise InputError(f"{path} is no state of a stream: {error}", hint) from error
        except OSError as error:
            raise InputError(f"cannot read the state {path}: {error}", "check the path") from error
        return stream


_NUMBERS = ("interval_ms", "count", "block_end", "slot", "moment_ms")


def score_rows(
    times_ms: NDArray[np.int64], values: NDArray[Any], interval_ms: int
) -> tuple[NDArray[np.float32], Bools]:
    """Scores and flags of many series over the same times, a row a series."""
    stream = Stream(len(values), interval_ms)
    scores = np.empty(values.shape, dtype=np.float32)
    flags = np.empty(values.shape, dtype=np.bool_)
    width = 64  # a column is scattered in memory: some are copied at once
    for begin in range(0, values.shape[1], width):
        block = np.ascontiguousarray(values[:, begin : begin + width].T, dtype=np.float64)
        said = [stream.update(int(times_ms[begin + place]), row) for place, row in enumerate(block)]
        scores[:, begin : begin + width] = np.stack([each.score for each in said], axis=1)
        flags[:, begin : begin + width] = np.stack([each.is_flagged for each in said], axis=1)
    return scores, flags
