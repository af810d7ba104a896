"""The split of a generated site by time, of which the bench measures one more day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.scoring.site_day import split

from gpulake.synth.site import Site, write_site


def test_pages_on_both_sides_of_the_cut_say_that_their_times_are_seconds(tmp_path: Path) -> None:
    until = datetime(2026, 3, 8, tzinfo=UTC)
    write_site(tmp_path / "site", Site(until, nodes=2, gpus=2, days=2, interval_seconds=3600))
    sides = split(tmp_path / "site", tmp_path / "parts", until - timedelta(days=1))
    pages = [sorted(path for path in side[0].iterdir() if path.suffix == ".prom") for side in sides]
    assert all(pages)
    assert {path.read_text(encoding="utf-8").splitlines()[-1] for side in pages for path in side} == {"# EOF"}
