"""Messages of a stream, a format a file: which table a message belongs to, and what rows it has there.

A message is a request of a receiver, too. What cannot be read is a BadRow whose line number is the place of its message
among those that were given; the others of them are not touched by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from gpulake.core.registry import Registry
from gpulake.core.types import Rewritten

SAMPLES = "bronze_prometheus_samples"


class Message(NamedTuple):
    value: bytes
    at_ms: int = 0  # when it was written; for what does not say its own time
    key: bytes = b""
    partition: int = 0
    offset: int = 0
    error: str = ""  # why it cannot be read, where that is known before its format looks at it


class MessageFormat(Protocol):
    tables: tuple[str, ...]  # the first one is told of every message, whatever table it belongs to
    columns: dict[str, tuple[str, ...]]  # of each table, those that rows have

    def table_of(self, message: Message, /) -> str: ...

    def rows(self, table: str, messages: Sequence[Message], /) -> Iterator[Rewritten]: ...


MESSAGES: Registry[Callable[[], MessageFormat]] = Registry("format of messages", "gpulake.formats.messages")
