"""gpulake collect merge: many nodes' files into one run, in the order of time.

Each input is read in order and merged; one that is out of order is sorted on disk first. Duplicate rows count once. Two
different rows of the same subject and time are a conflict: the one with more values is kept, then the first as text, so
that the order of the inputs does not matter.
"""

from __future__ import annotations

import contextlib
import heapq
import json
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from gpulake.collect.cctf.files import (
    FAN_IN,
    SUBJECTS,
    Key,
    SortedFile,
    key_of,
    line_key,
    locked,
    open_text,
    temporary,
    text_of,
    write_json,
    write_text,
)
from gpulake.collect.cctf.inputs import FOLDERS, Input, Renaming, Skew, corrections, has_files, output_folders, rows_of
from gpulake.collect.cctf.metas import as_rows, read_document, read_metas
from gpulake.collect.cctf.reports import merge_report
from gpulake.collect.rundir import RunDir
from gpulake.core.disk import replace
from gpulake.core.errors import GpulakeError, UsageError
from gpulake.core.tables import cctf_tables

SHOWN = 20
REPORT = "merge_report.json"
Stream: TypeAlias = Generator[tuple[Key, str], None, None]


def merge(paths: Sequence[Path], out: Path, *, applies_skew: bool = False) -> dict[str, Any]:
    """Writes OUT and returns the report."""
    inputs = _inputs(paths, out)
    try:
        with locked(out):
            return _Merge(inputs, out, applies_skew).write()
    except OSError as error:
        raise GpulakeError(f"cannot merge into {out}: {error}", "is there room, and may it be written?") from error


def _inputs(paths: Sequence[Path], out: Path) -> list[Input]:
    target = out.resolve()
    found: dict[Path, Path] = {}
    for path in paths:
        if path.resolve() == target:
            raise UsageError(f"{out} is also one of the inputs", "name another folder for the result")
        for folder in output_folders(path, out):
            if folder.resolve().is_relative_to(target):
                raise UsageError(f"{out} holds one of the inputs: {folder}", "name another folder for the result")
            found.setdefault(folder.resolve(), folder)
    if has_files(out) and not (out / REPORT).is_file():
        raise UsageError(f"{out} has files that no merge wrote", "name another folder for the result")
    return [_input(folder) for _, folder in sorted(found.items())]


def _input(folder: Path) -> Input:
    """Older files name no host; the metadata beside them may."""
    nodes = as_rows(read_document(folder / "nodes.json", []))
    if len(nodes) == 1 and not nodes[0].get("host_id") and folder.name in FOLDERS:
        nodes[0]["host_id"] = read_metas(RunDir(folder.parent)).host_id
    return Input(folder, tuple(nodes), stands_for_host=not nodes or not all(node.get("host_id") for node in nodes))


@dataclass
class _Counts:
    rows: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    conflicts: Counter[str] = field(default_factory=Counter)
    first_conflicts: list[dict[str, Any]] = field(default_factory=list)
    bad_lines: list[dict[str, Any]] = field(default_factory=list)
    bad: int = 0
    sorted_inputs: list[str] = field(default_factory=list)
    rows_by_input: dict[str, dict[str, int]] = field(default_factory=dict)


