"""Files of the reference collector: logs of mpstat, vmstat and ifstat, and samples of processes without a node or a
start time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from heapq import merge
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any

from gpulake.collect.cctf.blocks import Names
from gpulake.collect.cctf.files import Key, Rejects, SortedFile, fitted, key_of, objects, text_of, whole
from gpulake.collect.cctf.metas import Metas
from gpulake.collect.cctf.processes import ProcessFiles
from gpulake.collect.cctf.sysstat import (
    LogReport,
    ifstat_rows,
    mpstat_begin_ms,
    mpstat_rows,
    vmstat_begin_ms,
    vmstat_rows,
    vmstat_unit,
)
from gpulake.core.tables import cctf_tables

TICKS_PER_SECOND = 100
COPIED = ("node", "host_id", "proc_id")
CPU_LOG, MEMORY_LOG, LINK_LOG = "cpu.log", "mem.log", "net.log"


@dataclass
class Logs:
    """The logs of a run. A log without dates starts with a log that has them, or else ends at its modification time."""

    folder: Path
    metas: Metas
    names: Names
    where: tzinfo
    unit: str  # of vmstat; auto: by the memory of the node

    def has_host(self) -> bool:
        return any((self.folder / name).is_file() for name in (CPU_LOG, MEMORY_LOG))

    def has_links(self) -> bool:
        return (self.folder / LINK_LOG).is_file()

    def write_host(self, target: SortedFile) -> list[LogReport]:
        """One row per second, with the values of both logs."""
        reports, sources = [], []
        for name in (CPU_LOG, MEMORY_LOG):
            path = self.folder / name
            if path.is_file():
                report = LogReport(name)
                kept = SortedFile(target.path.with_name(name), lambda line: (json.loads(line)["ts_ms"],))
                for row in _dated(self._rows(path, report), report):
                    kept.add((row["ts_ms"],), text_of(row))
                reports.append(report)
                sources.append(map(json.loads, kept.drain()))
        key = key_of("host_metrics")
        for _, group in groupby(merge(*sources, key=itemgetter("ts_ms")), key=itemgetter("ts_ms")):
            rows = list(group)
            cpu = [row for row in rows if "cpu_util" in row]
            memory = [row for row in rows if "cpu_util" not in row]
            nothing: dict[str, Any] = {}
            for one, other in zip_longest(cpu, memory, fillvalue=nothing):
                row = whole("host_metrics", self.names.columns | one | other)
                target.add(key(row), text_of(row))
        return reports

    def write_links(self, target: SortedFile) -> LogReport:
        report = LogReport(LINK_LOG)
        main = self.metas.node.get("iface") or self.metas.link.get("iface")
        key = key_of("link_metrics")
        for row in _dated(self._rows(self.folder / LINK_LOG, report), report):
            iface = row["iface"] or main
            link = "nic" if iface == main or not main else iface
            link = f"{self.names.node}.{link}"
            full = whole("link_metrics", row | self.names.columns | {"link": link, "iface": iface})
            target.add(key(full), text_of(full))
        return report

    def _rows(self, path: Path, report: LogReport) -> Iterator[dict[str, Any]]:
        end_ms = round(path.stat().st_mtime * 1000)
        if path.name == MEMORY_LOG:
            report.dated_by = path.name
            unit_bytes = vmstat_unit(path, self.unit, self.metas.memory_bytes)
            return vmstat_rows(path, report, unit_bytes=unit_bytes, where=self.where)
        rows = mpstat_rows if path.name == CPU_LOG else ifstat_rows
        near_ms, report.dated_by = self._begin(path)
        return rows(path, report, near_ms=near_ms, end_ms=end_ms, where=self.where)

    def _begin(self, path: Path) -> tuple[int | None, str]:
        """The start of a log without dates on its lines, and the evidence for it."""
        memory, cpu = self.folder / MEMORY_LOG, self.folder / CPU_LOG
        near_ms = vmstat_begin_ms(memory, self.where) if memory.is_file() else None
        own_ms = mpstat_begin_ms(cpu, self.where, near_ms) if cpu.is_file() else None
        if own_ms is not None and (path == cpu or near_ms is None):
            return near_ms if path == cpu else own_ms, CPU_LOG
        return near_ms, MEMORY_LOG if near_ms is not None else "the time of its last change"


def _dated(rows: Iterator[dict[str, Any]], report: LogReport) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["ts_ms"] is None or row["ts_ms"] < 0:
            report.rows -= 1
            report.reject(0, "no calendar has its time")
        else:
            yield row


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
