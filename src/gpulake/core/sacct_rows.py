"""The text of `sacct --parsable2` as rows: any fields in any order, behind a header row, with any delimiter.

A field may hold line breaks and delimiters, and there are no quotes: lines are joined until a row has as many fields as
the header; where it has more, they are joined in the only way in which each looks like what its column holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gpulake.core import slurm_words as words
from gpulake.core.sacct_fields import MOST_SURPLUS, Shape, mended, shape_of
from gpulake.core.types import BadRow, TextRow

LONGEST_ROW_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class Header:
    delimiter: str
    names: tuple[str, ...]
    width: int  # one more than names, where each line ends with a delimiter

    def width_of(self, lines: list[str]) -> int:
        return sum(line.count(self.delimiter) for line in lines) + 1

    def rows(self, lines: list[str]) -> list[tuple[str, ...]]:
        """The rows that the lines may be: one, unless they have more fields than there are columns."""
        fields = "\\n".join(lines).split(self.delimiter)
        if len(fields) == self.width:
            return [tuple(fields[: len(self.names)])]
        if self.width > len(self.names) and fields.pop():
            return []
        return mended(fields, self.names, self.delimiter)

    def is_whole(self, lines: list[str]) -> bool:
        """Whether nothing can follow: it is one row, and each field looks like what its column holds."""
        ways = self.rows(lines)
        return len(ways) == 1 and all(shape(ways[0][at]) for at, shape in self._shapes)

    def begins_a_row(self, line: str) -> bool:
        """Whether the line has the id of a job where a row has it."""
        at = self.names.index("JobID" if "JobID" in self.names else "JobIDRaw")
        fields = line.split(self.delimiter, at + 1)
        return at < len(fields) and words.JOB_ID.fullmatch(fields[at]) is not None

    @cached_property
    def _shapes(self) -> list[tuple[int, Shape]]:
        return [(at, shape) for at, name in enumerate(self.names) if (shape := shape_of(name))]


def header_of(line: str) -> Header | None:
    """The delimiter may be anything but letters and blanks: --delimiter sets it."""
    found = re.match(r"[A-Za-z]+(?P<delimiter>[^A-Za-z ]+)", line)
    if not found:
        return None
    delimiter = found["delimiter"]
    fields = line.split(delimiter)
    names = tuple(fields[:-1] if not fields[-1] else fields)
    is_ours = "State" in names and ("JobID" in names or "JobIDRaw" in names)
    return Header(delimiter, names, len(fields)) if is_ours and all(name.isalpha() for name in names) else None


def joined_rows(lines: Iterator[tuple[int, str]], header: Header) -> Iterator[TextRow | BadRow]:
    """Rows as wide as the header. A line that begins like a row never continues the one before it."""
    pending: list[str] = []
    begins = width = characters = 0
    for number, line in lines:
        more = line.count(header.delimiter)
        is_part = (
            pending
            and width + more <= header.width + MOST_SURPLUS
            and characters + len(line) < LONGEST_ROW_CHARACTERS
            and not header.begins_a_row(line)
            and not (width >= header.width and header.is_whole(pending))
        )
        if is_part:
            pending.append(line)
            width, characters = width + more, characters + len(line)
        else:
            yield from _rows(begins, pending, header)
            pending, begins, width, characters = [line] if line else [], number, more + 1, len(line)
    yield from _rows(begins, pending, header)


def _rows(number: int, lines: list[str], header: Header) -> Iterator[TextRow | BadRow]:
    """One row. What follows a line that is as wide as a row is no part of it, unless the two look right together."""
    if len(lines) > 1 and header.width_of(lines[:1]) == header.width and not header.is_whole(lines):
        yield _row(number, lines[:1], header)
        number, lines = number + 1, lines[1:]
    if any(lines):
        yield _row(number, lines, header)


def _row(number: int, lines: list[str], header: Header) -> TextRow | BadRow:
    ways = header.rows(lines)
    text = "\n".join(lines)
    if len(ways) == 1:
        return TextRow(number, ways[0], text)
    reason = f"{header.width_of(lines)} fields where {header.width} are expected"
    return BadRow(number, f"{reason}, and more than one way to join them" if ways else reason, text)
