"""Usual lines of text: one pattern for RE2 checks all fields of many lines at a time.

What a pattern here matches, the checks of single fields accept; a line that it does not match may still be good, and is
parsed by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import re2

from gpulake.core.clock import LATEST_SECOND
from gpulake.core.tables import Table
from gpulake.lake.fields import LARGEST_INTEGER, LARGEST_NUMBER

MOST_PATTERN_BYTES = 64 << 20  # of RE2's states: where they do not fit, it becomes slow
NEVER = r"[^\x00-\x{10FFFF}]"
# Neither half a character nor the one that stands for bad bytes.
NOT_TEXT = r"\x{D800}-\x{DFFF}\x{FFFD}"
_DAY = (
    r"(?:19[7-9][0-9]|20[0-9][0-9])-"
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"|(?:19(?:7[26]|8[048]|9[26])|20(?:[02468][048]|[13579][26]))-02-29"
)
_CLOCK = r"[ T](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
TIMES = {
    "date": f"(?:{_DAY})",
    "time": rf"(?:{_DAY}){_CLOCK}(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])",
    "local_time": f"(?:{_DAY}){_CLOCK}",
}


class UsualLines:
    def __init__(self, line: str) -> None:
        options = re2.Options()
        options.max_mem = MOST_PATTERN_BYTES
        self._lines = re2.compile(f"(?:(?:{line})\r?\n)*".encode(), options)

    def runs(self, block: bytes) -> Iterator[tuple[bool, int, int]]:
        """Where usual lines, many at once, and other lines, one at a time, begin and end."""
        at = 0
        while at < len(block):
            end = self._lines.match(block, at).end()
            if end > at:
                yield True, at, end
                at = end
            if at < len(block):
                end = block.find(b"\n", at) + 1 or len(block)
                yield False, at, end
                at = end


def number(table: Table, column: str, kind: str) -> str:
    """A number that is in the column's range, as JSON writes it; not -0, which JSON lines may land as 0."""
    least, most = _range(table, column, kind)
    if least > 0:
        return NEVER
    whole = _up_to(most)
    if kind == "integer":
        return f"(?:0|-?{whole})" if least < 0 else f"(?:0|{whole})"
    small = r"[1-9](?:\.[0-9]{1,17})?e-[0-9]{1,2}"
    if least < 0:
        return rf"(?:0(?:\.[0-9]{{1,17}})?|-0\.[0-9]{{0,16}}[1-9]|-?{whole}(?:\.[0-9]{{1,17}})?|-?{small})"
    return rf"(?:(?:0|{whole})(?:\.[0-9]{{1,17}})?|{small})"


def _range(table: Table, column: str, kind: str) -> tuple[float, float]:
    if column in table.ranges:
        return table.ranges[column]
    if column.endswith("_time"):
        return 0, LATEST_SECOND
    if column.endswith("_ms") or column.startswith("ts"):
        return 0, LATEST_SECOND * 1000
    most = LARGEST_INTEGER if kind == "integer" else LARGEST_NUMBER
    return -most, most


def _up_to(most: float) -> str:
    """Whole numbers from 1 to less than most, all or nearly all of them."""
    digits = math.floor(math.log10(most))
    first = int(most // 10**digits)
    ways = [f"[1-9][0-9]{{0,{digits - 1}}}"] if digits else []
    if first > 1:
        ways.append(f"[1-{first - 1}][0-9]{{{digits}}}")
    return f"(?:{'|'.join(ways)})"
