"""What the formats with one row a message have in common: a function that reads it, and one table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from gpulake.core.tables import bronze_tables
from gpulake.core.types import Rewritten, TextRow
from gpulake.formats.json_text import word
from gpulake.formats.messages import Message
from gpulake.formats.messages.samples import UNREADABLE, bad_message, check


class RowMessages:
    """`read` gives the row of a message, or an empty one if it has none; it raises where it cannot."""

    def __init__(
        self,
        table: str,
        read: Callable[[Message], Mapping[str, Any]],
        without: Collection[str] = (),
        secret: bytes = b"",
    ) -> None:
        """`without` are columns that nothing fills; what stands from `secret` on is not quarantined."""
        self.tables = (table,)
        self.columns = {table: tuple(name for name in bronze_tables()[table].column_names if name not in without)}
        self._read, self._secret = read, secret

    def table_of(self, _: Message, /) -> str:
        return self.tables[0]

    def rows(self, table: str, messages: Sequence[Message], /) -> Iterator[Rewritten]:
        for place, message in enumerate(messages):
            shown = message._replace(value=message.value.partition(self._secret)[0]) if self._secret else message
            try:
                check(message)
                row = self._read(message)
            except UNREADABLE as error:
                yield bad_message(place, shown, error)
                continue
            if row:
                fields = tuple(word(row.get(column)) for column in self.columns[table])
                yield TextRow(place, fields, shown.value.decode("utf-8", "replace"))
