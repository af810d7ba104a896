"""One file a source. A source reads one side of this machine, cheaply, and says what it may not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from gpulake.collect.rows import Row
from gpulake.core.clock import Clock
from gpulake.core.registry import Registry


class NoData(Exception):  # noqa: N818 - absence is not an error
    """This host has nothing for the source: said once, and the source is left out."""


class Source(Protocol):
    def read(self, clock: Clock) -> Iterable[Row]:
        """What there is now. Raises NoData if there is nothing and will be nothing.

        A source that drops impossible values counts them in an attribute `values_dropped`.
        """
        ...


@runtime_checkable
class Resumable(Protocol):
    """A source that reads something that stays there: it says how far it came, and goes on from there.

    Its position covers what it has yielded and nothing more, also when `read` raised; in one boot it only grows.
    """

    def read(self, clock: Clock) -> Iterable[Row]: ...

    def position(self) -> int: ...

    def resume(self, position: int) -> None: ...


@runtime_checkable
class Forgetful(Protocol):
    """A source that yields only what changed. Told that what it yielded may be lost, it yields everything again."""

    def read(self, clock: Clock) -> Iterable[Row]: ...

    def forget(self) -> None: ...


@runtime_checkable
class Closable(Protocol):
    """A source that holds something: a thread, a process, the driver."""

    def read(self, clock: Clock) -> Iterable[Row]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Machine:
    """Where a source finds this machine, and what it is asked to look at. Tests give a recorded host."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    interface: str = ""  # of the run; empty: the one of the default route
    peer: str = ""  # address to measure the round trip to
    match: str = ""  # processes whose name or command line it is found in, any case; empty: all that are programs
    pid_dir: Path | None = None  # only processes that have a file named by their pid there
    cgroup: str = ""  # only processes in this cgroup or below
    refresh_seconds: float = 1.0  # how often to look for new processes; 0: only at the start
    interval_seconds: float = 1.0  # between two reads
    say: Callable[[str], None] = field(default=lambda _: None, compare=False)  # told once of what is skipped, and why


SOURCES: Registry[Callable[[Machine], Source]] = Registry("source", "gpulake.collect.sources")
