"""The text of `sacct --parsable2` as rows: any fields in any order, behind a header row, with any delimiter.

A field may hold line breaks and there are no quotes: lines are joined until a row has as many fields as the header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpulake.core import slurm_words as words
from gpulake.core.types import BadRow, TextRow

LONGEST_ROW_CHARACTERS = 1 << 20
NO_NODES = {"", "None assigned", "None", "(null)", "Unknown"}


@dataclass(frozen=True)
class Header:
    delimiter: str
    names: tuple[str, ...]
    width: int  # one more than names, where each line ends with a delimiter

    def begins_a_row(self, line: str) -> bool:
        """Whether the line has the id of a job where a row has it."""
        fields = line.split(self.delimiter)
        at = self.names.index("JobID" if "JobID" in self.names else "JobIDRaw")
        return at < len(fields) and words.JOB_ID.fullmatch(fields[at]) is not None


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
    """Rows as wide as the header. A line that is whole, or begins like a row, never continues the one before it."""
    pending: list[str] = []
    begins = 0
    for number, line in lines:
        width = line.count(header.delimiter) + 1
        if pending:
            joined = [*pending, line]
            is_part = _width(joined, header) <= header.width and not header.begins_a_row(line)
            if width < header.width and is_part and sum(map(len, joined)) < LONGEST_ROW_CHARACTERS:
                pending = joined
                if _width(pending, header) == header.width:
                    yield _whole(begins, pending, header)
                    pending = []
                continue
            yield _broken(begins, pending, header)
            pending = []
        if width == header.width:
            yield _whole(number, [line], header)
        elif width > header.width:
            yield _broken(number, [line], header)
        elif line:
            pending, begins = [line], number
    if pending:
        yield _broken(begins, pending, header)


def _width(lines: list[str], header: Header) -> int:
    return sum(line.count(header.delimiter) for line in lines) + 1


def _whole(number: int, lines: list[str], header: Header) -> TextRow:
    fields = "\\n".join(lines).split(header.delimiter)
    return TextRow(number, tuple(fields[: len(header.names)]), "\n".join(lines))


def _broken(number: int, lines: list[str], header: Header) -> BadRow:
    reason = f"{_width(lines, header)} fields where {header.width} are expected"
    return BadRow(number, reason, "\n".join(lines))