class _Merge:
    def __init__(self, inputs: list[Input], out: Path, applies_skew: bool) -> None:
        self.inputs = inputs
        self.out = out
        self.applies_skew = applies_skew
        self.renaming = Renaming()
        self.counts = _Counts()

    def write(self) -> dict[str, Any]:
        self._find_hosts()
        bounds = self._skew()
        if self.applies_skew:
            self.renaming.correct(corrections(bounds))
        for table in SUBJECTS:
            self._write_table(table)
        for table in ("nodes", "links", "module_inventory"):
            self._write_rows(table)
        report = self._report(bounds)
        write_json(self.out / "run_meta.json", {"run_id": self._run_id(), "meta": self._run_meta(report)})
        write_json(self.out / REPORT, report)
        write_text(self.out / "merge_report.md", merge_report(report))
        return report

    def _find_hosts(self) -> None:
        """All hosts: by nodes.json, or by the rows if it is empty."""
        for source in self.inputs:
            for node in source.nodes:
                if node.get("node_id"):
                    name = str(node["node_id"])
                    self.renaming.add(name, source.host_id(node, name) or source.folder_id)
            if not source.nodes:
                for table, path in source.files():
                    for row in rows_of(path, lambda *_: None):
                        name = str(row.get("node_id" if table == "placement_events" else "node") or source.only_node)
                        self.renaming.add(name, source.host_id(row, name) or source.folder_id)

    def _skew(self) -> dict[Any, Any]:
        skew = Skew(self.out)
        for source in self.inputs:
            path = source.path / cctf_tables()["invocations"].file
            if path.is_file():
                for row in rows_of(path, lambda *_: None):
                    full = self.renaming.row("invocations", source, row)
                    skew.note(full, (full["node"], full["host_id"]))
        return skew.bounds()

    def _write_table(self, table: str) -> None:
        sources = [(source, source.path / cctf_tables()[table].file) for source in self.inputs]
        sources = [(source, path) for source, path in sources if path.is_file()]
        target = self.out / cctf_tables()[table].file
        if not sources:
            target.unlink(missing_ok=True)  # of an earlier merge
            return
        source = temporary(target)
        with contextlib.ExitStack() as stack, open_text(source) as output:
            streams = [
                stack.enter_context(contextlib.closing(stream)) for stream in self._streams(table, sources, target)
            ]
            for _, group in groupby(heapq.merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
                output.write(self._kept(table, (line for _, line in group)) + "\n")
                self.counts.rows[table] += 1
        replace(source, target)

    def _streams(self, table: str, sources: list[tuple[Input, Path]], target: Path) -> list[Stream]:
        """Sorted lines of each input; many inputs are sorted together, to limit open files."""
        if len(sources) > FAN_IN:
            return [self._sorted(table, sources, target.with_name("many"))]
        streams = []
        for number, (source, path) in enumerate(sources):
            if self._is_sorted(table, source, path):
                streams.append(self._lines(table, source, path))
            else:
                self.counts.sorted_inputs.append(str(path))
                streams.append(self._sorted(table, [(source, path)], target.with_name(f"{table}-{number}")))
        return streams

    def _sorted(self, table: str, sources: list[tuple[Input, Path]], target: Path) -> Stream:
        """On disk, in bounded memory."""
        key = line_key(table)
        kept = SortedFile(target, key)
        for source, path in sources:
            for place, line in self._lines(table, source, path):
                kept.add(place, line)
        for line in kept.drain():
            yield key(line), line

    def _is_sorted(self, table: str, source: Input, path: Path) -> bool:
        key = key_of(table)
        before: Key = ()
        for row in rows_of(path, lambda *_: None):
            now = key(self.renaming.row(table, source, row))
            if now < before:
                return False
            before = now
        return True

    def _lines(self, table: str, source: Input, path: Path) -> Stream:
        key = key_of(table)
        counted = self.counts.rows_by_input.setdefault(str(source.path), {})
        for row in rows_of(path, lambda line, reason: self._bad(path, line, reason)):
            counted[table] = counted.get(table, 0) + 1
            full = self.renaming.row(table, source, row)
            yield key(full), text_of(full)

    def _bad(self, path: Path, line: int, reason: str) -> None:
        self.counts.bad += 1
        if len(self.counts.bad_lines) < SHOWN:
            self.counts.bad_lines.append({"file": str(path), "line": line, "reason": reason})

    def _kept(self, table: str, group: Iterable[str]) -> str:
        """The row to keep of those with the same key."""
        lines = list(group)
        different = set(lines)
        self.counts.duplicates[table] += len(lines) - len(different)
        if len(different) == 1:
            return lines[0]
        self.counts.conflicts[table] += len(different) - 1
        kept = min(different, key=lambda line: (line.count(":null"), line))
        if len(self.counts.first_conflicts) < SHOWN:
            self.counts.first_conflicts.append({"file": table, **_difference(table, kept, different - {kept})})
        return kept

    def _write_rows(self, table: str) -> None:
        """The union of small files. Different rows of the same subject are a conflict, too."""
        subject = {"nodes": ("node_id", "host_id"), "links": ("u", "v", "host_id", "iface")}.get(table, ("module_id",))
        by_subject: dict[tuple[str, ...], dict[str, None]] = {}
        for source in self.inputs:
            path = source.path / cctf_tables()[table].file
            unreadable: list[str] = []
            document = read_document(path, unreadable)
            for reason in unreadable:
                self._bad(path, 1, reason)
            for row in as_rows(document):
                full = self.renaming.row(table, source, row) if table != "module_inventory" else dict(row)
                key = tuple(str(full.get(name)) for name in subject)
                by_subject.setdefault(key, {})[text_of(full)] = None
        rows = [json.loads(self._kept(table, sorted(texts))) for _, texts in sorted(by_subject.items())]
        self.counts.rows[table] = len(rows)
        write_json(self.out / cctf_tables()[table].file, rows)

    def _run_id(self) -> str:
        found = sorted({run_id for source in self.inputs if (run_id := _run_id_of(source))})
        return "+".join(found) or "unknown"

    def _run_meta(self, report: dict[str, Any]) -> dict[str, Any]:
        return {
            "format": "cctf",
            "merged_from": report["inputs"],
            "runs": {str(source.path): read_document(source.path / "run_meta.json", []) for source in self.inputs},
        }

    def _report(self, bounds: dict[Any, Any]) -> dict[str, Any]:
        counts = self.counts
        return {
            "inputs": [
                {
                    "folder": str(source.path),
                    "run_id": _run_id_of(source),
                    "nodes": sorted(str(node.get("node_id")) for node in source.nodes),
                    "host_id_from_folder": source.folder_id if source.stands_for_host else None,
                    "rows": dict(sorted(counts.rows_by_input.get(str(source.path), {}).items())),
                }
                for source in self.inputs
            ],
            "rows": dict(sorted(counts.rows.items())),
            "renamed": self.renaming.renamed(),
            "duplicates": dict(sorted((+counts.duplicates).items())),
            "conflicts": dict(sorted((+counts.conflicts).items())),
            "first_conflicts": counts.first_conflicts,
            "rule": "of rows in conflict the one with the most values is kept, then the first as text",
            "bad_lines": counts.bad,
            "first_bad_lines": counts.bad_lines,
            "sorted_first": counts.sorted_inputs,
            "clock_skew": [
                {
                    "node": first[0],
                    "host_id": first[1],
                    "other_node": second[0],
                    "other_host_id": second[1],
                    "add_to_other_ms": round(bound.estimate_ms, 3),
                    "at_least_ms": bound.least_ms,
                    "at_most_ms": bound.most_ms,
                    "pairs": bound.pairs,
                    "is_consistent": bound.is_consistent,
                }
                for (first, second), bound in sorted(bounds.items())
            ],
            "is_skew_applied": self.applies_skew,
            "added_ms": [
                {"node": node, "host_id": host_id, "added_ms": shift}
                for (node, host_id), shift in sorted(self.renaming.corrections.items())
            ],
        }


def _run_id_of(source: Input) -> str | None:
    meta = read_document(source.path / "run_meta.json", [])
    ids = [meta.get("run_id")] if isinstance(meta, dict) else []
    ids += [node.get("run_id") for node in source.nodes]
    return next((str(run_id) for run_id in ids if run_id), None)


def _difference(table: str, kept: str, others: set[str]) -> dict[str, Any]:
    """The columns in which the rows differ."""
    row = json.loads(kept)
    columns = sorted({name for line in others for name, value in json.loads(line).items() if value != row.get(name)})
    subject = {name: row.get(name) for name in SUBJECTS.get(table, ("node_id", "host_id", "u", "iface", "module_id"))}
    time = {name: row[name] for name in ("ts_ms", "ts", "ts_end") if row.get(name) is not None}
    return time | {name: value for name, value in subject.items() if value is not None} | {"columns": columns}
