"""A small site goes through the whole product and comes out as its truth says."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.scoring.site import UNTIL, score_site

from gpulake.synth.site import Site, write_site


@pytest.mark.slow
def test_the_ledger_of_a_generated_site_is_its_truth(tmp_path: Path) -> None:
    write_site(tmp_path / "site", Site(UNTIL, nodes=4, gpus=4, days=2, interval_seconds=120, snapshot_hours=6))
    score = score_site(tmp_path / "site", tmp_path / "lake")
    assert [one for one in score.differences if not one.is_within] == []
    assert score.jobs > 60
    assert score.jobs_off == ()
    assert {"dead_node", "xid_storm"} <= set(score.found)
