"""The quality of the files of a run: counts, missing values, order, gaps and losses.

A check is given every row, and returns its result at the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from gpulake.collect.cctf.files import SUBJECTS, TIMES, time_of, write_json, write_text
from gpulake.collect.cctf.inputs import output_folder, rows_of
from gpulake.collect.cctf.metas import as_rows, read_document
from gpulake.collect.cctf.reports import audit_report, is_complete
from gpulake.core.tables import cctf_tables

SHOWN = 10
FIRST_INTERVALS = 101  # whose median is the interval
GAP_INTERVALS = 2.5  # without a row are a gap
ALIKE_INTERVALS = 5  # in a row are a new interval
# Files in which a subject has one row per time.
SERIES = SUBJECTS.keys() - {"node_events", "invocations", "placement_events"}
DROPPED = ("collector_ticks_missed_total", "collector_ticks_dropped_total", "collector_values_dropped_total")


@dataclass
class FileCheck:
    """One file: rows, missing values, order."""

    table: str
    only_node: str  # for rows that do not name their node
    only_host: str
    rows: int = 0
    bad_lines: int = 0
    first_bad: list[dict[str, Any]] = field(default_factory=list)
    first_ms: int | None = None
    last_ms: int | None = None
    missing: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)  # of violations, by kind
    violations: list[dict[str, Any]] = field(default_factory=list)  # the first of them
    subjects: dict[tuple[Any, ...], int] = field(default_factory=dict)  # with their last time
    rows_by_pid: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._columns = cctf_tables()[self.table].column_names
        self._column_set = frozenset(self._columns)
        self._has_subjects = self.table in SERIES
        self._subject_of = itemgetter(*SUBJECTS[self.table])
        self._before_ms = 0

    def note_bad(self, line_number: int, reason: str) -> None:
        self.bad_lines += 1
        if len(self.first_bad) < SHOWN:
            self.first_bad.append({"line": line_number, "reason": reason})

    def node_of(self, row: Mapping[str, Any]) -> tuple[str, str]:
        return str(row.get("node") or self.only_node), str(row.get("host_id") or self.only_host)

    def note(self, row: Mapping[str, Any]) -> None:
        self.rows += 1
        # A run has many millions of rows: missing columns are counted only if there are any.
        if None in row.values() or row.keys() != self._column_set:
            self._note_missing(row)
        at = time_of(self.table, row)
        if self.first_ms is None or self.last_ms is None:
            self.first_ms = self.last_ms = at
        elif at < self._before_ms:
            self._violation("behind", row)
            self.first_ms = min(self.first_ms, at)
        elif at > self.last_ms:
            self.last_ms = at
        self._before_ms = at
        if self._has_subjects:
            self._note_subject(row, at)
        if self.table == "invocations":
            self._note_invocation(row)
        interval = row.get("dt_ms")
        if interval is not None and isinstance(interval, int | float) and interval < 0:
            self._violation("negative_interval", row)

    def note_written(self, subject: tuple[Any, ...], rows: int, missing: Iterable[str]) -> None:
        """Rows of one subject that a parse just wrote, in order and with the same missing columns."""
        self.rows += rows
        self.subjects[subject] = 0
        for column in missing:
            self.missing[column] += rows

    def note_time(self, at: int) -> None:
        """The time of rows that a parse just wrote, in order."""
        self.first_ms = at if self.first_ms is None else self.first_ms
        self.last_ms = at

    def _note_missing(self, row: Mapping[str, Any]) -> None:
        for column, value in row.items():
            if value is None:
                self.missing[column] += 1
        for column in self._column_set - row.keys():
            self.missing[column] += 1

    @property
    def pids(self) -> set[tuple[str, str, int]]:
        """Of samples, by node and host."""
        return {
            (*self.node_of({"node": node, "host_id": host_id}), pid)
            for node, host_id, pid, _ in self.subjects
            if isinstance(pid, int)
        }

    def _note_subject(self, row: Mapping[str, Any], at: int) -> None:
        try:
            subject = self._subject_of(row)
            before = self.subjects.get(subject)
        except (KeyError, TypeError):
            values = (row.get(name) for name in SUBJECTS[self.table])
            subject = tuple(value if isinstance(value, str | int | float | None) else str(value) for value in values)
            before = self.subjects.get(subject)
        if before is not None and before >= at:
            self._violation("not_later", row)
        self.subjects[subject] = at

    def _note_invocation(self, row: Mapping[str, Any]) -> None:
        if isinstance(row.get("pid"), int):
            self.rows_by_pid[(*self.node_of(row), row["pid"])] += 1
        known = [row[name] for name in TIMES["invocations"] if isinstance(row.get(name), int | float)]
        if known != sorted(known):
            self._violation("steps_back", row)

    def _violation(self, kind: str, row: Mapping[str, Any]) -> None:
        self.counts[kind] += 1
        if len(self.violations) < SHOWN:
            subject = {name: row.get(name) for name in SUBJECTS[self.table] if row.get(name) is not None}
            self.violations.append({"kind": kind, "row": self.rows, "ts_ms": time_of(self.table, row), **subject})

    def as_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "bad_lines": self.bad_lines,
            "first_bad_lines": self.first_bad,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "subjects": len(self.subjects) if self._has_subjects else None,
            "missing": {
                column: {"count": self.missing[column], "ratio": round(self.missing[column] / self.rows, 6)}
                for column in self._columns
                if self.rows
            },
            "violations": {kind: self.counts[kind] for kind in ("behind", "not_later", "steps_back")}
            | {"negative_intervals": self.counts["negative_interval"]},
            "first_violations": self.violations,
        }


class Gaps:
    """Gaps in the rows of a node: much longer than its interval, which is the median of the first rows. A collector may
    be restarted with another interval: several equal spans in a row are a new interval and no gaps."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}
        self._first: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._interval_ms: dict[tuple[str, str], float] = {}
        self._unusual: dict[tuple[str, str], list[tuple[int, int]]] = {}  # consecutive spans unlike the interval
        self._count = 0
        self._silent_ms = 0
        self._found: list[dict[str, Any]] = []

    def note(self, node: tuple[str, str], at: Any) -> None:
        if not isinstance(at, int):
            return
        before = self._last.get(node)
        if before is not None and at <= before:
            return
        self._last[node] = at
        if before is None:
            return
        if node in self._interval_ms:
            self._judge(node, before, at)
            return
        first = self._first.setdefault(node, [])
        first.append((before, at))
        if len(first) == FIRST_INTERVALS:
            self._settle(node)

    def as_dict(self) -> dict[str, Any]:
        for node in sorted(self._first):
            self._settle(node)
        for node, spans in sorted(self._unusual.items()):
            self._count_gaps(node, spans)
        self._unusual.clear()
        return {
            "count": self._count,
            "silent_ms": self._silent_ms,
            "interval_ms": {name_of(node): round(span, 3) for node, span in sorted(self._interval_ms.items())},
            "first": self._found,
        }

    def _settle(self, node: tuple[str, str]) -> None:
        first = self._first.pop(node)
        self._interval_ms[node] = median(at - before for before, at in first)
        for before, at in first:
            self._judge(node, before, at)

    def _judge(self, node: tuple[str, str], before: int, at: int) -> None:
        interval_ms = self._interval_ms[node]
        if interval_ms / GAP_INTERVALS <= at - before <= GAP_INTERVALS * interval_ms:
            self._count_gaps(node, self._unusual.pop(node, []))
            return
        unusual = self._unusual.setdefault(node, [])
        unusual.append((before, at))
        last = [at - before for before, at in unusual[-ALIKE_INTERVALS:]]
        if len(last) == ALIKE_INTERVALS and max(last) <= GAP_INTERVALS * min(last):
            self._count_gaps(node, self._unusual.pop(node)[:-ALIKE_INTERVALS])
            self._interval_ms[node] = median(last)
        elif len(unusual) > ALIKE_INTERVALS:
            self._count_gaps(node, [unusual.pop(0)])

    def _count_gaps(self, node: tuple[str, str], spans: list[tuple[int, int]]) -> None:
        for before, at in spans:
            if at - before <= GAP_INTERVALS * self._interval_ms[node]:
                continue  # shorter than the interval
            self._count += 1
            self._silent_ms += at - before
            if len(self._found) < SHOWN:
                self._found.append({"node": name_of(node), "from_ms": before, "to_ms": at})


