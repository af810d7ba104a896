from __future__ import annotations

import pytest
import re2
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.diagnose.logs.automaton import any_of
from gpulake.diagnose.logs.prefilter import relaxed
from gpulake.diagnose.logs.shapes import DIGITS, HEX_DIGITS, shape_of
from gpulake.diagnose.rulebook.book import compiled

# A pattern, and a text in which it is found.
Made = tuple[str, str]


def _literal(char: str) -> Made:
    return re2.escape(char), char


ATOMS = st.one_of(
    st.sampled_from("abcXYZ 0159:.[](){}|*+?^$\\/_-é█").map(_literal),
    st.sampled_from([(r"\d", "7"), (r"\w", "q"), (r"\w", "3"), (r"\s", " "), (r"\S", "4"), (r"\S", "é"), (r"\D", "█")]),
    st.sampled_from([(".", "x"), (".", "9"), (".", "é"), ("[0-9]", "5"), ("[1-9a-f]", "2"), ("[1-9a-f]", "e")]),
    st.sampled_from([("[^,]", "8"), ("[^0-9]", "é"), ("[^0-9]", "!"), (r"[^\]]", "k"), ("[]x]", "]"), ("[é,]", "é")]),
    st.sampled_from([("[[:alpha:]]", "b"), ("[[:^digit:]]", "é"), (r"[\d.]", "."), (r"[\w-]", "-"), (r"\pL", "é")]),
    st.sampled_from([(r"\x41", "A"), (r"\x{e9}", "é"), (r"\Qa.1\E", "a.1"), (r"\101", "A"), ("(?i:aBc)", "AbC")]),
)


def _repeated(drawn: tuple[Made, str, int]) -> Made:
    (pattern, text), repeat, times = drawn
    low, high = {"*": (0, 9), "+": (1, 9), "?": (0, 1), "{2}": (2, 2), "{3,}": (3, 9), "{1,7}": (1, 7)}[repeat]
    return f"(?:{pattern}){repeat}", text * min(max(times, low), high)


def _joined(parts: list[Made]) -> Made:
    return "".join(pattern for pattern, _ in parts), "".join(text for _, text in parts)


def _chosen(parts: list[Made]) -> Made:
    return "(?:" + "|".join(pattern for pattern, _ in parts) + ")", parts[-1][1]


PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(_joined),
        st.lists(inner, min_size=1, max_size=3).map(_chosen),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{3,}", "{1,7}"]), st.integers(0, 8)).map(_repeated),
        inner.map(lambda made: (f"(?P<g>{made[0]})" if "(?P" not in made[0] else made[0], made[1])),
    ),
    max_leaves=8,
)


def is_found(pattern: bytes, line: bytes) -> bool:
    return any_of([pattern]).search(b"before\n" + line + b"\nafter", 0) is not None


@pytest.mark.slow
@settings(max_examples=cases(400))
@given(PATTERNS, st.text("ab1 é", max_size=4), st.text("ab1 é", max_size=4), st.booleans())
def test_what_a_pattern_matches_its_weaker_forms_match(made: Made, before: str, after: str, is_anchored: bool) -> None:
    pattern, inner = made
    pattern = f"^{pattern}$" if is_anchored else pattern
    text = inner if is_anchored else before + inner + after
    assume("\n" not in text and compiled(pattern).search(text) is not None)
    line = text.encode()
    assert is_found(relaxed(pattern), line)
    for dropped in (DIGITS, HEX_DIGITS):
        assert is_found(relaxed(pattern, dropped), shape_of(line, dropped))


def test_digits_vanish_and_the_rest_stays() -> None:
    assert relaxed(r"nan iterations: +[1-9]", DIGITS) == b"nan iterations: +"
    assert relaxed(r"^\[rank(?P<rank>\d+)\]: Xid 79\b", DIGITS) == rb"^\x5brank\x5d: Xid "
    assert relaxed(r"a.{0,200}b", DIGITS) == b"a.*b"
    assert relaxed(r"(?i)CUDA error|\bOOM\b", DIGITS) == b"(?i)CUDA error|OOM"


def test_what_cannot_be_read_is_let_through() -> None:
    assert relaxed("(unclosed") == b""
    assert relaxed("[[:nothing:]]") == b""
