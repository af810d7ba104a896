"""The same trace dumped day after day: what is told again counts once, and what happened again counts again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import built_from, count_of, rows_of
from gpulake.core.config import Config
from gpulake.core.errors import BuildError
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.model import plan as plans
from gpulake.model.plan import shipped_plan

INSTANCE = "j,worker,{inst},{worker},i,{status},{start},{end},m"


def row(inst: str, worker: str, status: str, start: str = "", end: str = "") -> str:
    return INSTANCE.format(inst=inst, worker=worker, status=status, start=start, end=end)


MONDAY = [
    row("finishes", "w1", "Running", "100.0"),
    row("fails", "w2", "Running"),
    row("waits", "", "Waiting"),
    row("begins", "", "Waiting"),
    row("goes on", "w5", "Running"),
    row("is tried again", "w6", "Failed", "100.0"),
    row("was over", "w8", "Terminated", "50.0", "90.0"),
]
TUESDAY = [
    row("finishes", "w1", "Terminated", "100.0", "200.0"),
    row("fails", "w2", "Failed"),
    row("waits", "", "Waiting"),
    row("begins", "w4", "Running", "150.0"),
    row("goes on", "w5", "Running", "160.0"),
    row("is tried again", "w6", "Failed", "100.0"),
    row("is tried again", "w7", "Terminated", "300.0", "400.0"),
    row("was over", "w8", "Terminated", "50.0", "90.0"),
    # One worker, one instance, back to back; and one worker for two instances.
    row("again", "w9", "Terminated", "100.0", "200.0"),
    row("again", "w9", "Terminated", "200.0", "300.0"),
    row("one", "w10", "Terminated", "100.0", "200.0"),
    row("two", "w10", "Running", "200.0"),
    # Nobody can tell these apart.
    row("", "", "Waiting"),
    row("", "", "Waiting"),
]


def dumps(*days: list[str]) -> dict[str, str]:
    files = {f"{number}/pai_instance_table.csv": "\n".join(day) + "\n" for number, day in enumerate(days)}
    return {
        "pai_job_table.csv": "j,i,u,Running,10.0,\n",
        "pai_task_table.csv": "j,worker,9.0,Running,20.0,,600.0,29.3,100.0,T4\n",
        **files,
    }


def attempts(lake: Lake) -> list[tuple[object, ...]]:
    query = "SELECT attempt, status, epoch(started_at) AS b, epoch(ended_at) AS e FROM silver_instances ORDER BY ALL"
    return [tuple(found.values()) for found in rows_of(lake, query)]


@pytest.mark.slow
def test_what_daily_dumps_tell_again_counts_once(tmp_path: Path) -> None:
    assert attempts(built_from(tmp_path, dumps(MONDAY, TUESDAY))) == [
        (1, "failed", 100.0, None),
        (1, "failed", None, None),
        (1, "running", 150.0, None),
        (1, "running", 160.0, None),
        (1, "running", 200.0, None),
        (1, "succeeded", 50.0, 90.0),
        (1, "succeeded", 100.0, 200.0),
        (1, "succeeded", 100.0, 200.0),
        (1, "succeeded", 100.0, 200.0),
        (1, "waiting", None, None),
        (1, "waiting", None, None),
        (2, "succeeded", 200.0, 300.0),
        (2, "succeeded", 300.0, 400.0),
    ]


@pytest.mark.slow
def test_the_order_in_which_dumps_land_does_not_matter(tmp_path: Path) -> None:
    forth = attempts(built_from(tmp_path / "a", dumps(MONDAY, TUESDAY)))
    assert attempts(built_from(tmp_path / "b", dumps(TUESDAY, MONDAY, TUESDAY[::-1]))) == forth


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [
        "select * from ({0}) where attempt = 1",
        "select * from ({0}) union all ({0})",
        "select * replace (attempt + 1 as attempt) from ({0})",
    ],
)
def test_an_attempt_that_is_lost_or_made_up_fails_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    plan = shipped_plan()
    models = tuple(
        replace(model, sql=broken.format(model.sql)) if model.name == "silver_instances" else model
        for model in plan.models
    )
    monkeypatch.setattr(plans, "shipped_plan", lambda: replace(plan, models=models))
    with pytest.raises(BuildError, match="every_attempt_that_landed_is_there"):
        built_from(tmp_path, dumps(TUESDAY))


@pytest.mark.slow
@pytest.mark.real
def test_every_row_of_the_real_tail_is_an_attempt(tmp_path: Path, real_data: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=2))
    tail = real_data / "pai" / "pai_instance_table_tail.csv.gz"
    flow.land([tail])
    flow.build(["silver_instances"])
    # Thirty workers ran several instances, one after the other.
    assert count_of(flow.lake, "silver_instances") == 28_339
    again = "SELECT count(*) AS n FROM silver_instances WHERE worker_key IS NOT NULL GROUP BY worker_key HAVING n > 1"
    assert sorted(str(found["n"]) for found in rows_of(flow.lake, again)) == ["2"] * 25 + ["3"] * 5
