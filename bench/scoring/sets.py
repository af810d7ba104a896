"""Labelled series on disk: a folder of NAB's, or a folder of Parquet files with a column `label`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gpulake.core.errors import InputError
from gpulake.detect.series import Bools, Ints, Series, usual_interval_ms

# These sets are published without times; the papers name the interval between rows.
INTERVALS_MS = {"smd": 60_000, "asd": 300_000}
NO_METRIC = {"machine", "t", "split", "label"}
PROBATION, MOST_PROBATION = 0.15, 750


@dataclass(frozen=True)
class LabelledSeries:
    """A series whose incidents are known. What comes before `scored_from` is there to learn from."""

    collection: str
    series: Series
    is_labelled: Bools
    scored_from: int
    has_split: bool  # into a part to learn from and a part to score


def read_cases(folder: Path, interval_ms: int) -> Iterator[LabelledSeries]:
    """Those of a folder that is a set, or of the sets in it."""
    found = [each for each in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())) if _is_set(each)]
    if not found:
        raise InputError(f"no labelled series in {folder}", "give a folder that has nab/, smd/ or asd/, or is one")
    for each in found:
        name = each.resolve().name
        if _is_nab(each):
            yield from _nab(each, name)
        else:
            for path in sorted(each.glob("*.parquet")):
                case = _parquet(path, name, INTERVALS_MS.get(name, interval_ms))
                if case is not None:
                    yield case


def _is_nab(folder: Path) -> bool:
    return (folder / "windows.json").is_file() and (folder / "data").is_dir()


def _is_set(folder: Path) -> bool:
    return _is_nab(folder) or any("label" in _columns(path) for path in sorted(folder.glob("*.parquet"))[:1])


def _columns(path: Path) -> list[str]:
    from pyarrow import parquet

    names: list[str] = parquet.read_schema(path).names
    return names


def _nab(folder: Path, name: str) -> Iterator[LabelledSeries]:
    windows: dict[str, list[list[str]]] = json.loads((folder / "windows.json").read_text(encoding="utf-8"))
    for path in sorted((folder / "data").rglob("*.csv")):
        key = path.relative_to(folder / "data").as_posix()
        if key not in windows:
            continue
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        times = np.array([_ms(row["timestamp"]) for row in rows], dtype=np.int64)
        is_labelled = np.zeros(len(rows), dtype=np.bool_)
        for begin, end in windows[key]:
            is_labelled |= (times >= _ms(begin)) & (times <= _ms(end))
        values = np.array([[_number(row["value"])] for row in rows], dtype=np.float64).reshape(-1, 1)
        interval = usual_interval_ms(times)
        series = Series(key.removesuffix(".csv"), ("value",), _increasing(times, interval), values, interval)
        yield LabelledSeries(name, series, is_labelled, _probation(len(rows)), False)


def _parquet(path: Path, name: str, interval_ms: int) -> LabelledSeries | None:
    from pyarrow import parquet

    table = parquet.read_table(path)
    if "label" not in table.column_names:
        return None
    metrics = tuple(column for column in table.column_names if column not in NO_METRIC)
    columns: list[Any] = [table[metric].to_numpy().astype(np.float64) for metric in metrics]
    is_labelled = np.nan_to_num(table["label"].to_numpy().astype(np.float64)) > 0
    count = table.num_rows
    # Clocks start anew where the part to score begins, so rows are counted.
    times = np.arange(count, dtype=np.int64) * interval_ms
    scored_from, has_split = _probation(count), False
    if "split" in table.column_names:
        is_past = np.array(table["split"].to_pylist(), dtype=object) == "train"
        if is_past.any() and not is_past.all() and not is_past[int(is_past.sum()) :].any():
            scored_from, has_split = int(is_past.sum()), True
    series = Series(path.stem, metrics, times, np.column_stack(columns), interval_ms)
    return LabelledSeries(name, series, is_labelled, scored_from, has_split)


def _probation(count: int) -> int:
    return min(int(PROBATION * count), MOST_PROBATION)


def _ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _number(text: str) -> float:
    return float(text) if text.strip() else float("nan")


def _increasing(times_ms: Ints, interval_ms: int) -> Ints:
    """The given times, or equally spaced ones where a clock went backwards (NAB has a change from summer time)."""
    if len(times_ms) < 2 or bool((np.diff(times_ms) > 0).all()):
        return times_ms
    return np.asarray(times_ms[0] + interval_ms * np.arange(len(times_ms)))
