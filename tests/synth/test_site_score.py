"""A small site goes through the whole product and comes out as its truth says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.scoring.site import BY_ACCOUNT, BY_USER, LEDGER, UNTIL, SiteScore, score_site

from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.synth.site import TELLERS, Site, write_site
from pull.real_prometheus import needs_prometheus

SITE = Site(UNTIL, nodes=4, gpus=4, days=2, interval_seconds=120)
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Told:
    lake: Path
    score: SiteScore

    def ledger(self, query: str) -> dict[str, dict[str, float]]:
        with Flow(Config(lake=self.lake)).lake.reading() as reader:
            rows = reader.query(query).to_pylist()
        return {str(row.pop("name", "all")): row for row in rows}


@pytest.fixture(scope="module")
def tellings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    told = {}
    for teller in TELLERS:
        folder = tmp_path_factory.mktemp(teller)
        write_site(folder / "site", SITE, tell=teller)
        told[teller] = Told(folder / "lake", score_site(folder / "site", folder / "lake"))
    return told


@pytest.mark.parametrize("teller", TELLERS)
def test_the_ledger_of_a_generated_site_is_its_truth(teller: str, tellings: dict[str, Told]) -> None:
    score = tellings[teller].score
    assert [one for one in score.differences if not one.is_within] == []
    assert score.jobs > 60
    assert score.jobs_off == ()
    assert (score.missed, score.invented) == ((), ())


@needs_prometheus
@pytest.mark.parametrize("teller", TELLERS)
def test_a_site_that_is_pulled_has_the_ledger_of_its_files(
    teller: str, tellings: dict[str, Told], tmp_path: Path
) -> None:
    """Samples from a real Prometheus; its steps are those of the samples."""
    files = tellings[teller]
    score = score_site(files.lake.parent / "site", tmp_path / "lake", "pull")
    pulled = Told(tmp_path / "lake", score)
    assert [one for one in score.differences if not one.is_within] == []
    assert (score.jobs_off, score.missed, score.invented) == ((), (), ())
    for query in (LEDGER, BY_USER, BY_ACCOUNT):
        expected = {name: pytest.approx(buckets, abs=0.001) for name, buckets in files.ledger(query).items()}
        assert pulled.ledger(query) == expected


def test_slurm_and_kubernetes_give_the_same_ledger(tellings: dict[str, Told]) -> None:
    for query in (LEDGER, BY_USER, BY_ACCOUNT):
        of_slurm, of_kubernetes = (tellings[teller].ledger(query) for teller in ("slurm", "kubernetes"))
        assert of_kubernetes == {name: pytest.approx(buckets, abs=0.001) for name, buckets in of_slurm.items()}
