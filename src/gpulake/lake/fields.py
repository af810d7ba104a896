"""What a field of each type may hold. The fast and the careful reader of text share these checks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import partial

from gpulake.core.clock import LATEST_SECOND
from gpulake.core.tables import Table
from gpulake.core.types import CsvLayout
from gpulake.lake.engine import name, text
from gpulake.lake.types import ENGINE

LARGEST_NUMBER = 1e15
LARGEST_SIZE_BYTES = 1e18
LARGEST_INTEGER = 2**63 - 1
# Possessive: what is no number at its end would be tried at each of its digits.
NUMBER = re.compile(r"[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?", re.ASCII)
_DAY = r"(19[7-9][0-9]|20[0-9]{2})-[0-9]{2}-[0-9]{2}"  # from the epoch to LATEST_SECOND
_CLOCK = r"[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
# The engine would take a time without an offset for UTC, and drop the offset of a local one: neither is what it says.
PATTERNS = {
    "date": _DAY,
    "time": rf"{_DAY}{_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)",
    "local_time": f"{_DAY}{_CLOCK}",
}
USUAL_DIGITS = 13
UNIT = "\x1f"  # between the fields of a row
NEVER = "(?!)"
BLANKS = " \t\n\v\f\r"  # that the engine ignores around a number
# Fields that are certainly valid; every other one is checked in detail.
USUAL = {
    "text": rf"[^{UNIT}]+",
    "integer": "[0-9]{1,%d}",
    "number": r"[0-9]{1,%d}(?:\.[0-9]{1,20})?",
    "real": r"[0-9]{1,%d}(?:\.[0-9]{1,20})?",
    "flag": "true|false",
}
WANTED = {"date": "a date", "time": "a time with its offset", "local_time": "a local time"}
INTEGER = re.compile(r"[+-]?[0-9]+")
REAL = re.compile(rf"({NUMBER.pattern})|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
# How schedulers and data frames write that there is no time.
ABSENT = ("none", "unknown", "nat", "nan", "n/a", "null")


def selected(column: str, layout: CsvLayout) -> str:
    """The column as SQL. A time that cannot be makes the query fail; the careful reader then finds its row."""
    kind = layout.table.column_types[column]
    if column not in layout.file_columns:
        return _constant(column, layout)
    if kind not in PATTERNS:
        return name(column)
    words = ", ".join(text(word) for word in ABSENT)
    return (
        f"CASE WHEN lower({name(column)}) IN ({words}) THEN NULL"
        f" WHEN {name(column)} IS NULL OR regexp_full_match({name(column)}, {text(PATTERNS[kind])})"
        f" THEN {name(column)}::{ENGINE[kind]} ELSE error('not a time') END AS {name(column)}"
    )


def selected_text(column: str, layout: CsvLayout) -> str:
    """The same of a column of text whose values were checked: of a time, only the words for none cannot be cast."""
    kind = layout.table.column_types[column]
    if column not in layout.file_columns:
        return _constant(column, layout)
    value = f"TRY_CAST({name(column)} AS {ENGINE[kind]})" if kind in PATTERNS else f"nullif({name(column)}, '')"
    return f"{value}::{ENGINE[kind]} AS {name(column)}"


def selected_json(column: str, layout: CsvLayout) -> str:
    """The same of a member of JSON lines that were checked. A list or an object looks as Python writes it."""
    kind = layout.table.column_types[column]
    if column not in layout.file_columns or kind in PATTERNS:
        return selected_text(column, layout)
    if kind != "text":
        return name(column)
    spaced = f"replace(replace({name(column)}, ',', ', '), ':', ': ')"
    return (
        f"CASE WHEN starts_with({name(column)}, '[') OR starts_with({name(column)}, '{{') THEN {spaced}"
        f" ELSE nullif({name(column)}, '') END AS {name(column)}"
    )


def _constant(column: str, layout: CsvLayout) -> str:
    value = dict(layout.constants).get(column)
    return f"{'NULL' if value is None else text(value)}::{ENGINE[layout.table.column_types[column]]} AS {name(column)}"


def read_type(kind: str) -> str:
    """Times are read as text, since they are validated before they are converted."""
    return "VARCHAR" if kind in PATTERNS else ENGINE[kind]


def checker(layout: CsvLayout, is_strict: bool = False) -> Callable[[Sequence[str]], str]:
    """A function that says what is wrong with a row of the right width; empty if nothing is.

    What is no number at all is left to the engine, which says so better, unless the check is strict: of a row that
    was rewritten the engine could not say which line it was.
    """
    columns = list(enumerate(layout.file_columns))
    kinds = layout.table.column_types
    required = [(at, column) for at, column in columns if column in layout.table.required]
    checks: dict[str, Callable[[str, str], str]] = {
        **CHECKS,
        "integer": partial(_integer_fault, table=layout.table),
        "number": partial(_number_fault, table=layout.table, is_strict=is_strict),
    }
    typed = [(at, column, checks[kinds[column]]) for at, column in columns if kinds[column] in checks]
    times = [(at, column) for at, column in columns if kinds[column] in PATTERNS]
    usual = _usual(layout) if is_strict else None

    def fault(fields: Sequence[str]) -> str:
        if usual and usual.fullmatch(UNIT.join(fields)):
            return ""
        for at, column in required:
            if not fields[at] or (kinds[column] in PATTERNS and fields[at].lower() in ABSENT):
                return f"{column} is empty"
        for at, column, check in typed:
            if (field := fields[at].strip(BLANKS)) and (reason := check(column, field)):
                return reason
        for at, column in times:
            if fields[at] and not _is_time(fields[at], kinds[column]):
                return f"{column} is {fields[at]!r}, which is not {WANTED[kinds[column]]}"
        return ""

    return fault


def _usual(layout: CsvLayout) -> re.Pattern[str]:
    """What nearly every row looks like, in one pattern: such a row needs no look at each of its fields."""
    kinds = layout.table.column_types
    patterns = []
    for column in layout.file_columns:
        pattern = NEVER if column.endswith("_time") else USUAL.get(kinds[column], NEVER)
        if "%d" in pattern:
            least, most = layout.table.ranges.get(column, (0, 10.0**USUAL_DIGITS))
            # As many digits as any number in the range may have.
            digits = min(USUAL_DIGITS, math.floor(math.log10(most)))
            pattern = pattern % digits if least <= 0 and digits > 0 else NEVER
        patterns.append(pattern if column in layout.table.required else f"(?:{pattern})?")
    return re.compile(UNIT.join(patterns), re.DOTALL)


def is_in_range(table: Table, column: str, value: float) -> bool:
    """Finite, and within the ranges of the table; a time is between the epoch and the year 2100."""
    if column in table.ranges:
        least, most = table.ranges[column]
        return least <= value <= most
    if column.endswith("_time"):
        return 0 <= value <= LATEST_SECOND
    if column.endswith("_ms") or column.startswith("ts"):
        return 0 <= value <= LATEST_SECOND * 1000
    return abs(value) <= (LARGEST_SIZE_BYTES if column.endswith("_bytes") else LARGEST_NUMBER)


def _number_fault(column: str, field: str, table: Table, is_strict: bool) -> str:
    if is_strict and not NUMBER.fullmatch(field):
        return f"{column} is {field!r}, which is not a number"
    try:
        return "" if is_in_range(table, column, float(field)) else f"{column} is {field}, which is out of range"
    except ValueError:
        return ""


def _integer_fault(column: str, field: str, table: Table) -> str:
    if not INTEGER.fullmatch(field):
        return f"{column} is {field!r}, which is not a whole number"
    # A number of many digits is out of range, however long it would take to say which one it is.
    value = int(field) if len(field) < 20 else LARGEST_INTEGER + 1
    is_bounded = column in table.ranges or column.endswith("_ms") or column.startswith("ts")
    if abs(value) > LARGEST_INTEGER or (is_bounded and not is_in_range(table, column, value)):
        return f"{column} is {field[:40]}, which is out of range"
    return ""


def _real_fault(column: str, field: str) -> str:
    return "" if REAL.fullmatch(field) else f"{column} is {field!r}, which is not a number"


def _flag_fault(column: str, field: str) -> str:
    return "" if field in ("true", "false") else f"{column} is {field!r}, which is neither true nor false"


CHECKS = {"real": _real_fault, "flag": _flag_fault}


def _is_time(field: str, kind: str) -> bool:
    if field.lower() in ABSENT:
        return True
    if not re.fullmatch(PATTERNS[kind], field):
        return False
    try:
        if kind == "date":
            date.fromisoformat(field)
        else:
            datetime.fromisoformat(field)
    except ValueError:  # 30 February
        return False
    return True