class Dropped:
    """Losses that collectors counted: the last value of each session, summed."""

    def __init__(self) -> None:
        self._most: dict[str, dict[tuple[Any, ...], float]] = {name: {} for name in DROPPED}

    def note(self, row: Mapping[str, Any]) -> None:
        sessions = self._most.get(str(row.get("metric")))
        if sessions is not None and isinstance(row.get("value"), int | float):
            session = (row.get("node"), row.get("host_id"), row.get("instance_id"))
            sessions[session] = max(sessions.get(session, 0), row["value"])

    def as_dict(self) -> dict[str, Any]:
        return {
            name.removeprefix("collector_").removesuffix("_total"): round(sum(sessions.values()))
            for name, sessions in self._most.items()
        }


def name_of(node: tuple[str, str]) -> str:
    return f"{node[0]} ({node[1]})" if node[1] else node[0]


DOCUMENT, REPORT = "audit.json", "audit_report.md"
# The files whose rows show when the collector was running, the best first.
WITNESSES = ("host_metrics", "gpu_metrics", "proc_metrics", "proc_cpu")


def write(folder: Path, facts: Mapping[str, Any], known: Mapping[str, FileCheck]) -> dict[str, Any]:
    """Audits the folder and writes the report beside its files."""
    found = examine(folder, facts, known)
    write_json(folder / DOCUMENT, found)
    write_text(folder / REPORT, audit_report(found))
    return found


