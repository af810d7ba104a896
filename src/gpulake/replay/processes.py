"""The files of a collected run, read for a workload: nodes, parents of processes, and what those of invocations used.

A run is one node's folder, a folder of such folders, or what was merged from them. A process is known by its
`proc_id`, or else by host and pid; a host by its `host_id`, or else by its name within the folder that it was found in:
pids repeat on other nodes, and names of nodes on other hosts.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from gpulake.core.errors import InputError
from gpulake.replay.fragments import Rates, Stretch

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


Gpu: TypeAlias = tuple[HostKey, str]
# A chain of parents longer than this has a loop in it.
LONGEST_CHAIN = 64
NEAR_MS = 1000


class Seen(NamedTuple):
    """A process as the samples show it."""

    parent_pid: int | None
    started_ms: int


class Processes:
    """The processes of a run, and for each the one among its parents, or itself, that invocations name."""

    def __init__(self, files: RunFiles) -> None:
        self._seen: dict[ProcessKey, Seen] = {}
        self._by_pid: dict[tuple[HostKey, int], list[ProcessKey]] = defaultdict(list)
        self._owners: dict[ProcessKey, ProcessKey | None] = {}
        for folder, row in files.rows("proc_metrics.jsonl"):
            self._add(folder, row)
        for keys in self._by_pid.values():
            keys.sort(key=lambda key: self._seen[key].started_ms)

    def find(self, host: HostKey, key: ProcessKey | None, pid: int | None, begin: int, end: int) -> ProcessKey | None:
        """The process of an invocation, of which a tracer may know only the pid."""
        if key is None or key in self._seen or pid is None:
            return key
        candidates = self._by_pid.get((host, pid), [])
        before = [each for each in candidates if self._seen[each].started_ms <= begin]
        later = [each for each in candidates if self._seen[each].started_ms < end]
        return before[-1] if before else later[0] if later else key

    def name(self, named: Iterable[ProcessKey]) -> None:
        """Processes to which the usage of their children is attributed."""
        self._owners = {process: process for process in named}

    def owner(self, process: ProcessKey | None) -> ProcessKey | None:
        if process is None:
            return None
        if process not in self._owners:
            self._owners[process] = self._look_up(process)
        return self._owners[process]

    def _look_up(self, process: ProcessKey) -> ProcessKey | None:
        above: ProcessKey | None = process
        for _ in range(LONGEST_CHAIN):
            above = self._parent(above)
            if above is None or above in self._owners:
                return self._owners[above] if above else None
        return None

    def _parent(self, process: ProcessKey | None) -> ProcessKey | None:
        """Of several processes that had the pid, the last one that was there before the child."""
        seen = self._seen.get(process) if process else None
        if process is None or seen is None or seen.parent_pid is None:
            return None
        candidates = self._by_pid.get(((process[0], process[1]), seen.parent_pid), [])
        before = [key for key in candidates if self._seen[key].started_ms <= seen.started_ms and key != process]
        return before[-1] if before else None

    def _add(self, folder: str, row: Row) -> None:
        key = process_key(folder, row)
        instant = whole(row.get("ts_ms"))
        if key is None or instant is None or key in self._seen:
            return
        started = whole(row.get("started_ms"))
        self._seen[key] = Seen(whole(row.get("ppid")), instant if started is None else started)
        if (pid := whole(row.get("pid"))) is not None:
            self._by_pid[host_key(folder, row), pid].append(key)


@dataclass
class Memory:
    """Resident bytes of a process and its children, by time."""

    by_instant: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _instants: list[int] = field(default_factory=list)

    def peak(self, begin: int, end: int) -> int | None:
        """Within an interval, or at the sample next to it."""
        if not self._instants:
            self._instants = sorted(self.by_instant)
        first, last = bisect_left(self._instants, begin), bisect_right(self._instants, end)
        within = self._instants[first:last] or self._instants[max(0, first - 1) : first + 1]
        return max((self.by_instant[instant] for instant in within), default=None)


@dataclass
class Usage:
    cpu: dict[ProcessKey, Rates] = field(default_factory=lambda: defaultdict(Rates))
    gpu: dict[ProcessKey, Rates] = field(default_factory=lambda: defaultdict(Rates))
    memory: dict[ProcessKey, Memory] = field(default_factory=lambda: defaultdict(Memory))
    open_gpus: dict[ProcessKey, dict[Gpu, list[int]]] = field(default_factory=lambda: defaultdict(dict))

    def peak_bytes(self, process: ProcessKey | None, begin: int, end: int) -> int | None:
        return self.memory[process].peak(begin, end) if process in self.memory else None

    def gpus_between(self, process: ProcessKey | None, begin: int, end: int) -> int:
        """GPUs that the process or a child had open then."""
        if process not in self.open_gpus:
            return 0
        return sum(bool(_near(instants, begin, end)) for instants in self.open_gpus[process].values())


def read_usage(files: RunFiles, owners: Processes) -> Usage:
    usage = Usage()
    has_cpu = False
    for owner, instant, _, row in _owned(files, owners, "proc_metrics.jsonl"):
        has_cpu = _add_cpu(usage, owner, instant, row) or has_cpu
        kib = whole(row.get("rss_kb"))
        if kib is not None:
            usage.memory[owner].by_instant[instant] += kib * 1024
    if not has_cpu:
        for owner, instant, _, row in _owned(files, owners, "proc_cpu.jsonl"):
            _add_cpu(usage, owner, instant, row)
    _read_gpus(files, owners, usage)
    return usage


def _owned(files: RunFiles, owners: Processes, name: str) -> Iterator[tuple[ProcessKey, int, str, Row]]:
    """Rows of processes that belong to an invocation: the owner, the time, the folder and the row."""
    for folder, row in files.rows(name):
        owner, instant = owners.owner(process_key(folder, row)), whole(row.get("ts_ms"))
        if owner is not None and instant is not None:
            yield owner, instant, folder, row


def _add_cpu(usage: Usage, owner: ProcessKey, instant: int, row: Row) -> bool:
    cpu_ms, dt_ms = number(row.get("cpu_ms")), number(row.get("dt_ms"))
    if cpu_ms is None or dt_ms is None or dt_ms <= 0 or cpu_ms < 0:
        return False
    usage.cpu[owner].add(Stretch(instant - max(1, round(dt_ms)), instant, cpu_ms / dt_ms))
    return True


def _read_gpus(files: RunFiles, owners: Processes, usage: Usage) -> None:
    """A GPU's busy share, since the sample before, belongs to those that have it open; several share it evenly."""
    holders: dict[tuple[Gpu, int], set[ProcessKey]] = defaultdict(set)
    for owner, instant, folder, row in _owned(files, owners, "gpu_processes.jsonl"):
        if not row.get("gpu_uuid"):
            continue
        gpu = (host_key(folder, row), str(row["gpu_uuid"]))
        holders[gpu, instant].add(owner)
        usage.open_gpus[owner].setdefault(gpu, []).append(instant)
    users: dict[Gpu, list[ProcessKey]] = defaultdict(list)
    for owner, gpus in usage.open_gpus.items():
        for gpu in gpus:
            users[gpu].append(owner)
    for gpu, begin, end, busy in _busy_times(files):
        having = holders.get((gpu, end), set())
        for owner in users.get(gpu, ()):
            usage.gpu[owner].add(Stretch(begin, end, busy / len(having) if owner in having else 0.0))


def _busy_times(files: RunFiles) -> Iterator[tuple[Gpu, int, int, float]]:
    samples: dict[Gpu, dict[int, float]] = defaultdict(dict)
    for folder, row in files.rows("gpu_metrics.jsonl"):
        instant, busy = whole(row.get("ts_ms")), number(row.get("gpu_busy_ratio"))
        if instant is not None and busy is not None and row.get("gpu_uuid"):
            samples[host_key(folder, row), str(row["gpu_uuid"])][instant] = min(1.0, max(0.0, busy))
    for gpu, by_instant in samples.items():
        instants = sorted(by_instant)
        step = instants[1] - instants[0] if len(instants) > 1 else 1000
        for before, instant in zip([instants[0] - step, *instants], instants, strict=False):
            yield gpu, before, instant, by_instant[instant]


def _near(instants: list[int], begin: int, end: int) -> list[int]:
    """The samples of an interval; one that comes soon after it still counts."""
    ordered = sorted(set(instants))
    return ordered[bisect_left(ordered, begin) : bisect_right(ordered, end + NEAR_MS)]
