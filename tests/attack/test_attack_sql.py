"""The short form of suite `sql`."""

from __future__ import annotations

from pathlib import Path

import pytest
from attack.sql import run


@pytest.mark.slow
def test_hostile_queries_cost_the_server_nothing(tmp_path: Path) -> None:
    score = run(40, 1, tmp_path)
    assert (score.tries, score.faults) == (40, [])
