"""Processes: every tick has a row for every known process, with the CPU that it used since the row before.

A process that began while the collector ran is charged from its start; nothing is rounded, so that the intervals add up
to the counters. A day of one node has hundreds of millions of these rows, most of them without a change: the constant
part of a line is cached as text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpulake.collect.cctf.audit import FileCheck
from gpulake.collect.cctf.blocks import Layout, Tick
from gpulake.collect.cctf.files import Key, SortedFile
from gpulake.collect.cctf.series import GivenGpus
from gpulake.collect.segments import Block

SOURCE = "pid"
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
TABLES = ("proc_metrics", "proc_cpu", "proc_rss")


@dataclass(frozen=True)
class ProcessFiles:
    metrics: SortedFile
    cpu: SortedFile
    rss: SortedFile


@dataclass
class Life:
    """The lifetime of a process, as far as it was observed."""

    proc_id: str
    started_ms: int
    ended_ms: int | None = None


class _Names(NamedTuple):
    """What the facts of a process put into its rows: texts, its subject, and the columns without a value."""

    before: str  # the threads
    after: str  # the counters
    ids: str  # the end of a row of proc_cpu and proc_rss
    subject: tuple[Any, ...]
    missing: list[str]  # of proc_metrics
    missing_ids: list[str]  # of the two small files


@dataclass(slots=True)
class _Process:
    pid: int
    facts: Mapping[str, Any]  # the row Process; empty if it was lost
    sample: Mapping[str, Any] | None = None
    charged_ticks: int = 0
    charged_at_ms: int | None = None  # since boot; None: no interval yet
    # Texts of its rows, after ts_ms: to before its cpu_ms, the same with no CPU to before its dt_ms, the rest; in
    # proc_cpu, with no CPU to before its dt_ms; in proc_rss, all of it, or empty if it is unknown.
    head: str = ""
    idle: str = ""
    tail: str = ""
    idle_cpu: str = ""
    ids: str = ""
    rss: str = ""
    names: _Names | None = None
    missing: list[str] = field(default_factory=list)  # columns of proc_metrics without a value
    rows: int = 0  # written with these texts, and not yet in the checks
    rows_without_cpu: int = 0
    is_changed: bool = True
    life: Life | None = None

    @property
    def proc_id(self) -> str:
        return str(self.facts.get("proc_id") or "")


@dataclass
class Processes:
    """The processes of one node, from tick to tick."""

    files: ProcessFiles
    pids_of_interest: frozenset[int] = frozenset()  # those that invocations name
    lives: dict[int, list[Life]] = field(default_factory=dict)
    given: GivenGpus = field(default_factory=GivenGpus)
    samples_without_process: int = 0
    _view: dict[int, _Process] = field(default_factory=dict)
    _former: dict[str, _Process] = field(default_factory=dict)  # vanished without an end row
    _ordered: list[_Process] | None = None
    _boot_id: str | None = None
    _session: int = -1
    _began_ms: int = 0  # when the first session of this boot began
    _written_ms: int = -1
    _written_ts_ms: int = -1
    _is_exact: bool = True  # the checks describe what was written
    _checks: dict[str, FileCheck] = field(default_factory=lambda: {name: FileCheck(name, "", "") for name in TABLES})

    def proc_id_of(self, pid: int | None) -> str | None:
        process = None if pid is None else self._view.get(pid)
        return None if process is None else process.proc_id or None

    def comm_of(self, pid: int | None) -> str | None:
        process = None if pid is None else self._view.get(pid)
        return None if process is None else process.facts.get("comm")

    def tick(self, tick: Tick, layout: Layout, block: Block) -> None:
        self._begin(tick)
        ends = Counter(end["pid"] for end in _with_pid(layout, block, "process_end"))
        for pid in [pid for pid in ends if pid in self._view]:
            self._end(pid, tick)
            ends[pid] -= 1
        listed = list(_with_pid(layout, block, "process"))
        self._drop_unlisted(listed, tick)
        for facts in listed:
            self._add(facts, tick)
        for sample in _with_pid(layout, block, "process_sample"):
            self._take(sample)
        # Started and ended within the tick.
        for pid in [pid for pid, times in ends.items() if times > 0 and pid in self._view]:
            self._end(pid, tick)
        # Ticks without a readable source are skipped: their CPU is charged at the next one.
        if tick.elapsed_ms > self._written_ms and SOURCE not in block.unread:
            self._write(tick)

    def _begin(self, tick: Tick) -> None:
        if tick.boot_id != self._boot_id:
            for pid in list(self._view):
                self._end(pid, tick)
            self._former.clear()
            self._boot_id, self._session = tick.boot_id, tick.session
            self._began_ms, self._written_ms = tick.elapsed_ms, -1
        elif tick.session != self._session:
            # The new session lists the processes that are still running; their counters continue.
            self._session = tick.session
            self._former = {process.proc_id: process for process in self._view.values() if process.proc_id}
            for pid in list(self._view):
                self._end(pid, tick)

    def _drop_unlisted(self, listed: list[dict[str, Any]], tick: Tick) -> None:
        """After a loss the source lists all processes again: those missing ended in the lost block."""
        again = {facts["pid"] for facts in listed if (known := self._view.get(facts["pid"])) and known.facts == facts}
        if 2 * len(again) >= len(self._view):
            for pid in self._view.keys() - {facts["pid"] for facts in listed}:
                self._former[self._view[pid].proc_id] = self._view[pid]
                self._end(pid, tick)

    def _add(self, facts: Mapping[str, Any], tick: Tick) -> None:
        pid = facts["pid"]
        proc_id = str(facts.get("proc_id") or "")
        process = self._view.get(pid)
        if process is not None and process.proc_id != proc_id and process.facts:
            self._end(pid, tick)
            process = None
        if process is None:
            process = self._former.pop(proc_id, None) or _Process(pid, facts)
            self._view[pid] = process
            self._ordered = None
        else:
            self.given.remove(process.facts)
        self._count(process)
        process.facts, process.names = facts, None
        process.is_changed = True
        self.given.add(facts)
        if pid in self.pids_of_interest and process.life is None:
            process.life = Life(proc_id, round(_born_ms(facts, tick)) + tick.offset_ms)
            self.lives.setdefault(pid, []).append(process.life)
        if process.life is not None:
            process.life.ended_ms = None

    def _take(self, sample: Mapping[str, Any]) -> None:
        process = self._view.get(sample["pid"])
        if process is None:
            process = self._returned(sample["pid"])
        process.sample = sample
        process.is_changed = True

    def _returned(self, pid: int) -> _Process:
        """A process that was assumed to have ended, or whose Process row was lost."""
        process = next((process for process in self._former.values() if process.pid == pid), None)
        if process is None:
            self.samples_without_process += 1
            process = _Process(pid, {})
        else:
            del self._former[process.proc_id]
            self.given.add(process.facts)
        self._view[pid] = process
        self._ordered = None
        return process

    def _end(self, pid: int, tick: Tick) -> None:
        process = self._view.pop(pid)
        self._count(process)
        self.given.remove(process.facts)
        self._ordered = None
        if process.life is not None:
            process.life.ended_ms = tick.ts_ms

    def checks(self) -> dict[str, FileCheck]:
        """The audit of the written files; empty where it would have to be read from them."""
        for process in self._view.values():
            self._count(process)
        found = {name: check for name, check in self._checks.items() if check.rows}
        return found if self._is_exact else {}

    def _count(self, process: _Process) -> None:
        """Adds the rows of a process that were written since its texts last changed to the checks."""
        if not process.rows or process.names is None:
            return
        rows, without_cpu = process.rows, process.rows_without_cpu
        metrics, cpu, rss = self._checks.values()
        metrics.note_written(process.names.subject, rows, process.missing)
        for column in ("cpu_ms", "dt_ms"):
            metrics.missing[column] += without_cpu
        if rows > without_cpu:
            cpu.note_written(process.names.subject, rows - without_cpu, process.names.missing_ids)
        if process.rss:
            rss.note_written(process.names.subject, rows, process.names.missing_ids)
        process.rows = process.rows_without_cpu = 0

    def _write(self, tick: Tick) -> None:
        self._written_ms = now_ms = tick.elapsed_ms
        if self._ordered is None:
            self._ordered = sorted(self._view.values(), key=lambda process: (process.pid, process.proc_id))
        is_exact = self._is_exact and tick.ts_ms > self._written_ts_ms
        self._is_exact = False  # until all is written
        stamp = f'{{"ts_ms":{tick.ts_ms}'
        metrics: list[str] = []
        cpu: list[str] = []
        rss: list[str] = []
        idle_since, idle_span = -1, ""
        for process in self._ordered:
            since = process.charged_at_ms
            if process.is_changed or since is None:
                if process.sample is None:
                    continue
                self._write_changed(process, tick, stamp, metrics, cpu)
            else:
                if since != idle_since:
                    idle_since, idle_span = since, str(now_ms - since)
                metrics.append(f"{stamp}{process.idle}{idle_span}{process.tail}")
                cpu.append(f"{stamp}{process.idle_cpu}{idle_span}{process.ids}")
            process.rows += 1
            if process.rss:
                rss.append(stamp + process.rss)
            process.charged_at_ms = now_ms
        first: Key = (tick.ts_ms,)
        last: Key = (tick.ts_ms, chr(0x10FFFF))
        files = (self.files.metrics, self.files.cpu, self.files.rss)
        for file, check, lines in zip(files, self._checks.values(), (metrics, cpu, rss), strict=True):
            file.add_sorted(first, last, lines)
            if lines:
                check.note_time(tick.ts_ms)
        self._written_ts_ms = tick.ts_ms
        self._is_exact = is_exact

    def _write_changed(self, process: _Process, tick: Tick, stamp: str, metrics: list[str], cpu: list[str]) -> None:
        spent, span = self._interval(process, tick)
        self._count(process)
        _write_texts(process, tick)
        process.is_changed = False
        metrics.append(f'{stamp}{process.head}{spent},"dt_ms":{span}{process.tail}')
        if spent != "null":
            cpu.append(f'{stamp},"pid":{process.pid},"cpu_ms":{spent},"dt_ms":{span}{process.ids}')
        else:
            process.rows_without_cpu += 1

    def _interval(self, process: _Process, tick: Tick) -> tuple[str, str]:
        """CPU and time since the row before, as JSON."""
        since = process.charged_at_ms
        assert process.sample is not None
        spent = (process.sample.get("utime_ticks"), process.sample.get("stime_ticks"))
        if None in spent:
            return "null", "null"
        total = sum(ticks for ticks in spent if ticks is not None)
        grown = total - process.charged_ticks
        process.charged_ticks = total
        if since is not None:
            return (milliseconds(grown, tick), str(tick.elapsed_ms - since)) if grown >= 0 else ("null", "null")
        born_ms = _born_ms(process.facts, tick)
        if not process.facts or born_ms <= self._began_ms:
            return "null", "null"  # it is older than the collector
        return milliseconds(total, tick), number(max(0.0, tick.elapsed_ms - born_ms))


def _with_pid(layout: Layout, block: Block, kind: str) -> Iterator[dict[str, Any]]:
    return (row for row in layout.rows(block, kind) if isinstance(row.get("pid"), int))


def milliseconds(ticks: int, tick: Tick) -> str:
    whole, rest = divmod(ticks * 1000, tick.ticks_per_second)
    return str(whole) if not rest else repr(ticks * 1000 / tick.ticks_per_second)


def number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _born_ms(facts: Mapping[str, Any], tick: Tick) -> float:
    return float((facts.get("start_ticks") or 0) * 1000 / tick.ticks_per_second)


def _write_texts(process: _Process, tick: Tick) -> None:
    sample = process.sample or {}
    if process.names is None:
        process.names = _names(process, tick)
    names = process.names
    rss = sample.get("rss_bytes")
    counters = {
        "rss_kb": None if rss is None else rss // 1024,
        "utime": sample.get("utime_ticks"),
        "stime": sample.get("stime_ticks"),
    }
    others = {
        "threads": sample.get("threads"),
        "ticks_per_second": tick.ticks_per_second,
        "read_bytes_total": sample.get("read_bytes_total"),
        "written_bytes_total": sample.get("written_bytes_total"),
    }
    process.head = f',"pid":{process.pid},{_inside(counters)},"cpu_ms":'
    process.idle = f'{process.head}0,"dt_ms":'
    process.tail = f"{names.before}{_inside(others)}{names.after}"
    process.idle_cpu = f',"pid":{process.pid},"cpu_ms":0,"dt_ms":'
    process.ids = names.ids
    process.rss = "" if rss is None else f',"pid":{process.pid},"rss_kb":{rss // 1024}{names.ids}'
    sampled = counters | others
    process.missing = names.missing + [column for column, value in sampled.items() if value is None]


def _names(process: _Process, tick: Tick) -> _Names:
    facts, names, proc_id = process.facts, tick.names, process.proc_id or None
    before = {
        **names.columns,
        "proc_id": proc_id,
        "started_ms": round(_born_ms(facts, tick)) + tick.offset_ms if facts else None,
        "ppid": facts.get("ppid"),
        "comm": facts.get("comm"),
    }
    after = {"owner_kind": facts.get("owner_kind"), "owner_id": facts.get("owner_id")}
    ids = {"node": names.node, "host_id": names.host_id, "proc_id": proc_id}
    return _Names(
        before=f",{_inside(before)},",
        after=f",{_inside(after)}}}",
        ids=f",{_inside(ids)}}}",
        subject=(names.node, names.host_id, process.pid, proc_id),
        missing=[column for column, value in (before | after).items() if value is None],
        missing_ids=[column for column, value in ids.items() if value is None],
    )


def _inside(values: Mapping[str, Any]) -> str:
    """The members of a JSON object, without its braces."""
    return _encode(values)[1:-1]
