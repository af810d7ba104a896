"""Records of a live site: servers and programs are asked, and their answers saved as files that `gpulake land` reads.

One file a source. A source yields pieces in the order of time. A piece covers a span of time completely: once it has
landed, that span is not asked for again. What cannot be read is a PullError: the pieces before it have landed, and the
next pull begins there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from gpulake.core.clock import Clock
from gpulake.core.progress import Report
from gpulake.core.registry import Registry


@dataclass(frozen=True)
class Span:
    """From `since` until just before `until`."""

    since: datetime
    until: datetime


@dataclass(frozen=True)
class Piece:
    """Answers as files, each of which `gpulake land` reads as well when it is given by hand, and what they cover.

    A file's name is that of its landing: the same name with other content replaces it. Files are removed once they
    have landed. No files: there was nothing in this time.
    """

    span: Span
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()  # what the source does not have, or may not be asked for


@dataclass(frozen=True)
class Desk:
    """What a source works with: a folder for its files, the time, a wait between tries, and a report of progress."""

    folder: Path
    clock: Clock
    wait: Callable[[float], object]
    report: Report
    open_jobs: Callable[[str], Sequence[str]] = lambda _: ()  # of a cluster, ids of those that had not ended when built


class Source(Protocol):
    """Watermarks belong to name, address and scope together: another scope of the same server is pulled by itself."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Of the server, or the name of the cluster; without credentials."""
        ...

    @property
    def scope(self) -> str:
        """What is asked for there; empty: everything."""
        ...

    @property
    def overlap(self) -> timedelta:
        """Before the newest watermark, what may still change or arrive late is asked for again."""
        ...

    def pieces(self, span: Span, desk: Desk) -> Iterator[Piece]: ...


PULLS: Registry[Callable[..., Source]] = Registry("source to pull from", "gpulake.pull")
