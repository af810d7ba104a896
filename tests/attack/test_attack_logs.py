"""Hostile logs, in short."""

from __future__ import annotations

from pathlib import Path

import pytest

from attack import logs


@pytest.mark.slow
def test_no_log_has_anything_done_to_anothers_node_or_job(tmp_path: Path) -> None:
    score = logs.run(40, 7, tmp_path)
    assert score.faults == []
    assert score.tries == 40
