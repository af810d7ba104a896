"""Sources, clocks and machines for the tests of the sampler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpulake.collect.identity import Identity
from gpulake.collect.reading import Notices
from gpulake.collect.rows import KINDS, NodeEvent, Row
from gpulake.collect.sampler import Sampler, header_of
from gpulake.collect.segments import SegmentWriter, read_blocks_once
from gpulake.collect.sources import Source
from gpulake.core.clock import Clock

IDENTITY = Identity(
    run_id="r1",
    node_id="n1",
    stage="edge",
    host_id="h1",
    host_name="host1",
    boot_id="b1",
    cpu_cores=2,
    memory_bytes=1 << 30,
    cpu_model="test",
    cpu_freq_mhz=2400,
    ticks_per_second=100,
)


class SteppingClock:
    """Stands still but for what is added to it."""

    def __init__(self, *, elapsed: float = 100.0) -> None:
        self.seconds = elapsed
        self.at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def elapsed(self) -> float:
        return self.seconds

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        self.at += timedelta(seconds=seconds)

    def set_wall(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def waits(clock: SteppingClock, times: int) -> Callable[[float], bool]:
    """A wait that takes no time, and says to stop after so many."""
    left = iter(range(times - 1))

    def wait(seconds: float) -> bool:
        clock.pass_time(seconds)
        return next(left, None) is None

    return wait


class Counter:
    """A resumable source: it yields each number once; each tick there are `step` more, whether they are read or not."""

    def __init__(self, step: int = 3, *, tick_seconds: float = 1.0, begun: float = 100.0) -> None:
        self._step = step
        self._tick_seconds = tick_seconds
        self._begun = begun
        self._next = 0

    def read(self, clock: Clock) -> Iterator[Row]:
        limit = self._step * (1 + round((clock.elapsed() - self._begun) / self._tick_seconds))
        while self._next < limit:
            number = self._next
            self._next += 1
            yield number_row(clock, number)

    def position(self) -> int:
        return self._next

    def resume(self, position: int) -> None:
        self._next = position


class Plain:
    """A source that yields one row a read: how often it was read."""

    def __init__(self) -> None:
        self.reads = 0
        self.forgotten = 0
        self.is_closed = False
        self.values_dropped = 0

    def read(self, clock: Clock) -> Iterable[Row]:
        self.reads += 1
        return [number_row(clock, self.reads, "plain")]

    def forget(self) -> None:
        self.forgotten += 1

    def close(self) -> None:
        self.is_closed = True


def sampled(
    folder: Path, sources: Mapping[str, Source], ticks: int, *, clock: SteppingClock | None = None, **options: Any
) -> tuple[Sampler, list[str]]:
    """A session of so many waits, closed; and what it said."""
    clock = clock or SteppingClock()
    said: list[str] = []
    interval = options.get("interval_seconds", 1.0)
    writer = options.pop("writer", None) or SegmentWriter(folder, header_of(IDENTITY, interval))
    sampler = Sampler(sources, writer, IDENTITY, clock, notices=Notices(said.append), **options)
    sampler.run(waits(clock, ticks))
    sampler.close()
    return sampler, said


def number_row(clock: Clock, number: int, subject: str = "number") -> NodeEvent:
    return NodeEvent(round(clock.elapsed() * 1000), "number", subject, number, None, "", "kernel")


def events_in(folder: Path) -> list[NodeEvent]:
    return [NodeEvent(*row) for _, block in read_blocks_once(folder) for row in block.rows.get("event", ())]


def numbers_in(folder: Path, subject: str = "number") -> list[int]:
    return [event.code for event in events_in(folder) if event.subject == subject and event.code is not None]


def rows_in(folder: Path, kind: str) -> list[Row]:
    return [KINDS[kind](*row) for _, block in read_blocks_once(folder) for row in block.rows.get(kind, ())]
