"""Files that training tools write: W&B's own files and exports, TensorBoard's downloads and event files, Hugging Face's
trainer_state.json, Lightning's metrics.csv, MLPerf logs. Each becomes values of metrics with the step and, where the
file has one, the time.

A value of NaN or infinity is kept: it is what a diverging run logs.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from math import isfinite
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from gpulake.core.clock import LATEST_SECOND
from gpulake.core.errors import InputError
from gpulake.core.lines import text_lines
from gpulake.core.packaged import packaged_toml
from gpulake.core.types import BadRow
from gpulake.formats import wandb_file
from gpulake.formats.json_items import items
from gpulake.formats.json_text import json_object
from gpulake.formats.tfevents import EVENT_FILE, scalars

MLLOG = ":::MLLOG "
COUNTERS = ("step", "step_num", "samples_count", "epoch_num")  # of MLPerf, the finest first
# Keys of MLPerf that have no step of the training: what they count is something else.
ASIDE = re.compile(r"validation_|warmup|init_|eval_")
COUNTED = ("train_loss", "eval_accuracy")
BEGINS, ENDS = ("init_start", "run_start"), ("run_stop",)
WANDB_FOLDER = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(?P<run>\w+)")
DOWNLOAD = re.compile(r"run[-_](?P<run>.+?)-tag-(?P<tag>.+)")
TENSORBOARD_HEADER = ("Wall time", "Step", "Value")
TENSORBOARD_JSON = re.compile(r"\s*\[\s*\[\s*[\d.eE+]+\s*,\s*\d+\s*,\s*[-\w.+\"]+\s*\]")
PLAIN_STEMS = ("history", "wandb-history", "wandb-summary", "wandb_history", "wandb_export", "export", "files")
RUN_KEYS = ("run_id", "run_name", "run", "_run")
RANGE_ENDS = ("__MIN", "__MAX")
LIGHTNING_VERSION = re.compile(r"version_\d+")  # a folder a try, below the name of the run
WORD = re.compile(r"[^a-z0-9]+")


class Logged(NamedTuple):
    """One value of one metric."""

    line_number: int
    metric: str
    value: float | None  # None: only that it happened is known
    step: float | None
    at_seconds: float | None  # of the epoch
    run: str  # empty: the file has one run
    text: str


Read = Iterator[Logged | BadRow]


@dataclass(frozen=True)
class TrainingFile:
    source: str  # wandb, tensorboard, huggingface, lightning or mlperf
    run: str  # empty: the rows name their runs
    read: Callable[[Path], Read]
    node: str = ""


def training_file(
    name: str, lines: Sequence[str], folder: str = "", above: str = "", later: Sequence[str] = ()
) -> TrainingFile | None:
    """What a file is, by its name, its first lines and the names of its folders; None for anything else. Logs of MLPerf
    begin with other lines."""
    stem = PurePath(name).stem
    if name.endswith(wandb_file.ENDING) and lines and lines[0].startswith(wandb_file.MAGIC.decode()):
        return TrainingFile("wandb", stem.removeprefix("run-"), _wandb_file)
    if found := EVENT_FILE.fullmatch(name):
        return TrainingFile("tensorboard", folder or stem, _event_file, found["node"])
    if any(MLLOG + "{" in line for line in (*lines, *later)):
        return TrainingFile("mlperf", f"{folder}/{stem}" if folder else stem, _mlperf)
    return _json_file(name, stem, lines, folder, above) or _csv_file(stem, lines, folder, above)


def _json_file(name: str, stem: str, lines: Sequence[str], folder: str, above: str) -> TrainingFile | None:
    head = "\n".join(lines)
    if name == "trainer_state.json" and '"log_history"' in head:
        return TrainingFile(
            "huggingface", (above if folder.startswith("checkpoint-") else folder) or stem, _trainer_state
        )
    if any("_step" in json_object(line) for line in lines):
        return TrainingFile("wandb", _wandb_run(stem, folder, above), _history_lines)
    if name.endswith(".json") and TENSORBOARD_JSON.match(head):
        run, tag = _download(stem, folder)
        return TrainingFile("tensorboard", run, partial(_scalar_json, tag=tag))
    return None


def _csv_file(stem: str, lines: Sequence[str], folder: str, above: str) -> TrainingFile | None:
    header = _cells(lines[0]) if lines else ()
    if header == TENSORBOARD_HEADER:
        run, tag = _download(stem, folder)
        return TrainingFile("tensorboard", run, partial(_scalar_csv, tag=tag))
    if "_step" in header:
        return TrainingFile("wandb", _wandb_run(stem, folder, above), _history_csv)
    if stem == "metrics" and {"step", "epoch"} <= set(header):
        version = LIGHTNING_VERSION.fullmatch(folder)
        return TrainingFile("lightning", f"{above}/{folder}" if version and above else folder or stem, _lightning)
    if any(f"{column}{RANGE_ENDS[0]}" in header for column in header if " - " in column):
        return TrainingFile("wandb", "", _chart)
    return None


def _download(stem: str, folder: str) -> tuple[str, str]:
    """Run and tag, as TensorBoard names a file that is downloaded from it."""
    found = DOWNLOAD.fullmatch(stem)
    return (found["run"], found["tag"]) if found else (folder or stem, stem)


def logged_steps(file: TrainingFile, path: Path) -> tuple[list[tuple[float, float]], int]:
    """When steps ended and how long they took, by the metric with the most steps, of which a loss counts double; and
    how many rows could not be read."""
    by_metric: dict[str, list[tuple[float, float]]] = {}
    bad_rows = 0
    for row in file.read(path):
        if isinstance(row, BadRow):
            bad_rows += 1
        elif row.step is not None and row.at_seconds is not None and kind_of(row.metric) != "evaluation":
            by_metric.setdefault(row.metric, []).append((row.at_seconds, row.step))
    most = max(by_metric.items(), key=lambda one: len(one[1]) * (1 + (kind_of(one[0]) == "loss")), default=("", []))[1]
    pairs = pairwise(sorted(set(most)))
    return [(at, at - before) for (before, last), (at, step) in pairs if step > last], bad_rows


@cache
def kind_of(metric: str) -> str:
    """What a metric means to every room; empty where it is the user's own."""
    name = WORD.sub("_", metric.lower()).strip("_")
    return next((kind for kind, pattern in _kinds() if pattern.fullmatch(name)), "")


