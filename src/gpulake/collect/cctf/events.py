"""Files of applications and adapters: invocations, placement events and statistics."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpulake.collect.cctf.blocks import Names
from gpulake.collect.cctf.files import Rejects, SortedFile, fitted, key_of, objects, text_of
from gpulake.collect.cctf.processes import Life
from gpulake.core.tables import cctf_tables

REMEMBERED = 1_000_000  # invocations among which duplicates are detected
SLACK_MS = 2_000  # tolerance between times of an application and of the kernel
CLIENT_FILE = "events_client.jsonl"
_FRACTION = re.compile(r"\.(\d{1,6})\d*")


@dataclass
class Events:
    """Reads files of a run directory into sorted files."""

    names: Names
    rejects: Rejects
    rows: Counter[str] = field(default_factory=Counter)  # by file
    duplicates: int = 0
    contradictions: int = 0  # duplicate spans that differ
    pids: set[int] = field(default_factory=set)
    modules: dict[tuple[str | None, str], None] = field(default_factory=dict)
    _known: dict[bytes, bytes] = field(default_factory=dict)

    def read(self, table: str, path: Path, target: SortedFile) -> None:
        """A duplicate counts once: a span by its id, another row by its text."""
        key = key_of(table)
        for line_number, raw, text in objects(path, self.rejects):
            row = _from_client(raw) if path.name == CLIENT_FILE and "ts_end" not in raw else raw
            fit = fitted(cctf_tables()[table], self._named(table, row), self.rejects)
            if isinstance(fit, str):
                self.rejects.add(path.name, line_number, fit, text)
            elif self._is_new(fit, text if table == "invocations" else f"{table} {text}"):
                self.rows[path.name] += 1
                if table == "invocations" and fit["pid"] is not None:
                    self.pids.add(fit["pid"])
                if fit.get("module_id"):
                    self.modules[fit.get("app_id"), fit["module_id"]] = None
                target.add(key(fit), text_of(fit))

    def _named(self, table: str, row: dict[str, Any]) -> dict[str, Any]:
        """The row with the names of its node, which it may lack. Both spellings of the node are in use."""
        column = "node_id" if "node_id" in cctf_tables()[table].column_types else "node"
        named = {name: value for name, value in row.items() if name not in ("node", "node_id")}
        named[column] = row.get(column) or row.get("node") or row.get("node_id") or self.names.node
        named["stage"] = row.get("stage") or self.names.stage
        if not row.get("host_id") and named[column] == self.names.node:
            named["host_id"] = self.names.host_id
        return named

    def _is_new(self, row: dict[str, Any], text: str) -> bool:
        span = row.get("span_id")
        identity = _digest(f"{row.get('trace_id')} {span}" if span else text)
        content = _digest(text_of(row))
        if identity in self._known:
            self.duplicates += 1
            self.contradictions += self._known[identity] != content
            return False
        self._known[identity] = content
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return True


def invocation_files(folder: Path) -> list[Path]:
    """Files of adapters; the output of the reference's parse only if there is nothing else."""
    found = sorted(folder.glob("events.*.jsonl"))
    found += [path for name in (CLIENT_FILE, "invocations.jsonl") if (path := folder / name).is_file()]
    return found or [path for path in (folder / "events.jsonl",) if path.is_file()]


def with_processes(lines: Iterator[str], lives: dict[int, list[Life]]) -> Iterator[str]:
    """Invocations with the process that had their pid at the time."""
    for line in lines:
        row = json.loads(line)
        if row["proc_id"] is None and row["pid"] in lives:
            row["proc_id"] = process_at(lives[row["pid"]], row)
            yield text_of(row)
        else:
            yield line


def process_at(lives: list[Life], row: dict[str, Any]) -> str | None:
    began = row["ts_start"] if row["ts_start"] is not None else row["ts_end"]
    for life in reversed(lives):
        if life.started_ms <= row["ts_end"] + SLACK_MS and (life.ended_ms is None or began <= life.ended_ms + SLACK_MS):
            return life.proc_id
    return None


def _from_client(row: dict[str, Any]) -> dict[str, Any]:
    """A request of the load driver: times in RFC 3339 and nanoseconds."""
    try:
        start = datetime.fromisoformat(_FRACTION.sub(r".\1", str(row.get("timestamp"))))
        url = urlsplit(str(row.get("url") or ""))
        started_ms = round(start.timestamp() * 1000)
        took_ms = float(row.get("latency") or 0) / 1e6
    except (ValueError, OverflowError, TypeError):
        return row
    headers = row.get("headers")
    trace = (
        next((value for name, value in headers.items() if name.lower() == "x-trace-id"), None)
        if isinstance(headers, dict)
        else None
    )
    return {
        "trace_id": trace[0] if isinstance(trace, list) and trace else trace,
        "module_id": "client",
        "ts_enqueue": started_ms,
        "ts_start": started_ms,
        "ts_end": started_ms + round(took_ms),
        "method": row.get("method"),
        "path": url.path or None,
        "bytes_in": row.get("bytes_in"),
        "bytes_out": row.get("bytes_out"),
        "queue_time_ms": 0,
        "service_time_ms": took_ms,
        "rt_ms": took_ms,
        "status": row.get("code"),
    }


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).digest()
