"""The size of the terminal, and texts cut or wrapped to fit in it."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass

from gpulake.core.words import cells

ENDLESS = 10_000
LEAST_COLUMNS = 40


@dataclass(frozen=True)
class Screen:
    """A file or a pipe is not limited."""

    columns: int = ENDLESS
    lines: int = ENDLESS


def screen() -> Screen:
    if not sys.stdout.isatty():
        return Screen()
    size = shutil.get_terminal_size()
    # One line is for the prompt.
    return Screen(max(size.columns, LEAST_COLUMNS), size.lines - 1)


def cut(text: str, columns: int) -> str:
    return text if cells(text) <= columns else _beginning(text, columns - 1).rstrip() + "…"


def wrapped(text: str, columns: int, most: int) -> list[str]:
    """Broken at words where possible, in at most `most` rows."""
    rows: list[str] = []
    rest = text
    while cells(rest) > columns:
        if len(rows) == most - 1:
            return [*rows, cut(rest, columns)]
        head = _beginning(rest, columns)
        at = head.rfind(" ") if rest[len(head)] != " " else len(head)
        head = head[:at] if at > columns // 2 else head
        rows.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    return [*rows, rest]


def _beginning(text: str, columns: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += cells(character)
        if used > columns:
            return text[:place]
    return text