@cache
def _kinds() -> tuple[tuple[str, re.Pattern[str]], ...]:
    entries = packaged_toml("gpulake.formats", "training.toml")["kinds"]
    return tuple((kind, re.compile(pattern)) for kind, pattern in entries)


def _wandb_run(stem: str, folder: str, above: str) -> str:
    named = WANDB_FOLDER.fullmatch(folder) or WANDB_FOLDER.fullmatch(above)
    return named["run"] if named else (folder or stem) if stem in PLAIN_STEMS else stem


def _event_file(path: Path) -> Read:
    for found in scalars(path):
        if isinstance(found, BadRow):
            yield found
        elif (at := _moment(found.at_seconds)) is None:
            yield BadRow(found.record, f"wall time is {found.at_seconds}", found.tag)
        else:
            yield Logged(found.record, found.tag, found.value, float(found.step), at, "", found.tag)


def _trainer_state(path: Path) -> Read:
    entries = (part for part in items(path, "log_history", what="entry") if not part.key)
    for number, part in enumerate(entries, start=1):
        yield from _wide(number, part.value, part.text, step="step")


def _history_lines(path: Path) -> Read:
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
        elif text := line.strip():
            yield from _wide(number, json_object(text), text)


def _history_csv(path: Path) -> Read:
    yield from _csv_rows(path, _wide)


def _lightning(path: Path) -> Read:
    """CSVLogger of Lightning: a row has the metrics of one call, without a time."""
    yield from _csv_rows(path, partial(_wide, step="step"))


def _wandb_file(path: Path) -> Read:
    for found in wandb_file.history(path):
        if isinstance(found, BadRow):
            yield found
        else:
            number, values = found
            yield from _wide(number, values, json.dumps(values))


def _wide(number: int, row: Any, text: str, step: str = "_step") -> Read:
    """A row of many metrics. What is no number (an image, a word) is no metric."""
    if not isinstance(row, dict) or (count := _number(row.get(step))) is None or not isfinite(count):
        yield BadRow(number, f"no {step} with a number", text)
        return
    stamp = row.get("_timestamp")
    at = _moment(_number(stamp))
    if at is None and stamp not in (None, ""):
        yield BadRow(number, f"_timestamp is {stamp!r}", text)
        return
    run = next((str(row[key]) for key in RUN_KEYS if isinstance(row.get(key), str) and row[key]), "")
    values = ((key, _number(value)) for key, value in row.items() if key not in (step, "_timestamp", *RUN_KEYS))
    known = [Logged(number, key, value, count, at, run, text) for key, value in values if key and value is not None]
    yield from known
    if not known:
        yield BadRow(number, "no metric with a number", text)


