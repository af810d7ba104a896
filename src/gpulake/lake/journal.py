"""The journal: one file of JSON lines a table, appended to and never changed. Each line ends with its own checksum.

{"run_id": "…", "step": "land", "crc32": "5a1f09c3"}    the checksum is of the line without it
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from gpulake.core.disk import sync
from gpulake.core.errors import LakeError
from gpulake.core.redaction import without_secrets
from gpulake.core.tables import written_tables
from gpulake.lake.access import as_private_as
from gpulake.lake.engine import lake_errors

FILES = {
    "runs": "runs.jsonl",
    "test_results": "tests.jsonl",
    "nudges": "nudges.jsonl",
    "diagnoses": "diagnoses.jsonl",
    "log_templates": "log_templates.jsonl",
    "incident_events": "incidents.jsonl",
    "maintenance_window_events": "windows.jsonl",
    "saved_view_events": "views.jsonl",
    "annotation_events": "annotations.jsonl",
    "alert_events": "alerts.jsonl",
    "recoveries": "recoveries.jsonl",
    "rule_events": "rules.jsonl",
    "pulls": "pulls.jsonl",
    "sim_backtest": "sim_backtest.jsonl",
    "sim_runs": "sim_runs.jsonl",
    "sim_jobs": "sim_jobs.jsonl",
    "sim_prices": "sim_prices.jsonl",
}
_CHECKSUM = re.compile(rb', "crc32": "([0-9a-f]{8})"}\Z')


@dataclass(frozen=True)
class DamagedLine:
    table: str
    file: Path
    line_number: int
    reason: str
    is_cut: bool  # the writer died in the middle of it, so that it was never acknowledged


@dataclass(frozen=True)
class Journal:
    folder: Path
    _named: set[str] = field(default_factory=set)  # files whose name is on the disk for certain

    def path(self, table: str) -> Path:
        return self.folder / FILES[table]

    def rows(self, table: str, is_strict: bool = False) -> list[dict[str, Any]]:
        """The rows as they were written, without the engine: it takes longer to start.

        A damaged line is no row; where a row that is passed over may do harm, it is an error.
        """
        rows = []
        for number, found in self._lines(table):
            if isinstance(found, dict):
                rows.append(found)
            elif is_strict and not found[1]:
                raise LakeError(
                    f"a row of table {table} cannot be read: line {number} of {self.path(table)}: {found[0]}",
                    "fix or remove that line; the action that it records may have been taken",
                )
        return rows

    def damaged_lines(self) -> list[DamagedLine]:
        """Every line of every table that is not as it was written. Lines of before have no checksum to hold them to."""
        return [
            DamagedLine(table, self.path(table), number, *found)
            for table in FILES
            for number, found in self._lines(table)
            if isinstance(found, tuple)
        ]

    def append(self, table: str, rows: Sequence[Mapping[str, Any]], is_synced: bool = True) -> None:
        """On the disk when this returns, if it is synced."""
        columns = set(written_tables()[table].column_names)
        for row in rows:
            if unknown := set(row) - columns:
                raise AssertionError(f"{table} has no column {sorted(unknown)}")
        if not rows:
            return
        lines = to_lines(without_secrets(row) for row in rows)
        with lake_errors("writing the journal"), as_private_as(self.folder), self.path(table).open("a+b") as file:
            # A line that a crash cut short must not take the next one with it.
            is_cut = file.tell() > 0 and _last_byte(file) != b"\n"
            file.write(b"\n" * is_cut + lines)
            if is_synced:
                file.flush()
                os.fdatasync(file.fileno())
                self._sync_name(table)

    def _sync_name(self, table: str) -> None:
        """Once a process: the process that created the file may have died before its name was on the disk."""
        if table not in self._named:
            sync(self.folder)
            self._named.add(table)

    def _lines(self, table: str) -> Iterator[tuple[int, dict[str, Any] | tuple[str, bool]]]:
        """Of every line its number and its row, or what is wrong with it and whether it was cut short."""
        path = self.path(table)
        with lake_errors("reading the journal"):
            content = path.read_bytes() if path.exists() else b""
        columns = set(written_tables()[table].column_names)
        for number, line in enumerate(content.split(b"\n"), start=1):
            if line:
                yield number, _read(line, columns)


def to_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(_line(json.dumps(row, default=_as_text).encode()) for row in rows)


def _line(document: bytes) -> bytes:
    return document[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(document)


def _read(line: bytes, columns: set[str]) -> dict[str, Any] | tuple[str, bool]:
    # What a power cut leaves of a line may be zeros.
    is_cut = not line.rstrip(b"\0").endswith(b"}") or b"\0" in line
    checksum = _CHECKSUM.search(line)
    document = line[: checksum.start()] + b"}" if checksum else line
    if checksum and zlib.crc32(document) != int(checksum[1], 16):
        return "its checksum does not match", False
    try:
        row = json.loads(document)
    except (ValueError, RecursionError):
        return ("it was cut short" if is_cut else "it is no JSON"), is_cut
    if not isinstance(row, dict) or (not checksum and not columns.issuperset(row)):
        return "it is no row of this table", False
    return row


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)
