"""One file per adapter: reads the logs of other programs as invocations. `exec` and `asgi` trace directly.

An adapter returns one outcome for every line, row or span, so that counts add up: whatever the text, nothing is lost
silently and nothing stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Protocol, TypeAlias

from gpulake.collect.tracing.invocation import Row
from gpulake.core.registry import Registry


@dataclass(frozen=True)
class Line:
    number: int
    text: str
    is_ended: bool = True  # False: the file ends in this line, which may still be written


@dataclass(frozen=True)
class Parsed:
    line_number: int
    invocation: Row
    placements: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Rejected:
    """A line that cannot be read: kept, with the reason."""

    line_number: int
    reason: str
    text: str


@dataclass(frozen=True)
class Skipped:
    """A well-formed line that is not an invocation: counted by reason."""

    line_number: int
    reason: str


Outcome: TypeAlias = Parsed | Rejected | Skipped
NOT_ENDED = "the last line has no end yet"
EMPTY = "empty lines"


@dataclass(frozen=True)
class AdapterOptions:
    """Options of the user for a file, and the node of the run that it belongs to."""

    node: str
    stage: str | None = None
    host_id: str | None = None
    source_id: str = ""  # identifies the file, also when it is renamed
    is_node_given: bool = False  # by the user: overrides the node in the file
    format: str = ""  # empty: the default of the adapter
    trace_field: str = ""  # header or field of the trace id; empty: the usual ones
    module: str = ""  # empty: as in the file, or the name of the adapter
    zone: tzinfo = UTC  # of times without a zone


class Adapter(Protocol):
    is_resumable: bool  # reading may stop after any line, and continue behind it

    def read(self, lines: Iterator[Line]) -> Iterator[Outcome]:
        """A resumable adapter yields every outcome of a line before it takes the next line."""
        ...


ADAPTERS: Registry[Callable[[AdapterOptions], Adapter]] = Registry("adapter", "gpulake.collect.adapters")
