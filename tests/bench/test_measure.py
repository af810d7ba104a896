"""A command costs what it takes itself, whatever the benchmark has taken before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bench.measure import BenchError, run


def test_the_memory_of_a_command_is_its_own(tmp_path: Path) -> None:
    held = b"x" * (300 << 20)  # by who measures
    assert run([sys.executable, "-c", "pass"], tmp_path).mebibytes < 100 < len(held) >> 20
    large = run([sys.executable, "-c", "x = b'x' * (200 << 20); sum(range(10**6))"], tmp_path)
    assert large.mebibytes > 200
    assert 0 < large.cpu_seconds < 60
    assert large.seconds > 0


def test_a_command_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"exits 3:\nno such day"):
        run([sys.executable, "-c", "print('no such day'); raise SystemExit(3)"], tmp_path)