def audit(path: Path) -> dict[str, Any]:
    """The audit of a run directory or of the folder with its files, with the facts of the last parse."""
    folder = output_folder(path)
    before = read_document(folder / DOCUMENT, [])
    facts = before.get("parse") if isinstance(before, dict) else None
    return examine(folder, facts if is_complete(facts) else None, {})


def examine(folder: Path, facts: Mapping[str, Any] | None, known: Mapping[str, FileCheck]) -> dict[str, Any]:
    """Files with a known check are not read again: those of processes may have hundreds of millions of rows."""
    unreadable: list[str] = []
    nodes = as_rows(read_document(folder / "nodes.json", unreadable))
    run_meta = read_document(folder / "run_meta.json", unreadable)
    only = nodes[0] if len(nodes) == 1 else {}
    checks: dict[str, FileCheck] = {}
    dropped = Dropped()
    clock_steps = 0
    witness = next((name for name in WITNESSES if (folder / f"{name}.jsonl").is_file()), "")
    gaps = Gaps()
    for table in SUBJECTS:
        path = folder / cctf_tables()[table].file
        if not path.is_file():
            continue
        names = str(only.get("node_id") or ""), str(only.get("host_id") or "")
        if table in known and table != witness:
            checks[table] = replace(known[table], only_node=names[0], only_host=names[1])
            continue
        check = checks[table] = FileCheck(table, *names)
        for row in rows_of(path, check.note_bad):
            check.note(row)
            if table == witness:
                gaps.note(check.node_of(row), row.get("ts_ms"))
            elif table == "system_stats":
                dropped.note(row)
            elif table == "node_events":
                clock_steps += row.get("kind") == "clock_step"
    times = [at for check in checks.values() for at in (check.first_ms, check.last_ms) if at is not None]
    return {
        "run_id": run_meta.get("run_id") if isinstance(run_meta, dict) else None,
        "nodes": [{name: node.get(name) for name in ("node_id", "stage", "host_id")} for node in nodes],
        "first_ms": min(times, default=None),
        "last_ms": max(times, default=None),
        "files": {name: check.as_dict() for name, check in checks.items()},
        "processes": _matches(checks),
        "dropped": dropped.as_dict(),
        "clock_steps": clock_steps,
        "gaps": gaps.as_dict(),
        "unreadable_files": unreadable,
        "parse": dict(facts) if facts is not None else None,
    }


def _matches(checks: Mapping[str, FileCheck]) -> dict[str, Any]:
    """How many processes that invocations name were sampled."""
    samples = [checks[name] for name in ("proc_metrics", "proc_cpu", "proc_rss") if name in checks]
    sampled = {pid for check in samples for pid in check.pids}
    calls = checks["invocations"].rows_by_pid if "invocations" in checks else {}
    unmatched = sorted(calls.keys() - sampled, key=json.dumps)
    with_pid = sum(calls.values())
    matched = sum(count for pid, count in calls.items() if pid in sampled)
    return {
        "distinct_processes": len({process for check in samples for process in check.subjects}),
        "distinct_pids_sampled": len(sampled),
        "distinct_pids_of_invocations": len(calls),
        "pids_matched_ratio": round((len(calls) - len(unmatched)) / len(calls), 6) if calls else None,
        "invocations_with_pid": with_pid,
        "invocations_matched_ratio": round(matched / with_pid, 6) if with_pid else None,
        "unmatched_pids": len(unmatched),
        "first_unmatched": [
            {"node": node or None, "host_id": host_id or None, "pid": pid} for node, host_id, pid in unmatched[:SHOWN]
        ],
    }
