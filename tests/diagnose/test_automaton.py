from __future__ import annotations

import pytest

from gpulake.diagnose.logs import automaton
from gpulake.diagnose.logs.automaton import Automaton
from gpulake.diagnose.logs.shapes import DIGITS, shape_of

PATTERNS = [r"Xid \d+", r"^rank \d: (?:out|in)$", r"code [1-9]"]
LINES = [b"Xid 79", b"rank 3: out", b"exit code 0", b"exit code 3", b"nothing", b"rank 3: outside", b"Xid 31, code 1"]


@pytest.mark.parametrize("copies", [1, 10])
def test_shapes_tell_which_patterns_may_be_found(copies: int) -> None:
    shapes = [shape_of(line) for line in LINES] * copies
    assert Automaton(PATTERNS).candidates(shapes, DIGITS) == {
        b"Xid ": [0],
        b"rank : out": [1],
        b"exit code ": [2],
        b"Xid , code ": [0, 2],
    }


@pytest.mark.parametrize("copies", [1, 10])
def test_lines_are_looked_at_exactly(copies: int) -> None:
    lines = LINES * copies
    found = [[*Automaton(PATTERNS).matching(pattern, lines)] for pattern in range(3)]
    wanted = [{0, 6}, {1}, {3, 6}]
    assert found == [[place for place in range(len(lines)) if place % len(LINES) in places] for places in wanted]
    assert [*Automaton(PATTERNS).spans(0, b"Xid 79 and Xid 31")] == [(0, 6), (11, 17)]


def test_a_set_that_runs_out_of_memory_lets_all_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MOST_MEMORY_BYTES", 20_000)
    patterns = [f"{chr(97 + place // 20)}{chr(97 + place % 20)}[a-c]*x" for place in range(200)]
    found = Automaton(patterns).candidates([b"ccabcx", b"nothing"])
    assert 42 in found[b"ccabcx"]
    assert b"nothing" not in found
