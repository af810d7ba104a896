"""The careful reader: finds what the engine's fast reader trips over, line by line.

The clean copy keeps every row on the line it had: a bad row becomes an empty line, which the engine skips and counts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from gpulake.core.types import BadRow, CsvLayout

LONGEST_ROW_BYTES = 1 << 20
KEPT_TEXT_CHARACTERS = 4096
LATEST_SECOND = 95_617_584_000
LARGEST_NUMBER = 1e15


def sanitise(path: Path, layout: CsvLayout, clean: Path) -> tuple[int, list[BadRow]]:
    """Writes the rows whose structure is sound to `clean`; returns the count of all rows, and the others."""
    rows = _quoted_rows(path, layout) if layout.quote else _plain_rows(path, layout)
    count = 0
    bad: list[BadRow] = []
    with clean.open("wb") as out:
        for number, row in rows:
            if isinstance(row, BadRow):
                bad.append(row)
                out.write(b"\n")
                continue
            count += bool(row) and not (layout.has_header and number == 1)
            out.write(row + b"\n")
    return count + len(bad), bad


def bad_row(line_number: int, reason: str, text: str) -> BadRow:
    return BadRow(line_number, reason, text[:KEPT_TEXT_CHARACTERS].replace("\x00", "\\0"))


def _plain_rows(path: Path, layout: CsvLayout) -> Iterator[tuple[int, bytes | BadRow]]:
    commas = len(layout.file_columns) - 1
    required = [layout.file_columns.index(name) for name in layout.table.required]
    types = layout.table.column_types
    numbers = [position for position, name in enumerate(layout.file_columns) if types[name] == "number"]
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            row = line.rstrip(b"\r\n")
            if not row or (layout.has_header and number == 1):
                yield number, row
                continue
            # Empty fields behind the last column are let pass, as the engine does.
            while row.endswith(b",") and row.count(b",") > commas:
                row = row[:-1]
            reason = _structure(row, commas)
            if not reason:
                fields = row.split(b",")
                reason = _missing(fields, required, layout) or _out_of_range(fields, numbers, layout)
            yield number, (bad_row(number, reason, row.decode("utf-8", "replace")) if reason else row)


def _structure(row: bytes, commas: int) -> str:
    if len(row) > LONGEST_ROW_BYTES:
        return f"row of {len(row)} bytes; the longest allowed has {LONGEST_ROW_BYTES}"
    if b"\x00" in row or b"\r" in row:
        return "control character in the row"
    found = row.count(b",")
    if found != commas:
        return f"{found + 1} columns where {commas + 1} are expected"
    try:
        row.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    return ""


def _missing(fields: list[bytes], required: list[int], layout: CsvLayout) -> str:
    empty = [layout.file_columns[position] for position in required if not fields[position]]
    return f"{empty[0]} is empty" if empty else ""


def _out_of_range(fields: list[bytes], numbers: list[int], layout: CsvLayout) -> str:
    for position in numbers:
        field = fields[position].strip()
        name = layout.file_columns[position]
        try:
            is_sound = not field or is_in_range(name, float(field))
        except ValueError:
            # The engine says better what is wrong with it.
            continue
        if not is_sound:
            return f"{name} is {field.decode()}, which is out of range"
    return ""


def is_in_range(column: str, value: float) -> bool:
    """Finite and not absurd; a time lies between the epoch and the year 5000."""
    if column.endswith("_time"):
        return 0 <= value <= LATEST_SECOND
    return abs(value) <= LARGEST_NUMBER


def _quoted_rows(path: Path, layout: CsvLayout) -> Iterator[tuple[int, bytes | BadRow]]:
    """One row a record, on the line where the record begins; the lines that it spanned follow empty."""
    required = [layout.file_columns.index(name) for name in layout.table.required]
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        reader = csv.reader(text, quotechar=layout.quote)
        begins = 1
        for fields in reader:
            yield begins, _quoted_row(fields, begins, required, layout)
            for line in range(begins + 1, reader.line_num + 1):
                yield line, b""
            begins = reader.line_num + 1


def _quoted_row(fields: list[str], line: int, required: list[int], layout: CsvLayout) -> bytes | BadRow:
    if not fields:
        return b""
    text = ",".join(fields)
    encoded = [field.encode() for field in fields]
    if len(fields) != len(layout.file_columns):
        return bad_row(line, f"{len(fields)} columns where {len(layout.file_columns)} are expected", text)
    if "�" in text or "\x00" in text:
        return bad_row(line, "not UTF-8, or a control character in the row", text)
    reason = _missing(encoded, required, layout)
    if reason and not (layout.has_header and line == 1):
        return bad_row(line, reason, text)
    return b",".join(b'"' + b" ".join(field.split()).replace(b'"', b'""') + b'"' for field in encoded)
