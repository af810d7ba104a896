"""How much of a pattern is fixed text, and whether a backtracking engine could take exponential time on it.

RE2 does not backtrack, so no pattern is slow here. But people copy rules into tools with other engines, so patterns
that would hang those are refused. RE2 has accepted the pattern before it comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpulake.diagnose.rulebook.syntax import ANY, Group, Literal, OneOf, Part, Repeat, parse

MANY = 10  # more repetitions than that count as endless
MOST_ANYTHINGS = 3


def fixed_characters(pattern: str) -> int:
    """Letters and digits that every matching line has."""
    return _fixed(parse(pattern), str.isalnum)


def fixed_letters(pattern: str) -> int:
    """Of these, letters that are no hexadecimal digits: lines are first searched without their numbers."""
    return _fixed(parse(pattern), lambda char: char.isalpha() and char.lower() not in "abcdef")


def backtracking(pattern: str) -> str:
    """Why a backtracking engine could take exponential time; empty where it could not."""
    tree = parse(pattern)
    for part in _parts(tree):
        if not isinstance(part, Repeat) or (part.most is not None and part.most <= MANY) or _is_delimited(part.part):
            continue
        within = list(_parts(part.part))
        if any(isinstance(inner, Repeat) and inner.least != inner.most for inner in within):
            return "a repeated group contains a repetition"
        if any(isinstance(inner, Group) and not _is_clear(inner) for inner in within):
            return "a repeated group has alternatives that may begin alike"
    return f"it has more than {MOST_ANYTHINGS} times '.*'" if _anythings(tree) > MOST_ANYTHINGS else ""


def _parts(part: Part) -> Iterator[Part]:
    yield part
    if isinstance(part, Repeat):
        yield from _parts(part.part)
    elif isinstance(part, Group):
        for branch in part.branches:
            for inner in branch:
                yield from _parts(inner)


def _fixed(part: Part, counts: Callable[[str], bool]) -> int:
    if isinstance(part, Repeat):
        return part.least * _fixed(part.part, counts)
    if isinstance(part, Group):
        return min(sum(_fixed(inner, counts) for inner in branch) for branch in part.branches)
    return sum(map(counts, part.text)) if isinstance(part, Literal) else 0


def _anythings(part: Part) -> int:
    """Endless repetitions of any character that one match may go through."""
    if isinstance(part, Repeat):
        return int(part.most is None and part.part == ANY) + _anythings(part.part)
    if isinstance(part, Group):
        return max(sum(map(_anythings, branch)) for branch in part.branches)
    return 0


def _is_delimited(part: Part) -> bool:
    """Whether each repetition begins or ends with a character found nowhere else in it, as in `(?:\\w+\\.)*`."""
    if not isinstance(part, Group) or len(part.branches) != 1 or not part.branches[0]:
        return False
    branch = part.branches[0]
    for edge, rest, place in ((branch[0], branch[1:], 0), (branch[-1], branch[:-1], -1)):
        if isinstance(edge, Literal):
            mark = edge.text[place]
            others = [*edge.text[1:]] if place == 0 else [*edge.text[:-1]]
            if not any(_can_be(one, mark) for one in [*others, *(one for inner in rest for one in _characters(inner))]):
                return True
    return False


def _characters(part: Part) -> list[str | OneOf]:
    inner = [one for one in _parts(part) if isinstance(one, Literal | OneOf)]
    return [char for one in inner for char in (one.text if isinstance(one, Literal) else (one,))]


def _can_be(one: str | OneOf, char: str) -> bool:
    if isinstance(one, str):
        return one.lower() == char.lower()
    return {char.lower(), char.upper()} & one.ascii != set() or (one.has_others and not char.isascii())


def _is_clear(group: Group) -> bool:
    """Whether the first character decides the branch."""
    firsts = [
        branch[0].text[0].lower() if branch and isinstance(branch[0], Literal) else "" for branch in group.branches
    ]
    return len(firsts) == 1 or (all(firsts) and len(set(firsts)) == len(firsts))
