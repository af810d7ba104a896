"""One file an adapter: what others logged, as invocations. `exec` and `asgi` read no files: they trace at first hand.

An adapter answers every line, row or span with one outcome, so that counts add up: whatever the text, nothing is lost
without a word and nothing stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Protocol, TypeAlias

from gpulake.collect.tracing.invocation import Invocation, PlacementEvent
from gpulake.core.registry import Registry


@dataclass(frozen=True)
class Line:
    number: int
    text: str
    is_ended: bool = True  # else the file ended before the line did: it may still be written


@dataclass(frozen=True)
class Found:
    line_number: int
    invocation: Invocation
    placements: tuple[PlacementEvent, ...] = ()


@dataclass(frozen=True)
class Rejected:
    """What cannot be read: kept, with the reason."""

    line_number: int
    reason: str
    text: str


@dataclass(frozen=True)
class LeftOut:
    """What is well formed and no invocation: counted by its reason."""

    line_number: int
    reason: str


Outcome: TypeAlias = Found | Rejected | LeftOut
NOT_ENDED = "the last line has no end yet"
EMPTY = "empty lines"


@dataclass(frozen=True)
class Asked:
    """What the user says about a file, and about the node whose run it goes to."""

    node: str
    stage: str | None = None
    host_id: str | None = None
    source_id: str = ""  # the file itself, whatever it is called
    is_node_given: bool = False  # by the user: then it goes before what the file says
    format: str = ""  # empty: the adapter's own
    trace_field: str = ""  # where the trace id stands; empty: where it usually does
    module: str = ""  # empty: as the file says, or the adapter's name
    zone: tzinfo = UTC  # of times that do not say


class Adapter(Protocol):
    is_resumable: bool  # reading may stop after any line, and go on behind it

    def read(self, lines: Iterator[Line]) -> Iterator[Outcome]:
        """Every outcome of a line comes before the next line is asked for, where the adapter is resumable."""
        ...


ADAPTERS: Registry[Callable[[Asked], Adapter]] = Registry("adapter", "gpulake.collect.adapters")
