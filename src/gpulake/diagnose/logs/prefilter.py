"""Weaker forms of a pattern, for a fast first search over many lines.

Logs are searched as bytes, and mostly without their digits. A weaker pattern matches every line that the pattern itself
matches, and few others; those lines are then matched exactly.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from gpulake.diagnose.rulebook.syntax import ASCII, Anchor, Flags, Group, Literal, OneOf, Part, Repeat, parse

# More repetitions than that are written as endless ones, which cost the automaton less.
MOST_REPEATS = 4
_PLAIN = " _-\"':;,=/<>%&!~@#`"


@dataclass(frozen=True)
class _Atom:
    core: str  # empty: it vanishes
    low: int = 1
    high: int | None = 1  # None: endless

    def text(self) -> str:
        if not self.core or self.high == 0:
            return ""
        known = {(1, 1): "", (0, 1): "?", (0, None): "*", (1, None): "+"}
        upper = "" if self.high is None else self.high
        return self.core + known.get((self.low, self.high), f"{{{self.low},{upper}}}")


def relaxed(pattern: str, dropped: bytes = b"") -> bytes:
    """For bytes of several lines (flag m), from which the characters `dropped` were removed.

    A pattern that cannot be parsed becomes one that matches everything.
    """
    try:
        text = _branches(parse(pattern), frozenset(dropped.decode()))
    except (ValueError, IndexError, KeyError):
        text = ""
    return text.encode("ascii")


def _branches(group: Group, dropped: frozenset[str]) -> str:
    return "|".join("".join(_written(part, dropped) for part in branch) for branch in group.branches)


def _written(part: Part, dropped: frozenset[str]) -> str:
    return part.text.translate(_table(dropped)) if isinstance(part, Literal) else _atom(part, dropped).text()


@cache
def _table(dropped: frozenset[str]) -> defaultdict[int, str]:
    """How each character is written."""
    beyond = _bytes_of(OneOf(frozenset(), has_others=True), dropped).text()
    return defaultdict(lambda: beyond, {ord(char): _bytes_of(OneOf(frozenset(char)), dropped).text() for char in ASCII})


def _atom(part: Part, dropped: frozenset[str]) -> _Atom:
    if isinstance(part, Repeat):
        return _repeated(_atom(part.part, dropped), part.least, part.most)
    if isinstance(part, Group):
        inner = _branches(part, dropped)
        return _Atom(f"(?{part.flags}:{inner})" if inner else "")
    if isinstance(part, Flags):
        return _Atom(f"(?{part.text})" if part.text else "")
    if isinstance(part, Anchor):
        return _Atom("" if dropped and part.text.startswith("\\") else part.text)
    if isinstance(part, Literal):
        part = OneOf(frozenset(part.text)) if part.text in ASCII else OneOf(frozenset(), has_others=True)
    return _bytes_of(part, dropped)


@cache
def _bytes_of(members: OneOf, dropped: frozenset[str]) -> _Atom:
    """A character beyond ASCII is several bytes, and one that may have been dropped is optional."""
    kept = members.ascii - dropped
    low = 1 if kept == members.ascii else 0
    if not kept and not members.has_others:
        return _Atom("")
    high = None if members.has_others else 1
    if kept == ASCII - dropped and members.has_others:
        return _Atom(".", low, high)
    return _Atom(_bytes_class(kept, members.has_others), low, high)


def _repeated(atom: _Atom, low: int, high: int | None) -> _Atom:
    if atom.core in ("^", "$", "\\b", "\\B"):
        return atom if low > 0 else _Atom("")  # an anchor has no width
    if (atom.low, atom.high) not in ((1, 1), (0, 1), (0, None), (1, None)):
        atom = _Atom(f"(?:{atom.text()})")
    total = None if atom.high is None or high is None or high > MOST_REPEATS else high * atom.high
    return _Atom(atom.core, min(low, MOST_REPEATS) * atom.low, total)


def _bytes_class(ascii_chars: frozenset[str], has_others: bool) -> str:
    codes = sorted(map(ord, ascii_chars))
    if len(codes) == 1 and not has_others:
        char = chr(codes[0])
        return char if char.isalnum() or char in _PLAIN else f"\\x{codes[0]:02x}"
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    if has_others:
        ranges.append([0x80, 0xFF])
    return "[" + "".join(f"\\x{first:02x}-\\x{last:02x}" for first, last in ranges) + "]"
