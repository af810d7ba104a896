"""The short form of `scripts/attack crashes`."""

from __future__ import annotations

from pathlib import Path

import pytest
from attack.forks import missing

from attack import crashes


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_killed_at_any_call_nothing_acknowledged_is_lost_or_doubled(tmp_path: Path) -> None:
    score = crashes.run(12, 1, tmp_path)
    assert score.faults == []
    assert score.tries == 12
