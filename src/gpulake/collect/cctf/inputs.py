"""The inputs of an audit or a merge: files of a run in a run directory, in its folder cctf or CTS, or below; names of
nodes, where two hosts have the same; and the skew of their clocks.

Skew is estimated from traces across nodes, in which a child span lies within its parent: for each pair the offset to
add to the second clock is between parent.start - child.start and parent.end - child.end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from gpulake.collect.cctf.files import CLOCK_COLUMNS, SUBJECTS, Row, SortedFile, whole
from gpulake.core.errors import InputError
from gpulake.core.lines import text_lines
from gpulake.core.tables import cctf_tables
from gpulake.core.types import BadRow

Host: TypeAlias = tuple[str, str]  # node and host_id
MOST_PAIRS = 100_000  # per two nodes


@dataclass
class Bounds:
    """The offsets that the pairs of two nodes allow."""

    least_ms: float = float("-inf")
    most_ms: float = float("inf")
    pairs: int = 0
    middles: list[float] = field(default_factory=list)

    def add(self, least_ms: float, most_ms: float) -> None:
        self.pairs += 1
        self.least_ms = max(self.least_ms, least_ms)
        self.most_ms = min(self.most_ms, most_ms)
        if len(self.middles) < MOST_PAIRS:
            self.middles.append((least_ms + most_ms) / 2)

    @property
    def is_consistent(self) -> bool:
        """Whether one offset explains all pairs; if not, a clock was set or drifted, or an interval is wrong."""
        return self.least_ms <= self.most_ms

    @property
    def estimate_ms(self) -> float:
        """Zero wherever it explains all pairs: clocks that may agree, as those of one machine do, are left alone."""
        if self.least_ms <= 0 <= self.most_ms:
            return 0.0
        middle = median(self.middles)
        return min(max(middle, self.least_ms), self.most_ms) if self.is_consistent else middle


class Skew:
    """Joins child spans with their parents by sorting, so that memory stays bounded."""

    def __init__(self, folder: Path) -> None:
        self._spans = SortedFile(folder / "spans", lambda line: tuple(json.loads(line)))

    def note(self, row: Row, host: Host) -> None:
        start, end = row.get("ts_start"), row.get("ts_end")
        if not isinstance(start, int) or not isinstance(end, int):
            return
        trace = str(row.get("trace_id") or "")
        if row.get("span_id"):
            self._add([trace, str(row["span_id"]), 0, *host, start, end])
        if row.get("parent_id"):
            self._add([trace, str(row["parent_id"]), 1, *host, start, end])

    def _add(self, entry: list[Any]) -> None:
        self._spans.add(tuple(entry), json.dumps(entry))

    def bounds(self) -> dict[tuple[Host, Host], Bounds]:
        """By two hosts, in the order of their names: what to add to the clock of the second."""
        found: dict[tuple[Host, Host], Bounds] = {}
        for _, group in groupby(self._entries(), key=lambda entry: entry[:2]):
            # The same span in two files counts once.
            entries = [entry for entry, _ in groupby(group)]
            parents = [entry for entry in entries if entry[2] == 0]
            for child in (entry for entry in entries if entry[2] == 1):
                for parent in parents:
                    _compare(parent, child, found)
        return found

    def _entries(self) -> Iterator[list[Any]]:
        for line in self._spans.drain():
            yield json.loads(line)


def _compare(parent: list[Any], child: list[Any], found: dict[tuple[Host, Host], Bounds]) -> None:
    above, below = (parent[3], parent[4]), (child[3], child[4])
    if above == below:
        return
    least, most = parent[5] - child[5], parent[6] - child[6]
    if least > most:
        return  # the child took longer than its parent: no information
    if above < below:
        found.setdefault((above, below), Bounds()).add(least, most)
    else:
        found.setdefault((below, above), Bounds()).add(-most, -least)


def corrections(bounds: Mapping[tuple[Host, Host], Bounds]) -> dict[Host, int]:
    """Corrections of each clock, relative to the first node of a connected group; edges with most pairs first."""
    edges: dict[Host, dict[Host, tuple[int, float]]] = {}
    for (first, second), bound in bounds.items():
        edges.setdefault(first, {})[second] = (bound.pairs, bound.estimate_ms)
        edges.setdefault(second, {})[first] = (bound.pairs, -bound.estimate_ms)
    offsets: dict[Host, float] = {}
    for root in sorted(edges):
        if root in offsets:
            continue
        offsets[root] = 0.0
        reached = [root]
        while True:
            nexts = [
                (-pairs, host, other, offset)
                for host in reached
                for other, (pairs, offset) in edges[host].items()
                if other not in offsets
            ]
            if not nexts:
                break
            _, host, other, offset = min(nexts)
            offsets[other] = offsets[host] + offset
            reached.append(other)
    return {host: round(offset) for host, offset in offsets.items()}


PREFIX = 6  # of a host_id, in a name


@dataclass(frozen=True)
class Input:
    """One folder that is merged."""

    path: Path
    nodes: tuple[Mapping[str, Any], ...]
    stands_for_host: bool  # rows without a host_id get one derived from the folder

    @property
    def only_node(self) -> str:
        """The node of rows that name none: the only one of nodes.json, else the name of the folder."""
        names = {str(node.get("node_id")) for node in self.nodes if node.get("node_id")}
        if not names:
            folder = self.path.resolve()
            return folder.parent.name if folder.name in FOLDERS else folder.name
        return names.pop() if len(names) == 1 else ""

    def host_id(self, row: Mapping[str, Any], node: str) -> str | None:
        """That of the row, else of its node in nodes.json, else of the folder; None: a node of another folder."""
        if row.get("host_id"):
            return str(row["host_id"])
        hosts = [known.get("host_id") for known in self.nodes if known.get("node_id") == node]
        if self.nodes and not hosts:
            return None
        return str(hosts[0]) if len(set(hosts)) == 1 and hosts[0] else self.folder_id

    def files(self) -> Iterator[tuple[str, Path]]:
        """The tables that the folder has."""
        for table in SUBJECTS:
            path = self.path / cctf_tables()[table].file
            if path.is_file():
                yield table, path

    @property
    def folder_id(self) -> str:
        return hashlib.sha256(f"folder {self.path.resolve()}".encode()).hexdigest()[:12]


@dataclass
class Renaming:
    """The names of hosts after the merge, and the corrections of their clocks."""

    hosts: dict[str, set[str]] = field(default_factory=dict)  # by node name
    corrections: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by new name and host_id

    _resolved: dict[tuple[Path, str, str], tuple[str, str, int]] = field(default_factory=dict)

    def add(self, node: str, host_id: str) -> None:
        self.hosts.setdefault(node, set()).add(host_id)

    def correct(self, corrections: Mapping[tuple[str, str], int]) -> None:
        self.corrections = corrections
        self._resolved.clear()

    def name(self, node: str, host_id: str) -> str:
        known = self.hosts.get(node, set()) | {host_id}
        if len(known) < 2:
            return node
        length = PREFIX
        while length < len(host_id) and len({other[:length] for other in known}) < len(known):
            length += 1
        return f"{node}~{host_id[:length]}"

    def renamed(self) -> list[dict[str, str]]:
        return [
            {"node": node, "host_id": host_id, "name": self.name(node, host_id)}
            for node, hosts in sorted(self.hosts.items())
            if len(hosts) > 1
            for host_id in sorted(hosts)
        ]

    def _host_id(self, source: Input, row: Mapping[str, Any], node: str) -> str:
        """A row of a node that its folder does not list belongs to the only host of that name, if there is one."""
        found = source.host_id(row, node)
        if found is None:
            known = self.hosts.get(node, set())
            found = next(iter(known)) if len(known) == 1 else source.folder_id
        return found

    def row(self, table: str, source: Input, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row with its new name and time, and all columns."""
        column = "u" if table == "links" else "node_id" if table in ("nodes", "placement_events") else "node"
        full = whole(table, row)
        node = str(row.get(column) or row.get("node") or row.get("node_id") or source.only_node)
        known = (source.path, node, str(row.get("host_id") or ""))
        if known not in self._resolved:
            host_id = self._host_id(source, row, node)
            name = self.name(node, host_id)
            self._resolved[known] = (name, host_id, self.corrections.get((name, host_id), 0))
        full[column], full["host_id"], shift = self._resolved[known]
        if full[column] != node:
            for other in ("v", "link"):
                if isinstance(full.get(other), str) and full[other].startswith(f"{node}."):
                    full[other] = full[column] + full[other][len(node) :]
        if shift:
            for clock in CLOCK_COLUMNS:
                if isinstance(full.get(clock), int):
                    full[clock] += shift
        return full


