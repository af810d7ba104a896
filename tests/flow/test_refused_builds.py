"""A build that is refused says which file it was, and can be made without that file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import BuildError
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.show.health import check_all

WriteCsv = Callable[..., Path]
HEADER = "machine,gpu_type,cap_cpu,cap_mem,cap_gpu"


@pytest.fixture
def landed(config: Config, write_csv: WriteCsv, monkeypatch: pytest.MonkeyPatch) -> tuple[Flow, Path, Path]:
    """Two inventories; the second one landed before ranges were checked."""
    good = write_csv("pai_machine_spec", [HEADER, "m1,T4,96,512,2"], folder="good")
    bad = write_csv("pai_machine_spec", [HEADER, "m2,T4,96,512,2", "m3,T4,96,-1,2"], folder="bad")
    jobs = write_csv("pai_job_table", ["a,i,u,Terminated,1000.0,2000.0"])
    flow = Flow(config)
    with monkeypatch.context() as patch:
        patch.delitem(bronze_tables()["bronze_machine_spec"].ranges, "cap_mem")
        flow.land([good, bad, jobs])
    return flow, good, bad


@pytest.mark.slow
def test_a_refused_build_names_the_file_the_line_and_the_ways_out(landed: tuple[Flow, Path, Path]) -> None:
    flow, _, bad = landed
    with pytest.raises(BuildError) as raised:
        flow.build()
    assert f"machine_id 'm3' landed from {bad}, line 3" in raised.value.message
    assert f"gpulake land --undo {bad}" in raised.value.hint
    assert f"gpulake build --without {bad}" in raised.value.hint
    flow.undo([str(bad)])
    flow.build(["silver_machines"])
    assert rows_of(flow.lake, "SELECT machine_id FROM silver_machines") == [{"machine_id": "m1"}]


@pytest.mark.slow
def test_a_build_without_a_source_says_so_until_the_next_whole_one(landed: tuple[Flow, Path, Path]) -> None:
    flow, _, bad = landed
    result = flow.build(without=[str(bad)])
    assert (result.is_new, result.left_out) == (True, (str(bad),))
    assert not flow.build(without=[str(bad)]).is_new
    assert rows_of(flow.lake, "SELECT machine_id FROM silver_machines") == [{"machine_id": "m1"}]
    assert rows_of(flow.lake, "SELECT left_out FROM build_info") == [{"left_out": "pai_machine_spec.csv"}]
    card = CliRunner().invoke(root, ["report", "efficiency", "--json", "--lake", str(flow.config.lake)])
    assert json.loads(card.stdout)["clusters"][0]["left_out"] == "pai_machine_spec.csv"
    flow.write_report(page := flow.config.lake / "report.html")
    said = "the build was made without pai_machine_spec.csv"
    assert said in page.read_text()
    (check,) = [check for check in check_all(flow.config) if check.name == "build"]
    assert (check.status, check.detail.split(" ", 1)[1]) == ("warn", "was made without pai_machine_spec.csv")
    flow.undo([str(bad)])
    assert flow.build().is_new
    flow.write_report(page)
    assert said not in page.read_text()
    assert [check.status for check in check_all(flow.config) if check.name == "build"] == ["ok"]
