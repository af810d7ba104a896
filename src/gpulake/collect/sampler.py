"""The loop: each tick reads every source and writes the rows as a block; a block is acknowledged once synced."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeAlias

from gpulake import __version__
from gpulake.collect.identity import Identity
from gpulake.collect.reading import MOST_BACKOFF_SECONDS, OK, Guard, Notices, SourceReader
from gpulake.collect.rows import KINDS, Cost, NodeEvent, Row
from gpulake.collect.rundir import StatusFile
from gpulake.collect.segments import Block, NoRoomError, SegmentWriter
from gpulake.collect.sources import Source
from gpulake.core.clock import Clock

STEP_MS = 500  # a larger change of wall clock minus time since boot means that the clock was set
APART_SECONDS = 0.01  # two clocks are read again if the reads were further apart
SYNC_SECONDS = 1.0
MOST_EVENTS = 1000  # of the collector itself that wait for disk space
Wait: TypeAlias = Callable[[float], bool]  # waits so many seconds; True: it is time to stop
# Called at each tick with time since boot and wall time in milliseconds, and the rows.
Observer: TypeAlias = Callable[[Identity, int, int, Sequence[Row]], None]
Acknowledged: TypeAlias = Callable[[int, Mapping[str, int]], None]  # up to this tick, with these positions
Reads: TypeAlias = Sequence[tuple[SourceReader, dict[str, list[Row]]]]


class SourceObserver(Protocol):
    """Called for each source when it becomes readable or unreadable."""

    def __call__(self, name: str, *, is_up: bool) -> None: ...


def header_of(identity: Identity, interval_seconds: float) -> dict[str, Any]:
    """The header of each segment: its writer, and the columns of its rows."""
    return asdict(identity) | {
        "gpulake": __version__,
        "interval_ms": round(interval_seconds * 1000),
        "columns": {kind: list(row._fields) for kind, row in KINDS.items()},
    }


@dataclass(frozen=True)
class Pending:
    """A block that is not acknowledged yet, and what to repeat if it is lost."""

    head: Block  # without its rows
    events: Sequence[NodeEvent]
    dropped: int  # dropped ticks that it reports


@dataclass
class Counts:
    """Since the session began."""

    tick: int = 0
    missed: int = 0
    dropped: int = 0
    unreported: int = 0  # dropped, and not yet reported in a block
    rows: dict[str, int] = field(default_factory=dict)
    tick_seconds: float = 0.0


class Sampler:
    def __init__(
        self,
        sources: Mapping[str, Source],
        writer: SegmentWriter,
        identity: Identity,
        clock: Clock,
        *,
        interval_seconds: float = 1.0,
        positions: Mapping[str, int] | None = None,
        notices: Notices | None = None,
        status: StatusFile | None = None,
        observers: Sequence[Observer] = (),
        source_observers: Sequence[SourceObserver] = (),
        acknowledged: Acknowledged = lambda *_: None,
    ) -> None:
        self._writer = writer
        self._identity = identity
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._positions = dict(positions or {})  # including sources that this session does not have
        self._notices = notices or Notices(lambda _: None)
        self._status = status
        self._acknowledged = acknowledged
        self._readers = [
            SourceReader(name, source, self._notices, interval_seconds) for name, source in sources.items()
        ]
        self._observers = [(self._guard(observer), observer) for observer in observers]
        self._source_observers = [(self._guard(observer), observer) for observer in source_observers]
        self._is_up: dict[str, bool] = {}
        self._counts = Counts()
        self._pending: list[Pending] = []
        self._events: list[NodeEvent] = []  # of the collector itself, for the next block
        self._offset_ms: int | None = None  # wall clock minus time since boot
        self._segment = ""
        self._synced_at = self._status_at = self._resumables_at = -math.inf
        self._losses = 0  # in a row
        self._began = clock.elapsed()
        self._began_at = clock.now()
        self._began_cpu_seconds = time.process_time()
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        for reader in self._readers:
            if reader.name in self._positions:
                reader.resume(self._positions[reader.name])
        self._write_status("running")

    def run(self, wait: Wait, duration_seconds: float = math.inf) -> None:
        """Ticks at fixed multiples of the interval until it is time to stop; a slow tick skips others."""
        begun = self._clock.elapsed()
        step = 0
        while True:
            self.tick(step + 1)
            late = math.floor((self._clock.elapsed() - begun) / self._interval_seconds)
            self._counts.missed += max(late - step, 0)
            step = max(late, step) + 1
            due = begun + min(step * self._interval_seconds, duration_seconds)
            while not (is_over := wait(max(due - self._clock.elapsed(), 0.0))) and self._clock.elapsed() < due:
                pass
            if is_over or step * self._interval_seconds >= duration_seconds:
                return

    def tick(self, number: int) -> None:
        begun = self._clock.elapsed()
        now_ms, elapsed_ms = self._moment()
        before = self._positions_now()
        reads = [
            (reader, reader.read(self._clock, begun))
            for reader in self._readers
            if reader.position is None or begun >= self._resumables_at
        ]
        self._add_events(now_ms, elapsed_ms)
        self._counts.tick = number
        head = Block(number, now_ms, elapsed_ms, {}, before, self._positions | self._positions_now())
        block = self._write(head, reads, begun)
        self._notify(block, begun)
        self._counts.tick_seconds = self._clock.elapsed() - begun
        if begun - self._status_at >= SYNC_SECONDS - self._interval_seconds / 2:
            self._status_at = begun
            self._write_status("running")

    def close(self) -> None:
        try:
            self._writer.close()
        except NoRoomError as error:
            self._lost(error)
        self._acknowledge()
        for reader in self._readers:
            reader.close()
        self._write_status("stopped")
        os.close(self._statm)

    def _write(self, head: Block, reads: Reads, elapsed: float) -> Block:
        events, self._events = self._events, []
        dropped, self._counts.unreported = self._counts.unreported, 0
        block = self._filled(head, reads, events, dropped)
        try:
            self._pending.append(Pending(head, events, dropped))
            try:
                self._writer.append(block)
            except (TypeError, ValueError):  # not encodable as JSON
                reads = [(reader, rows) for reader, rows in reads if reader.can_be_stored(rows)]
                block = self._filled(head, reads, events, dropped)
                self._writer.append(block)
            for kind, rows in block.rows.items():
                self._counts.rows[kind] = self._counts.rows.get(kind, 0) + len(rows)
            if elapsed - self._synced_at >= SYNC_SECONDS - self._interval_seconds / 2:
                self._synced_at = elapsed
                self._writer.sync()
        except NoRoomError as error:
            self._lost(error)
        self._acknowledge()
        if self._segment not in ("", self._writer.segment):
            # Each segment is readable alone: incremental sources repeat in it what has not changed.
            self._forget()
        self._segment = self._writer.segment
        return block

    def _filled(self, head: Block, reads: Reads, events: Sequence[NodeEvent], dropped: int) -> Block:
        rows: dict[str, list[Row]] = {}
        parts: dict[str, dict[str, list[int]]] = {}
        for reader, by_kind in reads:
            for kind, some in by_kind.items():
                into = rows.setdefault(kind, [])
                if reader.position is not None:
                    parts.setdefault(reader.name, {})[kind] = [len(into), len(some)]
                into.extend(some)
        if dropped:
            message = f"{dropped} ticks were dropped for lack of room"
            events = [*events, self._event(head.elapsed_ms, "dropped", "ticks", message)]
        if events:
            rows.setdefault("event", []).extend(events)
        rows["cost"] = [self._cost()]
        unread = [reader.name for reader in self._readers if reader.is_unread]
        return replace(head, rows=rows, parts=parts, unread=unread)

    def _notify(self, block: Block, elapsed: float) -> None:
        if self._observers:
            rows: list[Any] = list(chain.from_iterable(block.rows.values()))
            for guard, observer in self._observers:
                guard.attempt(partial(observer, self._identity, block.elapsed_ms, block.now_ms, rows), elapsed)
        for reader in self._readers:
            is_up = reader.guard.state == OK
            if self._is_up.get(reader.name) != is_up:
                self._is_up[reader.name] = is_up
                for guard, source_observer in self._source_observers:
                    guard.attempt(partial(source_observer, reader.name, is_up=is_up))

    def _guard(self, observer: Callable[..., None]) -> Guard:
        name = getattr(observer, "__qualname__", type(observer).__qualname__)
        return Guard(name, self._notices, self._interval_seconds)

    def _acknowledge(self) -> None:
        """Reports what is synced, and discards what was kept for the case of a loss."""
        done = [pending for pending in self._pending if pending.head.tick <= self._writer.acknowledged_tick]
        if done:
            self._losses = 0
            self._resumables_at = -math.inf
            self._pending = self._pending[len(done) :]
            self._acknowledged(done[-1].head.tick, done[-1].head.after)

    def _lost(self, error: NoRoomError) -> None:
        """Resumable sources go back to before the first lost block; ticks are counted as dropped."""
        lost = [pending for pending in self._pending if pending.head.tick >= error.lost_from]
        self._pending = self._pending[: len(self._pending) - len(lost)]
        self._counts.dropped += len(lost)
        self._counts.unreported += len(lost) + sum(pending.dropped for pending in lost)
        self._events = [*(event for pending in lost for event in pending.events), *self._events][:MOST_EVENTS]
        self._notices.say("segments", f"ticks are dropped: {error}", is_event=False)
        for reader in self._readers:
            if lost and reader.name in lost[0].head.before:
                reader.resume(lost[0].head.before[reader.name])
        now = self._clock.elapsed()
        if now >= self._resumables_at:
            # A log need not be read at each tick while the disk is full: its position stays.
            pause = min(self._interval_seconds * 2**self._losses, MOST_BACKOFF_SECONDS)
            self._resumables_at = now + pause - self._interval_seconds / 2
            self._losses = min(self._losses + 1, 16)
        self._forget()

    def _forget(self) -> None:
        for reader in self._readers:
            reader.forget()

    def _moment(self) -> tuple[int, int]:
        """Both clocks at the same moment: a pause in between would make all times of this boot wrong."""
        for _ in range(3):
            first = self._clock.elapsed()
            now = self._clock.now()
            second = self._clock.elapsed()
            if second - first < APART_SECONDS:
                break
        return round(now.timestamp() * 1000), round((first + second) * 500)

    def _add_events(self, now_ms: int, elapsed_ms: int) -> None:
        offset_ms = now_ms - elapsed_ms
        step_ms = 0 if self._offset_ms is None else offset_ms - self._offset_ms
        self._offset_ms = offset_ms
        if abs(step_ms) > STEP_MS:
            message = f"the wall clock was set by {step_ms / 1000:+.3f} s"
            self._events.append(self._event(elapsed_ms, "clock_step", "clock", message))
        for subject, message in self._notices.take():
            self._events.append(self._event(elapsed_ms, "skipped", subject, message))

    def _event(self, elapsed_ms: int, kind: str, subject: str, message: str) -> NodeEvent:
        return NodeEvent(elapsed_ms, kind, subject, code=None, pid=None, message=message, source="collector")

    def _positions_now(self) -> dict[str, int]:
        return {reader.name: reader.position for reader in self._readers if reader.position is not None}

    def _cost(self) -> Cost:
        workers_cpu_seconds = sum(reader.worker_cpu_seconds for reader in self._readers)
        return Cost(
            cpu_seconds_total=round(time.process_time() + workers_cpu_seconds, 6),
            resident_bytes=int(os.pread(self._statm, 64, 0).split()[1]) * os.sysconf("SC_PAGESIZE"),
            tick_seconds=round(self._counts.tick_seconds, 6),
            rows_total=sum(self._counts.rows.values()),
            written_bytes_total=self._writer.written_bytes,
            ticks_missed_total=self._counts.missed,
            ticks_dropped_total=self._counts.dropped,
            values_dropped_total=sum(reader.values_dropped for reader in self._readers),
        )

    def _write_status(self, state: str) -> None:
        if self._status is None:
            return
        cost = self._cost()
        seconds = max(self._clock.elapsed() - self._began, 1.0)
        status = {
            "state": state,
            "run_id": self._identity.run_id,
            "node_id": self._identity.node_id,
            "host_id": self._identity.host_id,
            "pid": os.getpid(),
            "started_at": self._began_at.isoformat(timespec="milliseconds"),
            "updated_at": self._clock.now().isoformat(timespec="milliseconds"),
            "interval_seconds": self._interval_seconds,
            "tick": self._counts.tick,
            "acknowledged_tick": self._writer.acknowledged_tick,
            "ticks_missed": cost.ticks_missed_total,
            "ticks_dropped": cost.ticks_dropped_total,
            "values_dropped": cost.values_dropped_total,
            "rows": self._counts.rows,
            "sources": {reader.name: reader.guard.state for reader in self._readers},
            "cpu_seconds": cost.cpu_seconds_total,
            "cpu_ratio": round((cost.cpu_seconds_total - self._began_cpu_seconds) / seconds, 5),
            "resident_bytes": cost.resident_bytes,
            "used_bytes": self._writer.used_bytes,
            "cap_bytes": self._writer.cap_bytes,
            "segment": self._writer.segment,
        }
        try:
            self._status.write(status)
        except OSError as error:
            self._notices.say("status.json", str(error))