FOLDERS = ("cctf", "CTS")
DEEPEST = 4


def has_files(folder: Path) -> bool:
    return any((folder / table.file).is_file() for table in cctf_tables().values())


def output_folder(path: Path) -> Path:
    """The folder with the files of the run at `path`."""
    for name in FOLDERS:
        if has_files(path / name):
            return path / name
    if not path.is_dir():
        raise InputError(f"no folder at {path}", "name a run directory, or its folder cctf")
    if (path / "segments").is_dir() or (path / "node_meta.json").is_file() or not has_files(path):
        raise InputError(f"{path} has no parsed files", f"parse it first: gpulake collect parse {path}")
    return path


def output_folders(path: Path, besides: Path) -> list[Path]:
    """All such folders at or below `path`, except one."""
    found = sorted(_below(path, DEEPEST))
    found = [folder for folder in found if folder.resolve() != besides.resolve()]
    if not found:
        output_folder(path)
        raise InputError(f"{path} has no parsed files", f"parse it first: gpulake collect parse {path}")
    return found


def _below(path: Path, depth: int) -> Iterator[Path]:
    inner = [path / name for name in FOLDERS if has_files(path / name)]
    if inner:
        yield inner[0]
    elif has_files(path) and not (path / "segments").is_dir() and not (path / "node_meta.json").is_file():
        yield path
    elif depth and path.is_dir():
        for child in path.iterdir():
            if child.is_dir() and not child.is_symlink():
                yield from _below(child, depth - 1)


def rows_of(path: Path, bad: Callable[[int, str], None]) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines; `bad` gets the number and the reason of other lines."""
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            bad(number, line.reason)
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if line.strip():
                bad(number, "it is no JSON")
            continue
        if isinstance(row, dict):
            yield row
        else:
            bad(number, "it is no object")
