"""The short form of attack/web.py."""

from __future__ import annotations

import pytest

from attack import web
from gpulake.core.config import Config


@pytest.mark.slow
def test_requests_of_strangers_and_rivals_break_nothing(rich: Config) -> None:
    score = web.run(210, 7, rich.lake.parent)
    assert (score.tries, score.faults) == (210, [])
