"""Process samples of the reference collector: lines without a node or a start time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpulake.collect.cctf.blocks import Names
from gpulake.collect.cctf.files import SortedFile
from gpulake.collect.cctf.jsonlines import Rejects, fitted, objects
from gpulake.collect.cctf.order import Key, key_of, text_of, whole
from gpulake.collect.cctf.processes import ProcessFiles
from gpulake.core.tables import cctf_tables

TICKS_PER_SECOND = 100
COPIED = ("node", "host_id", "proc_id")


def read_processes(path: Path, names: Names, files: ProcessFiles, rejects: Rejects, ticks_per_second: int) -> None:
    """Samples with the CPU between them. Of two samples of a process at the same time, the higher counter is kept."""
    raw = SortedFile(files.metrics.path.with_name("raw_samples"), _raw_key)
    table = cctf_tables()["proc_metrics"]
    for line_number, row, text in objects(path, rejects):
        fit = fitted(table, names.columns | row, rejects)
        if isinstance(fit, str):
            rejects.add(path.name, line_number, fit, text)
        else:
            raw.add((fit["ts_ms"], fit["pid"], _ticks(fit)), text_of(fit))
    keys = {name: key_of(name) for name in ("proc_metrics", "proc_cpu", "proc_rss")}
    for row in _with_intervals(raw.drain(), ticks_per_second):
        files.metrics.add(keys["proc_metrics"](row), text_of(row))
        ids = {name: row[name] for name in ("ts_ms", "pid", *COPIED)}
        if row["cpu_ms"] is not None and row["dt_ms"] is not None:
            cpu = whole("proc_cpu", ids | {"cpu_ms": row["cpu_ms"], "dt_ms": row["dt_ms"]})
            files.cpu.add(keys["proc_cpu"](cpu), text_of(cpu))
        if row["rss_kb"] is not None:
            rss = whole("proc_rss", ids | {"rss_kb": row["rss_kb"]})
            files.rss.add(keys["proc_rss"](rss), text_of(rss))


def _with_intervals(lines: Iterator[str], ticks_per_second: int) -> Iterator[dict[str, Any]]:
    before: dict[int, tuple[int, int]] = {}  # by pid: time and ticks
    held: dict[str, Any] | None = None
    for line in lines:
        row = json.loads(line)
        if held is not None and (held["ts_ms"], held["pid"]) != (row["ts_ms"], row["pid"]):
            yield _charged(held, before, ticks_per_second)
        held = row
    if held is not None:
        yield _charged(held, before, ticks_per_second)


def _charged(row: dict[str, Any], before: dict[int, tuple[int, int]], ticks_per_second: int) -> dict[str, Any]:
    """A counter that decreased belongs to another process with the same pid."""
    if row["utime"] is None or row["stime"] is None:
        return row
    row["ticks_per_second"] = ticks_per_second
    ticks = _ticks(row)
    if row["pid"] in before:
        at_ms, ticks_before = before[row["pid"]]
        if ticks >= ticks_before:
            spent = (ticks - ticks_before) * 1000
            row["cpu_ms"] = spent // ticks_per_second if spent % ticks_per_second == 0 else spent / ticks_per_second
            row["dt_ms"] = row["ts_ms"] - at_ms
    before[row["pid"]] = (row["ts_ms"], ticks)
    return row


def _ticks(row: dict[str, Any]) -> int:
    return int((row["utime"] or 0) + (row["stime"] or 0))


def _raw_key(line: str) -> Key:
    row = json.loads(line)
    return row["ts_ms"], row["pid"], _ticks(row)
