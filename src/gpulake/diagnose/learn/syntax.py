"""What a pattern is made of: how much of it is fixed words, and whether an engine that backtracks would choke on it.

RE2 cannot backtrack, so no pattern is slow here. But people copy rules into tools whose engine does, so a pattern that
would hang those is refused as well. The reading is coarse: RE2 has accepted the pattern before it comes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpulake.diagnose.rulebook.book import compiled

MOST_DEPTH = 20
MANY = 10  # a repetition of more than so many times counts as endless
MOST_ANYTHINGS = 3

_COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")
_OPENING = re.compile(r"\?(?:P?<\w+>|[a-zA-Z-]*:)|\?[a-zA-Z-]+(?=\))")
_SET = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pP]\{[^}]*\}|[pP].|x\{[0-9a-fA-F]+\}|x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL)
_CLASS_ESCAPES = "dDwWsSpPC"
_PLACE_ESCAPES = "bBAz"
_BLANK_ESCAPES = "afnrtv"


@dataclass(frozen=True)
class Atom:
    """One character: a fixed one, or one of several where `fixed` is empty."""

    fixed: str
    is_anything: bool = False
    text: str = ""  # of one of several: as the pattern has it

    def can_be(self, character: str) -> bool:
        if self.fixed:
            return self.fixed.lower() == character.lower()
        return compiled(f"(?i){self.text}").fullmatch(character) is not None


@dataclass(frozen=True)
class Repeat:
    part: Part
    least: int
    most: int | None  # None: endless


@dataclass(frozen=True)
class Choice:
    """One of several sequences; a group without a bar has one."""

    branches: tuple[tuple[Part, ...], ...]


Part = Atom | Repeat | Choice


def parsed(pattern: str) -> Choice:
    """The tree of a pattern that RE2 has accepted. Raises ValueError where it nests too deep."""
    return _Reader(pattern).choice(0)


def fixed_characters(pattern: str) -> int:
    """Letters and digits that every line that it matches is sure to hold."""
    return _fixed(parsed(pattern), str.isalnum)


def fixed_letters(pattern: str) -> int:
    """Of these, letters that no hexadecimal number has: lines are first searched without their numbers."""
    return _fixed(parsed(pattern), lambda fixed: fixed.isalpha() and fixed.lower() not in "abcdef")


def backtracking(pattern: str) -> str:
    """Why an engine that backtracks could take for ever, or empty where it could not."""
    tree = parsed(pattern)
    for part in _parts(tree):
        if not isinstance(part, Repeat) or (part.most is not None and part.most <= MANY):
            continue
        if _is_delimited(part.part):
            continue
        within = list(_parts(part.part))
        if any(isinstance(inner, Repeat) and inner.least != inner.most for inner in within):
            return "a repeated group contains a repetition"
        if any(isinstance(inner, Choice) and not _is_clear(inner) for inner in within):
            return "a repeated group has alternatives that may begin alike"
    return f"it has more than {MOST_ANYTHINGS} times '.*'" if _anythings(tree) > MOST_ANYTHINGS else ""


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def choice(self, depth: int) -> Choice:
        """Up to the closing bracket, or the end."""
        if depth > MOST_DEPTH:
            raise ValueError(f"it nests more than {MOST_DEPTH} groups")
        branches: list[list[Part]] = [[]]
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            character = self.pattern[self.at]
            if character == "|":
                self.at += 1
                branches.append([])
            elif character in "*+?{" and branches[-1] and (times := self._times()):
                branches[-1][-1] = Repeat(branches[-1][-1], *times)
            else:
                branches[-1] += self._parts(depth)
        self.at += 1
        return Choice(tuple(map(tuple, branches)))

    def _times(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self.pattern[self.at])
        if simple:
            self.at += 1
        elif count := _COUNT.match(self.pattern, self.at):
            self.at = count.end()
            least = int(count[1])
            simple = (least, least if count[2] is None else int(count[3]) if count[3] else None)
        else:
            return None
        if self.pattern[self.at : self.at + 1] == "?":  # the reluctant one
            self.at += 1
        return simple

    def _parts(self, depth: int) -> list[Part]:
        character = self.pattern[self.at]
        if character == "(":
            opening = _OPENING.match(self.pattern, self.at + 1)
            self.at = opening.end() if opening else self.at + 1
            return [self.choice(depth + 1)]
        if character == "[" and (chosen := _SET.match(self.pattern, self.at)):
            self.at = chosen.end()
            return [Atom("", text=chosen[0], is_anything=chosen[0] in (r"[\s\S]", r"[\S\s]", r"[\d\D]", r"[\w\W]"))]
        if character == "\\":
            return self._escaped()
        self.at += 1
        if character in "^$":
            return []
        return [Atom("", is_anything=True, text=".")] if character == "." else [Atom(character)]

    def _escaped(self) -> list[Part]:
        if self.pattern.startswith("\\Q", self.at):
            end = self.pattern.find("\\E", self.at + 2)
            words = self.pattern[self.at + 2 : end if end >= 0 else len(self.pattern)]
            self.at = end + 2 if end >= 0 else len(self.pattern)
            return [Atom(character) for character in words]
        escape = _ESCAPE.match(self.pattern, self.at)
        if escape is None:  # a lone backslash at the end, which RE2 refuses
            self.at = len(self.pattern)
            return []
        self.at = escape.end()
        kind = escape[0][1]
        if kind in _PLACE_ESCAPES:
            return []
        if kind in _CLASS_ESCAPES:
            return [Atom("", kind == "C", escape[0])]
        return [Atom(" " if kind in _BLANK_ESCAPES else kind)]


def _parts(part: Part) -> Iterator[Part]:
    yield part
    if isinstance(part, Repeat):
        yield from _parts(part.part)
    elif isinstance(part, Choice):
        for branch in part.branches:
            for inner in branch:
                yield from _parts(inner)


def _fixed(part: Part, counts: Callable[[str], bool]) -> int:
    if isinstance(part, Repeat):
        return part.least * _fixed(part.part, counts)
    if isinstance(part, Choice):
        return min(sum(_fixed(inner, counts) for inner in branch) for branch in part.branches)
    return int(bool(part.fixed) and counts(part.fixed))


def _anythings(part: Part) -> int:
    """Endless repetitions of any character that one match may go through."""
    if isinstance(part, Repeat):
        is_one = part.most is None and isinstance(part.part, Atom) and part.part.is_anything
        return int(is_one) + _anythings(part.part)
    if isinstance(part, Choice):
        return max(sum(map(_anythings, branch)) for branch in part.branches)
    return 0


def _is_delimited(part: Part) -> bool:
    """Whether each turn begins or ends with a character that stands nowhere else in it, as in `(?:\\w+\\.)*`."""
    if not isinstance(part, Choice) or len(part.branches) != 1:
        return False
    branch = part.branches[0]
    for edge, rest in ((branch[:1], branch[1:]), (branch[-1:], branch[:-1])):
        mark = edge[0].fixed if edge and isinstance(edge[0], Atom) else ""
        atoms = [inner for one in rest for inner in _parts(one) if isinstance(inner, Atom)]
        if mark and not any(atom.can_be(mark) for atom in atoms):
            return True
    return False


def _is_clear(choice: Choice) -> bool:
    """Whether the first character tells which branch it is."""
    firsts = [branch[0].fixed.lower() if branch and isinstance(branch[0], Atom) else "" for branch in choice.branches]
    return len(firsts) == 1 or (all(firsts) and len(set(firsts)) == len(firsts))
