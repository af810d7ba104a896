"""JSON lines of other programs: every line is a row, or is rejected with a reason."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from gpulake.core.lines import text_lines
from gpulake.core.tables import Table
from gpulake.core.types import BadRow

LARGEST_INTEGER = 2**63 - 1
KEPT_CHARACTERS = 2_000


@dataclass
class Rejects:
    """Rejected lines: written to a file, and counted."""

    output: IO[str]
    by_reason: Counter[tuple[str, str]] = field(default_factory=Counter)  # file and reason
    torn: Counter[str] = field(default_factory=Counter)  # files with an incomplete last line
    misfits: Counter[str] = field(default_factory=Counter)  # values of the wrong type, by column
    unknown_fields: Counter[str] = field(default_factory=Counter)

    def add(self, file: str, line_number: int, reason: str, text: str) -> None:
        self.by_reason[file, reason] += 1
        reject = {"file": file, "line": line_number, "reason": reason, "text": text[:KEPT_CHARACTERS]}
        self.output.write(json.dumps(reject, ensure_ascii=False) + "\n")


def objects(path: Path, rejects: Rejects) -> Iterator[tuple[int, dict[str, Any], str]]:
    """The lines that are JSON objects, with their number and text."""
    for line_number, line in text_lines(path):
        if isinstance(line, BadRow):
            rejects.add(path.name, line_number, line.reason, line.text)
            continue
        text = line.strip()
        if not text:
            continue
        try:
            row = json.loads(text, parse_constant=lambda _: None)
        except (ValueError, RecursionError) as error:
            if not line.endswith("\n"):
                rejects.torn[path.name] += 1
                rejects.add(path.name, line_number, "its end is missing: it was being written", text)
            else:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is no JSON"
                rejects.add(path.name, line_number, f"it is no JSON: {reason}", text)
            continue
        if isinstance(row, dict):
            yield line_number, row, text
        else:
            rejects.add(path.name, line_number, "it is no object", text)


def fitted(table: Table, row: dict[str, Any], rejects: Rejects) -> dict[str, Any] | str:
    """The row with all columns of the table, each of its type or None; or the reason why it is rejected."""
    fit: dict[str, Any] = {}
    for column in table.columns:
        value = row.get(column.name)
        fit[column.name] = cast(value, column.type)
        if value is not None and fit[column.name] is None:
            rejects.misfits[f"{table.name}.{column.name}"] += 1
    for name in row.keys() - table.column_types.keys():
        rejects.unknown_fields[f"{table.name}.{name[:80]}"] += 1
    missing = [name for name in table.required if fit[name] is None]
    return f"{missing[0]} is missing" if missing else fit


def cast(value: Any, kind: str) -> Any:
    """A value converted to the type, or None if that is impossible."""
    if value is None or kind == "json":
        return value
    if kind == "text":
        return value if isinstance(value, str) else json.dumps(value) if isinstance(value, int | float) else None
    if kind == "flag":
        return value if isinstance(value, bool) else None
    number = _number(value)
    if number is None or kind == "number":
        return number
    if isinstance(number, float):
        number = round(number)
    return number if abs(number) <= LARGEST_INTEGER else None


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 10**300 else None
    return value if isinstance(value, float) and math.isfinite(value) else None
