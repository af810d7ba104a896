"""What the formats of samples have in common: one table, and a message that cannot be read costs only itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from gpulake.core.types import BadRow, Rewritten
from gpulake.formats.messages import SAMPLES, Message
from gpulake.formats.sample_rows import NODE_LABELS, SampleRows
from gpulake.formats.samples import COLUMNS

MOST_TEXT = 4_000  # of a message that is quarantined
BLOCK_ROWS = 200_000
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)


class SampleMessages(ABC):
    tables = (SAMPLES,)
    columns = {SAMPLES: COLUMNS}  # noqa: RUF012

    def __init__(self) -> None:
        self.found = SampleRows()

    def table_of(self, _: Message, /) -> str:
        return SAMPLES

    @abstractmethod
    def read(self, place: int, message: Message) -> None:
        """Adds the samples of a message to `self.found`; raises ValueError where it cannot."""

    def forget(self) -> None:
        """Numbers of series are given anew."""
        self.found = SampleRows()

    def rows(self, _: str, messages: Sequence[Message], /) -> Iterator[Rewritten]:
        for place, message in enumerate(messages):
            before = self.found.mark()
            try:
                check(message)
                self.read(place, message)
            except UNREADABLE as error:
                self.found.cut(before)
                yield bad_message(place, message, error)
            if len(self.found) >= BLOCK_ROWS:
                yield from self.found.take()
            if self.found.is_full:
                yield from self.found.take()
                self.forget()
        yield from self.found.take()


def check(message: Message) -> None:
    if message.error:
        raise ValueError(message.error)


def bad_message(place: int, message: Message, error: Exception | str) -> BadRow:
    text = message.value.decode("utf-8", "backslashreplace")[:MOST_TEXT]
    if isinstance(error, KeyError):
        error = f"no member {error}"
    elif isinstance(error, TypeError | AttributeError):
        error = f"not of this format: {error}"
    return BadRow(place, str(error) or "it cannot be read", text)


def with_node(labels: dict[str, str], message: Message) -> dict[str, str]:
    """The key of a message is its node, where nothing else says it."""
    if message.key and not any(name in labels for name in NODE_LABELS):
        labels["Hostname"] = message.key.decode("utf-8", "replace")
    return labels


def label_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list):
        raise ValueError("a label is a list or an object")
    return "" if value is None else str(value)
