"""The careful reader: finds what the engine's fast reader trips over, row by row.

The clean copy keeps every row on the line it had: a bad row becomes an empty line, which the engine skips and counts.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpulake.core.errors import InputError
from gpulake.core.lines import LONGEST_LINE_BYTES, byte_lines, text_lines
from gpulake.core.types import BadRow, CsvLayout
from gpulake.lake.fields import checker

KEPT_TEXT_CHARACTERS = 4096
KEPT_REASON_CHARACTERS = 500
# A file with more is not the file that it is taken for; quarantining it whole would only fill memory.
MOST_BAD_ROWS = 1_000_000
MOST_KEPT_CHARACTERS = 1 << 26  # of all bad rows of a file; behind them, of each the first few
FEW_CHARACTERS = 128
Fault = Callable[[Sequence[str]], str]
Rows = Iterator[tuple[int, bytes | BadRow]]


class BadRows:
    """The bad rows of a file, within limits."""

    def __init__(self) -> None:
        self.rows: list[BadRow] = []
        self._kept = 0

    def add(self, row: BadRow) -> None:
        self._kept += len(row.text)
        self.rows.append(row if self._kept <= MOST_KEPT_CHARACTERS else replace(row, text=row.text[:FEW_CHARACTERS]))
        check_bad_rows(len(self.rows), row.reason)


def sanitise(path: Path, layout: CsvLayout, clean: Path) -> tuple[int, list[BadRow]]:
    """Writes the rows whose structure is sound to `clean`; returns the count of all rows, and the others."""
    count = written = 0
    bad = BadRows()
    with clean.open("wb") as out:
        for number, row in _quoted_rows(path, layout) if layout.quote else _plain_rows(path, layout):
            if isinstance(row, BadRow):
                bad.add(row)
                continue
            count += bool(row) and not (layout.has_header and number == 1)
            out.write(b"\n" * (number - 1 - written) + row + b"\n")
            written = max(written + 1, number)
    return count + len(bad.rows), bad.rows


def bad_row(line_number: int, reason: str, text: str) -> BadRow:
    # A reason may quote a value, however long that is.
    return BadRow(line_number, reason[:KEPT_REASON_CHARACTERS], text[:KEPT_TEXT_CHARACTERS].replace("\x00", "\\0"))


def check_bad_rows(count: int, reason: str) -> None:
    if count > MOST_BAD_ROWS:
        raise InputError(f"more than {MOST_BAD_ROWS} errors, such as: {reason}", "is this file what its name says?")


def _plain_rows(path: Path, layout: CsvLayout) -> Rows:
    delimiter = layout.delimiter.encode()
    width = len(layout.file_columns)
    fault = checker(layout)
    for number, line in byte_lines(path):
        if isinstance(line, BadRow):
            yield number, bad_row(number, line.reason, line.text)
            continue
        row = line.rstrip(b"\r\n")
        if not row or (layout.has_header and number == 1):
            yield number, row
            continue
        # Empty fields behind the last column are let pass, as the engine does.
        while row.endswith(delimiter) and row.count(delimiter) >= width:
            row = row.removesuffix(delimiter)
        reason = structure_fault(row, delimiter, width)
        reason = reason or fault(row.decode("utf-8").split(layout.delimiter))
        yield number, (bad_row(number, reason, row.decode("utf-8", "replace")) if reason else row)


def structure_fault(row: bytes, delimiter: bytes, width: int) -> str:
    if len(row) > LONGEST_LINE_BYTES:
        return f"row of {len(row)} bytes; the longest allowed has {LONGEST_LINE_BYTES}"
    if b"\x00" in row or b"\r" in row:
        return "control character in the row"
    found = row.count(delimiter) + 1
    if found != width:
        return f"{found} columns where {width} are expected"
    try:
        row.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    return ""


def _quoted_rows(path: Path, layout: CsvLayout) -> Rows:
    """One row a record, on the line where the record begins; the lines that it spanned follow empty."""
    long: list[BadRow] = []
    reader = csv.reader(_lines(path, long), quotechar=layout.quote, delimiter=layout.delimiter)
    fault = checker(layout)
    begins = 1
    try:
        for fields in reader:
            yield begins, _quoted_row(fields, begins, layout, fault)
            begins = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"line {begins}: {error}", "a quote that was opened may not be closed") from error
    yield from ((row.line_number, bad_row(row.line_number, row.reason, row.text)) for row in long)


def _lines(path: Path, long: list[BadRow]) -> Iterator[str]:
    for _, line in text_lines(path):
        if isinstance(line, BadRow):
            long.append(line)
            yield "\n"
        elif "\r" in line[:-2]:  # some end a line with it alone
            yield from io.StringIO(line, newline="")
        else:
            yield line


def _quoted_row(fields: list[str], line: int, layout: CsvLayout, fault: Fault) -> bytes | BadRow:
    if not fields:
        return b""
    text = layout.delimiter.join(fields)
    width = len(layout.file_columns)
    while len(fields) > width and not fields[-1]:
        fields.pop()
    if len(fields) != width:
        return bad_row(line, f"{len(fields)} columns where {width} are expected", text)
    if "�" in text or "\x00" in text:
        return bad_row(line, "not UTF-8, or a control character in the row", text)
    fields = [" ".join(field.split()) for field in fields]
    reason = "" if layout.has_header and line == 1 else fault(fields)
    if reason:
        return bad_row(line, reason, text)
    quote = layout.quote
    return layout.delimiter.join(f"{quote}{field.replace(quote, quote * 2)}{quote}" for field in fields).encode()