def _chart(path: Path) -> Read:
    """The table of a chart: the first column is its axis, and each other one `<run> - <metric>`."""
    yield from _csv_rows(path, _chart_row)


def _chart_row(number: int, row: dict[str, str], text: str) -> Read:
    axis, *columns = row
    if axis.lower() not in ("step", "_step", "global_step", "trainer/global_step", "wall time", "_timestamp"):
        raise InputError(f"the axis of the chart is {axis!r}", "export it from W&B with Step as its x axis")
    count = _number(row[axis])
    is_time = axis.lower() in ("wall time", "_timestamp")
    at = _moment(count) if is_time else None
    if count is None or not isfinite(count) or (is_time and at is None):
        yield BadRow(number, f"{axis} is {row[axis]!r}", text)
        return
    for column in columns:
        run, dash, metric = column.rpartition(" - ")
        value = _number(row[column])
        if dash and value is not None and not metric.endswith(RANGE_ENDS) and metric != "_step":
            step = _number(row.get(f"{run} - _step")) if is_time else count
            yield Logged(number, metric, value, step, at, run, text)


def _scalar_csv(path: Path, tag: str) -> Read:
    def scalar(number: int, row: dict[str, str], text: str) -> Read:
        yield _scalar(number, [row[name] for name in TENSORBOARD_HEADER], tag, text)

    yield from _csv_rows(path, scalar)


def _scalar_json(path: Path, tag: str) -> Read:
    for number, (_, _, entry, text) in enumerate(items(path), start=1):
        yield _scalar(number, entry if isinstance(entry, list) else [], tag, text)


def _scalar(number: int, fields: Sequence[Any], tag: str, text: str) -> Logged | BadRow:
    at, step, value = [_number(field) for field in fields] if len(fields) == 3 else (None, None, None)
    moment = _moment(at)
    if moment is None or step is None or value is None or not isfinite(step):
        return BadRow(number, "no wall time, step and value", text)
    return Logged(number, tag, value, step, moment, "", text)


def _mlperf(path: Path) -> Read:
    """Lines of the log that are not MLPerf's are no rows."""
    for number, line in text_lines(path):
        if isinstance(line, BadRow):  # too long to be looked at
            yield line
            continue
        _, mark, rest = line.partition(MLLOG)
        if mark:
            yield from _mlperf_event(number, rest.strip())


def _mlperf_event(number: int, text: str) -> Read:
    event = json_object(text)
    key, at = event.get("key"), _moment(_number(event.get("time_ms")), 0.001)
    if not isinstance(key, str) or at is None:
        yield BadRow(number, "no JSON object with a key and time_ms", f"{MLLOG}{text}")
        return
    said, value = event.get("metadata"), event.get("value")
    metadata = said if isinstance(said, dict) else {}
    counts = (_number(metadata.get(counter)) for counter in COUNTERS)
    step = next((count for count in counts if count is not None and isfinite(count)), None)
    if key == "tracked_stats" and isinstance(value, dict):
        is_aside = any(ASIDE.match(name) for name in value)
        values = {name: _number(one) for name, one in value.items()}
        found = {name: one for name, one in values.items() if one is not None}
        for name, one in found.items():
            yield Logged(number, name, one, None if is_aside else step, at, "", text)
    elif key in (*COUNTED, "throughput", "global_batch_size"):
        yield Logged(number, key, _number(value), step if key in COUNTED else None, at, "", text)
    elif key in (*BEGINS, *ENDS):
        yield Logged(number, key, None, None, at, "", text)


def _csv_rows(path: Path, read: Callable[[int, dict[str, str], str], Read]) -> Read:
    names: tuple[str, ...] = ()
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        text = line.strip()
        if not names:
            names = _cells(text)
        elif text:
            cells = _cells(text)
            if len(cells) == len(names):
                yield from read(number, dict(zip(names, cells, strict=True)), text)
            else:
                yield BadRow(number, f"{len(cells)} columns where {len(names)} are expected", text)


def _cells(line: str) -> tuple[str, ...]:
    try:
        return tuple(cell.strip() for cell in next(csv.reader([line]), []))
    except csv.Error:  # a cell of more than 128 KiB
        return ()


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _moment(number: float | None, scale: float = 1.0) -> float | None:
    """Seconds of the epoch, as the lake can hold them."""
    if number is None or not isfinite(number):
        return None
    seconds = number * scale if number * scale < 1e11 else number / 1000
    return seconds if 0 < seconds < LATEST_SECOND else None
