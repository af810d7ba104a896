"""How much room a terminal has, and texts that are cut or wrapped to fit in it."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from dataclasses import dataclass

ENDLESS = 10_000
LEAST_COLUMNS = 40


@dataclass(frozen=True)
class Screen:
    """A file or a pipe has no end to cut at."""

    columns: int = ENDLESS
    lines: int = ENDLESS


def screen() -> Screen:
    if not sys.stdout.isatty():
        return Screen()
    size = shutil.get_terminal_size()
    # The prompt comes back below.
    return Screen(max(size.columns, LEAST_COLUMNS), size.lines - 1)


def cells(text: str) -> int:
    """Columns that it takes: Chinese characters two, accents none."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def cut(text: str, columns: int) -> str:
    if cells(text) <= columns:
        return text
    taken, used = [], 1
    for character in text:
        used += _cells(character)
        if used > columns:
            break
        taken.append(character)
    return "".join(taken).rstrip() + "…"


def wrapped(text: str, columns: int, most: int) -> list[str]:
    """At words where there are any, in at most so many rows."""
    rows: list[str] = []
    rest = text
    while cells(rest) > columns:
        if len(rows) == most - 1:
            return [*rows, cut(rest, columns)]
        head = cut(rest, columns + 1).removesuffix("…")
        at = head.rfind(" ") if not rest[len(head) :].startswith(" ") else len(head)
        head = head[:at] if at > columns // 2 else head
        rows.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    return [*rows, rest]


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
