"""One more day of a site extends the last build: samples that come after the jobs that they are of count as well."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.synth.site import Site, write_site
from repeating import assert_alike


@pytest.mark.slow
def test_samples_that_come_after_their_jobs_give_the_tables_of_one_build(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_site(raw, Site(datetime(2026, 3, 8, tzinfo=UTC), nodes=4, gpus=2, days=14, interval_seconds=3600))
    samples = sorted((raw / "prometheus").glob("*.prom"))
    first, last = (
        [path for path in samples if "03-07" not in path.name],
        [path for path in samples if "03-07" in path.name],
    )
    extended, whole = (Flow(Config(lake=tmp_path / name, threads=1)) for name in ("extended", "whole"))
    extended.land([raw / "slurm", *first])
    extended.build()
    extended.land(last)
    assert extended.build().touched is not None  # not a whole build
    whole.land([raw / "slurm", *samples])
    whole.build()
    assert_alike(extended.lake, whole.lake, digits=12)


@pytest.mark.slow
def test_a_node_that_was_silent_for_days_touches_no_jobs_of_others(tmp_path: Path) -> None:
    raw, days = tmp_path / "raw", 10
    write_site(raw, Site(datetime(2026, 3, 8, tzinfo=UTC), nodes=4, gpus=2, days=days, interval_seconds=3600))
    for page in (raw / "prometheus").glob("*.prom"):
        if not any(day in page.name for day in ("02-26", "03-07")):
            lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
            page.write_text("".join(line for line in lines if "gpu-001" not in line), encoding="utf-8")
    samples = sorted((raw / "prometheus").glob("*.prom"))
    last = [path for path in samples if "03-07" in path.name]
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([raw / "slurm", *(path for path in samples if path not in last)])
    flow.build()
    flow.land(last)
    touched = flow.build().touched
    with flow.lake.reading() as reader:
        jobs = reader.query("SELECT count(*) AS jobs FROM silver_jobs")["jobs"][0].as_py()
    assert touched is not None
    assert 0 < touched.touched_jobs < jobs / 2
    assert 0 < touched.touched_days < days
