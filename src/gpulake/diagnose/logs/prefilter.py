"""Weaker forms of a pattern, for a first look at many lines at once.

Logs are looked at as bytes, and mostly without their digits. A weaker pattern finds something in all that the pattern
itself finds something in, and in little else: what it lets through is then looked at exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

_DIGITS = frozenset("0123456789")
_ASCII = frozenset(map(chr, range(128)))
_WORD = frozenset(char for char in _ASCII if char.isalnum() or char == "_")
_SPACE = frozenset("\t\n\f\r ")
_PERL = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_POSIX: dict[str, frozenset[str]] = {
    "word": _WORD,
    "digit": _DIGITS,
    "space": _SPACE | {"\v"},
    "blank": frozenset("\t "),
    "ascii": _ASCII,
    "xdigit": frozenset("0123456789abcdefABCDEF"),
    "alpha": frozenset(filter(str.isalpha, _ASCII)),
    "alnum": frozenset(filter(str.isalnum, _ASCII)),
    "lower": frozenset(filter(str.islower, _ASCII)),
    "upper": frozenset(filter(str.isupper, _ASCII)),
    "cntrl": frozenset(char for char in _ASCII if ord(char) < 32 or ord(char) == 127),
    "graph": frozenset(map(chr, range(33, 127))),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(char for char in map(chr, range(33, 127)) if not char.isalnum()),
}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_ZERO_WIDTH = {"A": "^", "z": "$"}
# Letters that stand for themselves; the last one before a repeat belongs to that.
_PLAIN = re.compile(r"[A-Za-z0-9 _,:;'\"=/<>%&!~@#`-]+(?![*+?{])")
# A repeat of more than so many is as good as one without an end, and costs the automaton less.
MOST_REPEATS = 4


@dataclass(frozen=True)
class _Atom:
    core: str  # empty: it vanishes
    low: int = 1
    high: int | None = 1  # None: without an end

    def text(self) -> str:
        if not self.core or self.high == 0:
            return ""
        known = {(1, 1): "", (0, 1): "?", (0, None): "*", (1, None): "+"}
        upper = "" if self.high is None else self.high
        return self.core + known.get((self.low, self.high), f"{{{self.low},{upper}}}")


@dataclass(frozen=True)
class _Members:
    """What a class of characters holds."""

    ascii: frozenset[str]
    has_others: bool = False  # characters beyond ASCII, which are several bytes each

    def __or__(self, other: _Members) -> _Members:
        return _Members(self.ascii | other.ascii, self.has_others or other.has_others)


_ANY = _Members(_ASCII, has_others=True)


def relaxed(pattern: str, dropped: bytes = b"") -> bytes:
    """For bytes in which each line stands for itself (flag m), and from which these characters were dropped.

    What cannot be read is let through.
    """
    try:
        text = _Reader(pattern, frozenset(dropped.decode())).read()
    except (ValueError, IndexError, KeyError):
        text = ""
    return text.encode("ascii")


class _Reader:
    """A parser of RE2's syntax that writes the weaker pattern as it goes."""

    def __init__(self, pattern: str, dropped: frozenset[str]) -> None:
        self._pattern = pattern
        self._at = 0
        self._dropped = dropped
        self._deleted = str.maketrans("", "", "".join(dropped))

    def read(self) -> str:
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise ValueError("a bracket closes that was not opened")
        return text

    def _peek(self, ahead: int = 0) -> str:
        return self._pattern[self._at + ahead : self._at + ahead + 1]

    def _take(self) -> str:
        char = self._pattern[self._at]
        self._at += 1
        return char

    def _taken(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _until(self, end: str) -> str:
        stop = self._pattern.index(end, self._at)
        text = self._pattern[self._at : stop]
        self._at = stop + len(end)
        return text

    def _alternatives(self) -> str:
        branches = [self._sequence()]
        while self._taken("|"):
            branches.append(self._sequence())
        return "|".join(branches)

    def _sequence(self) -> str:
        written = []
        while self._peek() not in ("", "|", ")"):
            if plain := _PLAIN.match(self._pattern, self._at):
                self._at = plain.end()
                written.append(plain.group().translate(self._deleted))
                continue
            if self._taken("\\Q"):
                end = self._pattern.find("\\E", self._at)
                quoted = self._pattern[self._at : end] if end >= 0 else self._pattern[self._at :]
                self._at = end + 2 if end >= 0 else len(self._pattern)
                written += [self._literal(char).text() for char in quoted[:-1]]
                atom = self._literal(quoted[-1]) if quoted else _Atom("")
            else:
                atom = self._atom()
            while repeat := self._repeat():
                atom = _repeated(atom, *repeat)
            written.append(atom.text())
        return "".join(written)

    def _repeat(self) -> tuple[int, int | None] | None:
        found: tuple[int, int | None]
        if self._peek() in ("*", "+", "?") and self._peek():
            found = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self._take()]
        elif self._peek() == "{" and (counts := self._counts()):
            found = counts
        else:
            return None
        self._taken("?")  # greedy or not, it is found
        return found

    def _counts(self) -> tuple[int, int | None] | None:
        end = self._pattern.find("}", self._at)
        low, comma, high = self._pattern[self._at + 1 : end].partition(",")
        if end < 0 or not low.isdigit() or (high and not high.isdigit()):
            return None  # RE2 takes it literally
        self._at = end + 1
        return int(low), (int(high) if high else None) if comma else int(low)

    def _atom(self) -> _Atom:
        char = self._take()
        plain: dict[str, Callable[[], _Atom]] = {
            "(": self._group,
            "[": lambda: self._written(self._class()),
            ".": lambda: self._written(_ANY),
            "^": lambda: _Atom("^"),
            "$": lambda: _Atom("$"),
            "\\": self._escape,
        }
        return plain[char]() if char in plain else self._literal(char)

    def _group(self) -> _Atom:
        if self._taken("?"):
            if self._taken("P<") or self._taken("<"):
                self._until(">")
            else:
                on, _, off = self._flags().partition("-")
                flags = ("i" if "i" in on else "") + ("-i" if "i" in off else "")
                if self._pattern[self._at - 1] == ")":
                    return _Atom(f"(?{flags})" if flags else "")
                return self._closed(f"(?{flags}:")
        return self._closed("(?:")

    def _flags(self) -> str:
        begin = self._at
        while self._peek() not in (":", ")"):
            self._take()
        self._take()
        return self._pattern[begin : self._at - 1]

    def _closed(self, opening: str) -> _Atom:
        inner = self._alternatives()
        if not self._taken(")"):
            raise ValueError("a bracket is not closed")
        return _Atom(f"{opening}{inner})" if inner else "")

    def _escape(self) -> _Atom:
        char = self._take()
        if char in "bB":
            return _Atom("" if self._dropped else f"\\{char}")
        if char in _ZERO_WIDTH:
            return _Atom(_ZERO_WIDTH[char])
        if char == "C":
            return self._written(_ANY)
        members = self._named(char)
        return self._written(members) if members else self._literal(self._escaped(char))

    def _named(self, char: str) -> _Members | None:
        """A class that has a letter: d, w, s, their opposites, and those of Unicode."""
        if char in "pP":
            if self._take() == "{":
                self._until("}")
            return _ANY
        if char.lower() not in _PERL:
            return None
        found = _PERL[char.lower()]
        return _Members(found) if char.islower() else _Members(_ASCII - found, has_others=True)

    def _escaped(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            code = self._until("}") if self._taken("{") else self._take() + self._take()
            return chr(int(code, 16))
        if char in "01234567":
            code = char
            while len(code) < 3 and self._peek() and self._peek() in "01234567":
                code += self._take()
            return chr(int(code, 8))
        if char.isalnum():
            raise ValueError(f"unknown escape {char!r}")
        return char

    def _class(self) -> _Members:
        is_negated = self._taken("^")
        members = _Members(frozenset())
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            members |= self._item()
        self._take()
        return _Members(_ASCII - members.ascii, has_others=True) if is_negated else members

    def _item(self) -> _Members:
        if self._taken("[:"):
            name = self._until(":]")
            found = _POSIX[name.removeprefix("^")]
            return _Members(_ASCII - found, has_others=True) if name.startswith("^") else _Members(found)
        first = self._take()
        if first == "\\":
            letter = self._take()
            if members := self._named(letter):
                return members
            first = self._escaped(letter)
        last = first
        if self._peek() == "-" and self._peek(1) not in ("]", ""):
            self._take()
            last = self._take()
            if last == "\\":
                last = self._escaped(self._take())
        ascii_chars = map(chr, range(ord(first), min(ord(last), 127) + 1))
        return _Members(frozenset(ascii_chars), has_others=last > "\x7f")

    def _literal(self, char: str) -> _Atom:
        return self._written(_Members(frozenset(char)) if char in _ASCII else _Members(frozenset(), has_others=True))

    def _written(self, members: _Members) -> _Atom:
        """As bytes: a character beyond ASCII is some of them, and one that may have been dropped may be none."""
        kept = members.ascii - self._dropped
        low = 1 if kept == members.ascii else 0
        if not kept and not members.has_others:
            return _Atom("")
        high = None if members.has_others else 1
        if kept == _ASCII - self._dropped and members.has_others:
            return _Atom(".", low, high)
        return _Atom(_bytes_class(kept, members.has_others), low, high)


def _repeated(atom: _Atom, low: int, high: int | None) -> _Atom:
    if atom.core in ("^", "$", "\\b", "\\B"):
        return atom if low > 0 else _Atom("")  # it has no width: once is as good as often
    if (atom.low, atom.high) not in ((1, 1), (0, 1), (0, None), (1, None)):
        atom = _Atom(f"(?:{atom.text()})")
    total = None if atom.high is None or high is None or high > MOST_REPEATS else high * atom.high
    return _Atom(atom.core, min(low, MOST_REPEATS) * atom.low, total)


@cache
def _bytes_class(ascii_chars: frozenset[str], has_others: bool) -> str:
    codes = sorted(map(ord, ascii_chars))
    if len(codes) == 1 and not has_others:
        char = chr(codes[0])
        return char if char.isalnum() or char in " _-\"':;,=/<>%&!~@#`" else f"\\x{codes[0]:02x}"
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    if has_others:
        ranges.append([0x80, 0xFF])
    return "[" + "".join(f"\\x{first:02x}-\\x{last:02x}" for first, last in ranges) + "]"
