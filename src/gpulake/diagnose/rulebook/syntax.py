"""The syntax tree of a pattern of RE2."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_DEPTH = 20
DIGITS = frozenset("0123456789")
ASCII = frozenset(map(chr, range(128)))
_WORD = frozenset(char for char in ASCII if char.isalnum() or char == "_")
_SPACE = frozenset("\t\n\f\r ")
_PERL = {"d": DIGITS, "w": _WORD, "s": _SPACE}
_POSIX: dict[str, frozenset[str]] = {
    "word": _WORD,
    "digit": DIGITS,
    "space": _SPACE | {"\v"},
    "blank": frozenset("\t "),
    "ascii": ASCII,
    "xdigit": frozenset("0123456789abcdefABCDEF"),
    "alpha": frozenset(filter(str.isalpha, ASCII)),
    "alnum": frozenset(filter(str.isalnum, ASCII)),
    "lower": frozenset(filter(str.islower, ASCII)),
    "upper": frozenset(filter(str.isupper, ASCII)),
    "cntrl": frozenset(char for char in ASCII if ord(char) < 32 or ord(char) == 127),
    "graph": frozenset(map(chr, range(33, 127))),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(char for char in map(chr, range(33, 127)) if not char.isalnum()),
}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_ANCHORS = {"A": "^", "z": "$", "b": "\\b", "B": "\\B"}
# Characters that stand for themselves; the last one before a repetition belongs to that.
_PLAIN = re.compile(r"[A-Za-z0-9 _,:;'\"=/<>%&!~@#`-]+(?![*+?{])")
_COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")
_FLAGS = re.compile(r"\?(?:P?<\w+>|([a-zA-Z]*)(?:-([a-zA-Z]*))?(?:(:)|(?=\))))")


@dataclass(frozen=True)
class Literal:
    """One character or more; of those before a repetition, exactly one."""

    text: str


@dataclass(frozen=True)
class OneOf:
    """A class of characters."""

    ascii: frozenset[str]
    has_others: bool = False  # characters beyond ASCII, which are several bytes each

    def __or__(self, other: OneOf) -> OneOf:
        return OneOf(self.ascii | other.ascii, self.has_others or other.has_others)

    @property
    def negated(self) -> OneOf:
        return OneOf(ASCII - self.ascii, has_others=True)


@dataclass(frozen=True)
class Anchor:
    """^, $, \\b or \\B."""

    text: str


@dataclass(frozen=True)
class Flags:
    """Up to the end of its group: (?i) or (?-i); other flags are left out."""

    text: str


@dataclass(frozen=True)
class Repeat:
    part: Part
    least: int
    most: int | None  # None: endless


@dataclass(frozen=True)
class Group:
    """One of several sequences; a group without a bar has one."""

    branches: tuple[tuple[Part, ...], ...]
    flags: str = ""


Part = Literal | OneOf | Anchor | Flags | Repeat | Group
ANY = OneOf(ASCII, has_others=True)


def parse(pattern: str) -> Group:
    """Raises ValueError, IndexError or KeyError where the pattern is not RE2's, ValueError where it nests too deep."""
    parser = _Parser(pattern)
    tree = parser.group(0)
    if parser.at < len(pattern):
        raise ValueError("a bracket closes that was not opened")
    return tree


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def group(self, depth: int, flags: str = "") -> Group:
        """Up to the closing bracket, or the end."""
        if depth > MOST_DEPTH:
            raise ValueError(f"it nests more than {MOST_DEPTH} groups")
        branches: list[list[Part]] = [[]]
        while self._peek() not in ("", ")"):
            if self._taken("|"):
                branches.append([])
            elif plain := _PLAIN.match(self._pattern, self.at):
                self.at = plain.end()
                branches[-1].append(Literal(plain.group()))
            elif branches[-1] and (times := self._times()):
                branches[-1][-1] = Repeat(branches[-1][-1], *times)
            else:
                branches[-1] += self._parts(depth)
        return Group(tuple(map(tuple, branches)), flags)

    def _peek(self, ahead: int = 0) -> str:
        return self._pattern[self.at + ahead : self.at + ahead + 1]

    def _take(self) -> str:
        char = self._pattern[self.at]
        self.at += 1
        return char

    def _taken(self, text: str) -> bool:
        if not self._pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _until(self, end: str) -> str:
        stop = self._pattern.index(end, self.at)
        text = self._pattern[self.at : stop]
        self.at = stop + len(end)
        return text

    def _times(self) -> tuple[int, int | None] | None:
        times: tuple[int, int | None] | None = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
        if times:
            self.at += 1
        elif count := _COUNT.match(self._pattern, self.at):  # RE2 takes other brackets literally
            self.at = count.end()
            least = int(count[1])
            times = (least, least if count[2] is None else int(count[3]) if count[3] else None)
        else:
            return None
        self._taken("?")  # greedy or not
        return times

    def _parts(self, depth: int) -> list[Part]:
        if self._taken("\\Q"):
            end = self._pattern.find("\\E", self.at)
            quoted = self._pattern[self.at : end if end >= 0 else len(self._pattern)]
            self.at = end + 2 if end >= 0 else len(self._pattern)
            return [Literal(char) for char in quoted]
        char = self._take()
        if char == "(":
            return [self._group(depth)]
        if char == "[":
            return [self._class()]
        if char == "\\":
            return [self._escape()]
        return [ANY if char == "." else Anchor(char) if char in "^$" else Literal(char)]

    def _group(self, depth: int) -> Part:
        flags = ""
        if self._peek() == "?":
            opening = _FLAGS.match(self._pattern, self.at)
            if opening is None:
                raise ValueError("an unknown kind of group")
            self.at = opening.end()
            on, off, colon = opening[1] or "", opening[2] or "", opening[3]
            flags = ("i" if "i" in on else "") + ("-i" if "i" in off else "")
            if opening[1] is not None and not colon:
                self._take()
                return Flags(flags)
        inner = self.group(depth + 1, flags)
        if not self._taken(")"):
            raise ValueError("a bracket is not closed")
        return inner

    def _escape(self) -> Part:
        char = self._take()
        if char in _ANCHORS:
            return Anchor(_ANCHORS[char])
        if char == "C":
            return ANY
        return self._named_class(char) or Literal(self._escaped(char))

    def _named_class(self, char: str) -> OneOf | None:
        """\\d, \\w, \\s, their opposites, and those of Unicode, which may be anything."""
        if char in "pP":
            if self._take() == "{":
                self._until("}")
            return ANY
        if char.lower() not in _PERL:
            return None
        members = OneOf(_PERL[char.lower()])
        return members if char.islower() else members.negated

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

    def _class(self) -> OneOf:
        is_negated = self._taken("^")
        members = self._item()
        while self._peek() != "]":
            members |= self._item()
        self._take()
        return members.negated if is_negated else members

    def _item(self) -> OneOf:
        if self._taken("[:"):
            name = self._until(":]")
            members = OneOf(_POSIX[name.removeprefix("^")])
            return members.negated if name.startswith("^") else members
        first = self._take()
        if first == "\\":
            letter = self._take()
            if named := self._named_class(letter):
                return named
            first = self._escaped(letter)
        last = first
        if self._peek() == "-" and self._peek(1) not in ("]", ""):
            self._take()
            last = self._take()
            if last == "\\":
                last = self._escaped(self._take())
        ascii_chars = map(chr, range(ord(first), min(ord(last), 127) + 1))
        return OneOf(frozenset(ascii_chars), has_others=last > "\x7f")
