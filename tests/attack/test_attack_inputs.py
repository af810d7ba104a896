"""The short form of attack/inputs.py, and that it sees what it looks for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attack.examples import EXAMPLES
from attack.mutation import mutated

from attack import inputs


@pytest.mark.slow
def test_mutated_files_break_nothing(tmp_path: Path) -> None:
    score = inputs.run(800, 7, tmp_path)
    assert (score.tries, score.faults) == (800, [])


def test_the_same_seed_is_the_same_file() -> None:
    content = EXAMPLES["pai"][0].whole
    first, again, other = (mutated(random.Random(seed), content, b"other") for seed in (1, 1, 2))
    assert (first == again, first == other) == (True, False)
