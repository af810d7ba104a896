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
from typing import Any

from gpulake.collect.cctf.blocks import Layout, Tick
from gpulake.collect.cctf.files import SortedFile
from gpulake.collect.cctf.gpus import GivenGpus
from gpulake.collect.cctf.order import Key
from gpulake.collect.segments import Block

SOURCE = "pid"


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


@dataclass(slots=True)
class _Process:
    pid: int
    facts: Mapping[str, Any]  # the row Process; empty if it was lost
    sample: Mapping[str, Any] | None = None
    charged_ticks: int = 0
    charged_at_ms: int | None = None  # since boot; None: no interval yet
    head: str = ""  # from its pid to before its cpu_ms
    tail: str = ""  # what follows its dt_ms
    ids: str = ""  # what follows in the two small files
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
        process.facts = facts
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
        self.given.remove(process.facts)
        self._ordered = None
        if process.life is not None:
            process.life.ended_ms = tick.ts_ms

    def _write(self, tick: Tick) -> None:
        self._written_ms = now_ms = tick.elapsed_ms
        if self._ordered is None:
            self._ordered = sorted(self._view.values(), key=lambda process: (process.pid, process.proc_id))
        stamp = f'{{"ts_ms":{tick.ts_ms}'
        metrics: list[str] = []
        cpu: list[str] = []
        rss: list[str] = []
        for process in self._ordered:
            sample = process.sample
            if sample is None:
                continue
            spent, span = self._interval(process, tick)
            if process.is_changed:
                _write_texts(process, tick)
            metrics.append(f'{stamp}{process.head}{spent},"dt_ms":{span}{process.tail}')
            if spent != "null":
                cpu.append(f'{stamp},"pid":{process.pid},"cpu_ms":{spent},"dt_ms":{span}{process.ids}')
            if sample.get("rss_bytes") is not None:
                rss.append(f'{stamp},"pid":{process.pid},"rss_kb":{sample["rss_bytes"] // 1024}{process.ids}')
            process.charged_at_ms = now_ms
            process.is_changed = False
        first: Key = (tick.ts_ms,)
        last: Key = (tick.ts_ms, chr(0x10FFFF))
        self.files.metrics.add_sorted(first, last, metrics)
        self.files.cpu.add_sorted(first, last, cpu)
        self.files.rss.add_sorted(first, last, rss)

    def _interval(self, process: _Process, tick: Tick) -> tuple[str, str]:
        """CPU and time since the row before, as JSON."""
        since = process.charged_at_ms
        if since is not None and not process.is_changed:
            return "0", str(tick.elapsed_ms - since)
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
    sample, facts, names = process.sample or {}, process.facts, tick.names
    rss = sample.get("rss_bytes")
    process.head = (
        f',"pid":{process.pid},"rss_kb":{"null" if rss is None else rss // 1024}'
        f',"utime":{json.dumps(sample.get("utime_ticks"))},"stime":{json.dumps(sample.get("stime_ticks"))},"cpu_ms":'
    )
    ids = {"node": names.node, "host_id": names.host_id, "proc_id": process.proc_id or None}
    process.ids = "," + _inside(ids)
    process.tail = "," + _inside(
        {
            **names.columns,
            "proc_id": process.proc_id or None,
            "started_ms": round(_born_ms(facts, tick)) + tick.offset_ms if facts else None,
            "ppid": facts.get("ppid"),
            "comm": facts.get("comm"),
            "threads": sample.get("threads"),
            "ticks_per_second": tick.ticks_per_second,
            "read_bytes_total": sample.get("read_bytes_total"),
            "written_bytes_total": sample.get("written_bytes_total"),
            "owner_kind": facts.get("owner_kind"),
            "owner_id": facts.get("owner_id"),
        }
    )


def _inside(values: Mapping[str, Any]) -> str:
    """The rest of a JSON object, without its opening brace."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False)[1:]
