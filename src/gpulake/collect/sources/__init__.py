"""One file per source. A source reads one aspect of this machine, cheaply, and reports what it may not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from gpulake.collect.rows import Row
from gpulake.core.clock import Clock
from gpulake.core.registry import Registry


class NoData(Exception):  # noqa: N818 - absence is not an error
    """This host has nothing for the source: reported once, and the source is skipped."""


class Source(Protocol):
    def read(self, clock: Clock) -> Iterable[Row]:
        """The current rows. Raises NoData if this host has none and never will.

        A source that drops impossible values counts them in an attribute `values_dropped`; one with worker processes
        has their cost in `worker_cpu_seconds`.
        """
        ...


@runtime_checkable
class Resumable(Source, Protocol):
    """A source with a position, such as a log, from which it can resume.

    The position covers exactly what was yielded, also when `read` raised; within one boot it only grows.
    """

    def position(self) -> int: ...

    def resume(self, position: int) -> None: ...


@runtime_checkable
class Incremental(Source, Protocol):
    """A source that yields only changes. After `forget`, because rows may be lost, it yields everything again."""

    def forget(self) -> None: ...


@runtime_checkable
class Closable(Source, Protocol):
    """A source that holds a resource: a thread, a process, the driver."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Machine:
    """Where a source finds this machine, and what to look at. Tests pass a recorded host."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    interface: str = ""  # of the run; empty: the one of the default route
    peer: str = ""  # address to measure the round trip to
    match: str = ""  # only processes whose name or command line matches, ignoring case; empty: all programs
    pid_dir: Path | None = None  # only processes that have a file named by their pid there
    cgroup: str = ""  # only processes in this cgroup or below
    refresh_seconds: float = 1.0  # how often to look for new processes; 0: only at the start
    interval_seconds: float = 1.0  # between two reads
    say: Callable[[str], None] = field(default=lambda _: None, compare=False)  # reports once what is skipped, and why


SOURCES: Registry[Callable[[Machine], Source]] = Registry("source", "gpulake.collect.sources")
