"""Rows of the collector's files (core/cctf.toml) as JSON, one a message: the file's name is the key, or member `table`.

A message that names none is a row of `gpu_metrics`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from gpulake.core.tables import bronze_tables, cctf_tables
from gpulake.core.types import Rewritten, TextRow
from gpulake.formats.json_text import word
from gpulake.formats.messages import MESSAGES, Message
from gpulake.formats.messages.samples import UNREADABLE, bad_message, check

MAIN = "gpu_metrics"
_NAMED = re.compile(rb'"table"\s*:\s*"([a-z_]+)"')


@MESSAGES.register("cctf")
class CctfRows:
    def __init__(self) -> None:
        names = [MAIN, *(name for name in cctf_tables() if name != MAIN)]
        self.tables = tuple(f"bronze_{name}" for name in names)
        self.columns = {table: bronze_tables()[table].column_names for table in self.tables}

    def table_of(self, message: Message) -> str:
        found = _NAMED.search(message.value)
        name = found[1] if found else message.key.split(b".")[0]
        table = f"bronze_{name.decode('ascii', 'replace')}"
        return table if table in self.columns else self.tables[0]

    def rows(self, table: str, messages: Sequence[Message]) -> Iterator[Rewritten]:
        columns = self.columns[table]
        for place, message in enumerate(messages):
            try:
                check(message)
                row = json.loads(message.value)
                fields = tuple(word(row.get(column)) for column in columns)
            except UNREADABLE as error:
                yield bad_message(place, message, error)
                continue
            yield TextRow(place, fields, message.value.decode("utf-8", "replace"))
