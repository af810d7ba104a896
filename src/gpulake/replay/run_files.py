"""The files of a collected run, read for a workload: its nodes, invocations, processes and GPUs.

A run is one node's folder, a folder of such folders, or what was merged from them. A process is known by its
`proc_id`, or else by host and pid; a host by its `host_id`, or else by its name within the folder that it was found in:
pids repeat on other nodes, and names of nodes on other hosts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from gpulake.core.errors import InputError

# The older of these names is still found in published runs.
FOLDERS = ("cctf", "CTS")
Row: TypeAlias = dict[str, Any]
HostKey: TypeAlias = tuple[str, str]
ProcessKey: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Node:
    cores: int | None
    core_mhz: float | None
    memory_bytes: int | None
    gpus: int
    gpu_name: str | None


@dataclass(frozen=True)
class RunFiles:
    """The folders of a run, nodes of it that were not parsed, and how many lines could not be read."""

    folders: tuple[Path, ...]
    unparsed: int = 0
    unread: Counter[str] = field(default_factory=Counter)

    def rows(self, name: str) -> Iterator[tuple[str, Row]]:
        """Each row with the folder that it was found in."""
        for folder in self.folders:
            path = folder / name
            if not path.is_file():
                continue
            nodes = self._list(folder / "nodes.json")
            with path.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    row = _row(line)
                    if row is not None:
                        yield str(folder), _placed(row, nodes)
                    elif line.strip():
                        self.unread[name] += 1

    def nodes(self) -> dict[HostKey, Node]:
        found: dict[HostKey, Node] = {}
        for folder in self.folders:
            for row in self._list(folder / "nodes.json"):
                found[host_key(str(folder), row, "node_id")] = Node(
                    _positive(row.get("cpu_cores")),
                    _positive(row.get("cpu_freq_mhz")),
                    (_positive(row.get("mem_mb")) or 0) * 2**20 or None,
                    _positive(row.get("gpus")) or 0,
                    row.get("gpu_name"),
                )
        return found

    def _list(self, path: Path) -> list[Row]:
        if not path.is_file():
            return []
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is no JSON: {error}", "parse the run again") from error
        return [row for row in document or [] if isinstance(row, dict)]


def find_run(path: Path) -> RunFiles:
    """The folders of nodes at or below a path. A node that served nothing is still a host."""
    if not path.is_dir():
        raise InputError(f"no folder at {path}", "name the folder of a run, or one that was merged")
    here = [path, *(path / name for name in FOLDERS)]
    below = sorted(folder for name in FOLDERS for folder in path.glob(f"*/{name}"))
    raw = sum(not any((folder.parent / name).is_dir() for name in FOLDERS) for folder in path.glob("*/segments"))
    for folders, unparsed in ((here, 0), (below, raw)):
        if any((folder / "invocations.jsonl").is_file() for folder in folders):
            parts = ("invocations.jsonl", "nodes.json")
            found = tuple(folder for folder in folders if any((folder / part).is_file() for part in parts))
            return RunFiles(found, unparsed)
    raise InputError(f"no invocations.jsonl in {path}", "parse the run first: gpulake collect parse RUN_DIR")


def host_key(folder: str, row: Row, name: str = "node") -> HostKey:
    host = row.get("host_id")
    return ("", str(host)) if host else (folder, str(row.get(name)))


def process_key(folder: str, row: Row) -> ProcessKey | None:
    if row.get("proc_id"):
        return (*host_key(folder, row), str(row["proc_id"]))
    if whole(row.get("pid")) is None:
        return None
    return (*host_key(folder, row), f"pid {row['pid']}")


def whole(value: object) -> int | None:
    """The integer part of a number; None for anything else."""
    found = number(value, most=1e15)
    return None if found is None else round(found)


def number(value: object, most: float = 1e300) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > most:
        return None
    return float(value)


def _positive(value: object) -> int | None:
    found = whole(value)
    return found if found is not None and found > 0 else None


def _placed(row: Row, nodes: list[Row]) -> Row:
    """A row without node or host, in a folder that has only one."""
    if row.get("node") is None and len(nodes) == 1:
        row["node"] = nodes[0].get("node_id")
    if not row.get("host_id"):
        hosts = {node.get("host_id") for node in nodes if node.get("node_id") == row.get("node")}
        if len(hosts) == 1:
            row["host_id"] = hosts.pop()
    return row


def _row(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
