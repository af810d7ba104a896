"""When steps of a training run ended and how long they took: from JSON lines, CSV, or the run's own log.

A log has the time and the counter of a line. It may have only every hundredth step; then the time from one such line to
the next counts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from zoneinfo import ZoneInfo

from gpulake.core.errors import InputError
from gpulake.diagnose.logs.reading import LogFile
from gpulake.diagnose.rulebook.book import Rulebook, shipped_rules
from gpulake.diagnose.story.lines import parse_line
from gpulake.formats.json_text import json_object
from gpulake.formats.training import logged_steps, training_file

Step = tuple[float, float]
"""When it ended, in seconds of the epoch, and how many seconds it took."""
HEAD_LINES = 50
MOST_STEPS = 2_000_000
TIMES = {"ts_ms": 0.001, "time": 1.0, "timestamp": 1.0, "ended_at": 1.0}
TOOK = {"step_ms": 0.001, "ms": 0.001, "seconds": 1.0, "step_seconds": 1.0}
HINT = (
    'give JSON lines like {"ts_ms": 1794733040858, "step_ms": 37.4}, a CSV with the header time,seconds, '
    "what W&B or TensorBoard export, or the log of the run, with times"
)


def read_steps(path: Path, time_zone: str = "UTC") -> tuple[list[Step], int]:
    """In the order of time, and how many rows could not be read. Times without a zone are of time_zone."""
    if not path.is_file():
        raise InputError(f"no such file of steps: {path}", HINT)
    file = LogFile(path.name, path)
    lines = (line for _, line in file.lines())
    head = list(islice(lines, HEAD_LINES))
    if export := training_file(path.name, head, path.parent.name):
        steps, bad_rows = logged_steps(export, path)
        if steps:
            return steps[:MOST_STEPS], bad_rows
    whole = chain(head, lines)
    first = next((line for line in head if line.strip()), "")
    if any(_keys(row) for line in head for row in [json_object(line)]):
        found = list(islice(_of_json(whole, time_zone), MOST_STEPS))
    elif columns := _columns(first):
        found = list(islice(_of_csv(whole, columns, time_zone), MOST_STEPS))
    else:
        found = list(islice(_of_log(whole, time_zone), MOST_STEPS))
    steps = sorted(step for step in found if step is not None)
    if not steps:
        raise InputError(f"{path} has no step with a time", HINT)
    return steps, len(found) - len(steps)


def _of_json(lines: Iterable[str], time_zone: str) -> Iterator[Step | None]:
    for line in lines:
        row = json_object(line)
        keys = _keys(row)
        if keys is not None:
            yield _step(str(row[keys[0]]), str(row[keys[1]]), keys, time_zone)
        elif line.strip():
            yield None


def _of_csv(lines: Iterable[str], columns: list[str], time_zone: str) -> Iterator[Step | None]:
    keys = _keys(dict.fromkeys(columns)) or (columns[0], columns[-1])
    at, took = columns.index(keys[0]), columns.index(keys[1])
    for number, row in enumerate(map(_cells, filter(str.strip, lines))):
        if number:
            is_whole = len(row) == len(columns)
            yield _step(row[at], row[took], keys, time_zone) if is_whole else None


def _of_log(lines: Iterable[str], time_zone: str) -> Iterator[Step | None]:
    """Of the first rank with steps; a counter that decreases belongs to another run."""
    book = Rulebook([rule for rule in shipped_rules() if rule.role == "progress" and "(?P<step>" in rule.pattern])
    writer: tuple[int | None, str] | None = None
    last: tuple[float, float] | None = None
    for line in lines:
        hits = book.hits(line)
        parsed = parse_line(line, time_zone) if hits else None
        counter = _number(hits[0].words.get("step", "")) if hits else None
        if parsed is None or parsed.at is None or counter is None:
            continue
        who = (parsed.rank, hits[0].rule.name)
        writer = writer or who
        if who != writer:
            continue
        now = parsed.at.timestamp()
        if last is not None and counter > last[0] and now >= last[1]:
            yield now, now - last[1]
        if last is None or counter != last[0]:
            last = counter, now


def _columns(header: str) -> list[str]:
    """Of a CSV of ours; none where it is something else."""
    names = [name.strip().lower() for name in _cells(header.lstrip("\ufeff"))]
    return names if _keys(dict.fromkeys(names)) is not None else []


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:  # a cell of more than 128 KiB
        return []


def _keys(row: dict[str, None] | dict[str, object]) -> tuple[str, str] | None:
    at, took = next((name for name in TIMES if name in row), None), next((name for name in TOOK if name in row), None)
    return (at, took) if at is not None and took is not None else None


def _step(at: str, took: str, keys: tuple[str, str], time_zone: str) -> Step | None:
    moment, seconds = _moment(at, TIMES[keys[0]], time_zone), _number(took)
    if moment is None or seconds is None or seconds < 0:
        return None
    return moment, seconds * TOOK[keys[1]]


def _moment(text: str, scale: float, time_zone: str) -> float | None:
    number = _number(text)
    if number is not None:
        # The same name is used for seconds and milliseconds; values beyond the year 5000 are milliseconds.
        seconds = number * scale if number * scale < 1e11 else number / 1000
    else:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            return None
        seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(time_zone))).timestamp()
    return seconds if 1e6 < seconds < 1e11 else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
