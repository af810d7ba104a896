"""What is under observation, and what may be said of machines that show nothing: on clusters written by hand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import built_from, rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Cluster, Config, load
from gpulake.core.errors import ConfigError
from gpulake.flow import Flow
from gpulake.lake import Lake

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
FIELDS = "JobID|Cluster|User|JobName|State|Submit|Eligible|Start|End|NNodes|AllocTRES|NodeList"
MACHINES = "cluster,machine,gpu_type,gpus,cores,memory_gib\n"
LEDGER, FINDINGS = ["gold_ledger_hourly"], ["findings"]
Run = tuple[str, str, float, float, float]  # node, state, and hours since BEGIN: submitted, begun, ended


def sacct(runs: Iterable[Run], gpus: int = 1) -> str:
    def at(hours: float) -> str:
        return f"{BEGIN + timedelta(hours=hours):%Y-%m-%dT%H:%M:%S}"

    lines = [
        f"{number}|tiger|ann|train|{state}|{at(submit)}|{at(submit)}|{at(start)}|{at(end)}|1|gres/gpu={gpus}|{node}"
        for number, (node, state, submit, start, end) in enumerate(runs, start=1)
    ]
    return "\n".join([FIELDS, *lines]) + "\n"


def inventory(nodes: int, gpus: int = 1) -> str:
    return MACHINES + "".join(f"tiger,n{number},H100,{gpus},,\n" for number in range(nodes))


def full_week(nodes: int) -> list[Run]:
    """Every node busy for a week, in jobs of six hours."""
    return [
        (f"n{node}", "COMPLETED", 6.0 * slot, 6.0 * slot, 6.0 * slot + 6) for node in range(nodes) for slot in range(28)
    ]


def window(lake: Lake) -> tuple[object, ...]:
    (row,) = rows_of(lake, "SELECT observed_from, observed_until, observed_basis FROM silver_clusters")
    return tuple(row.values())


def totals(lake: Lake, *buckets: str) -> tuple[float, ...]:
    sums = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}" for bucket in buckets)
    (row,) = rows_of(lake, f"SELECT {sums} FROM gold_ledger_hourly")
    return tuple(round(float(str(value)), 6) for value in row.values())


def hour(hours: float) -> datetime:
    return BEGIN + timedelta(hours=hours)


@pytest.mark.slow
def test_one_old_submission_does_not_stretch_a_week_of_accounting(tmp_path: Path) -> None:
    old = ("n0", "COMPLETED", -14 * 24.0, 167.0, 168.0)
    files = {"sacct.txt": sacct([*full_week(4)[:-1], old]), "machines.csv": inventory(4)}
    lake = built_from(tmp_path, files, LEDGER)
    assert window(lake) == (hour(0), hour(168), "trimmed")
    assert totals(lake, "capacity", "down", "unknown") == (4 * 168, 0, 0)


@pytest.mark.slow
def test_what_ended_last_counts_at_once_even_after_a_quiet_weekend(tmp_path: Path) -> None:
    late = ("n0", "COMPLETED", 220.0, 220.0, 221.5)
    lake = built_from(tmp_path, {"sacct.txt": sacct([*full_week(4), late]), "machines.csv": inventory(4)}, LEDGER)
    assert window(lake) == (hour(0), hour(221.5), "events")


@pytest.mark.slow
def test_a_clock_that_was_years_ahead_does_not_stretch_it(tmp_path: Path) -> None:
    wrong = ("n0", "COMPLETED", 9000.0, 9000.0, 9001.0)
    lake = built_from(tmp_path, {"sacct.txt": sacct([*full_week(4), wrong]), "machines.csv": inventory(4)}, LEDGER)
    assert window(lake) == (hour(0), hour(168), "trimmed")


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_row_dated_2099_moves_nothing_however_few_there_are(tmp_path: Path, count: int) -> None:
    late = (datetime(2099, 1, 1, tzinfo=UTC) - BEGIN) / timedelta(hours=1)
    runs: list[Run] = [("n0", "COMPLETED", 1.0 * number, 1.0 * number, number + 1.0) for number in range(count)]
    wrong = ("n0", "RUNNING", late, late, late + 1)
    lake = built_from(tmp_path, {"sacct.txt": sacct([*runs, wrong])}, LEDGER)
    assert window(lake) == (hour(0), hour(count), "trimmed")
    assert totals(lake, "capacity", "unobserved") == (count, count)


@pytest.mark.slow
def test_jobs_of_the_last_hour_before_the_dump_are_in_the_ledger(tmp_path: Path) -> None:
    new = [(f"n{node}", "COMPLETED", 168.2, 168.25, 168.75) for node in range(3)]
    lake = built_from(tmp_path, {"sacct.txt": sacct([*full_week(4), *new]), "machines.csv": inventory(4)}, LEDGER)
    assert window(lake) == (hour(0), hour(168.75), "events")
    assert totals(lake, "capacity", "unobserved", "unallocated") == (4 * 168.75, 4 * 168 + 1.5, 1.5)


@pytest.mark.slow
def test_a_lake_whose_own_clock_is_behind_still_has_its_events(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(sacct([("n0", "COMPLETED", 0.0, 0.0, 2.0)]))
    flow = Flow(Config(lake=tmp_path / "lake", threads=1), FrozenClock(BEGIN - timedelta(days=400)))
    flow.land([tmp_path / "sacct.txt"])
    flow.build(["silver_clusters"])
    assert window(flow.lake) == (hour(0), hour(2), "events")


@pytest.mark.slow
def test_a_listing_of_what_still_ran_says_that_its_begin_is_missing(tmp_path: Path) -> None:
    """As `sacct -S` prints a full cluster: jobs of days that began before, and nothing that ended before."""
    runs = [(node, "COMPLETED", start, start, end) for node, _, _, start, end in full_week(4) if end > 96]
    long = [(f"n{node}", "COMPLETED", 2.0 * node, 2.0 * node, 130.0) for node in range(10)]
    files = {"sacct.txt": sacct([*runs, *long]), "machines.csv": inventory(10, gpus=2)}
    query = "SELECT headline, detail, value FROM findings WHERE kind = 'missing_begin'"
    (found,) = rows_of(built_from(tmp_path / "events", files, FINDINGS), query)
    assert found["headline"] == ("no job of tiger ended in its first 102 hours: jobs that did seem not to have landed")
    assert "set observed_from of [clusters.tiger]" in str(found["detail"])
    assert found["value"] == 102.0
    bounded = {"tiger": Cluster(observed_from="2026-03-06T00:00:00Z")}
    assert rows_of(built_from(tmp_path / "settings", files, FINDINGS, clusters=bounded), query) == []


@pytest.mark.slow
def test_settings_bound_what_is_under_observation(tmp_path: Path) -> None:
    tiger = Cluster(observed_from="2026-03-03T01:00:00+01:00", observed_until="2026-03-04T00:00:00Z")
    files = {"sacct.txt": sacct(full_week(2)), "machines.csv": inventory(2)}
    lake = built_from(tmp_path, files, LEDGER, clusters={"tiger": tiger})
    assert window(lake) == (hour(24), hour(48), "settings")
    assert totals(lake, "capacity", "unobserved") == (48, 48)


def test_bounds_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="observed_from is '2026-03-03'"):
        Cluster(observed_from="2026-03-03")
    with pytest.raises(ConfigError, match=r"observed_until is 'soon' in \[clusters.tiger\]"):
        load({"clusters": {"tiger": {"observed_until": "soon"}}}, {})
    with pytest.raises(ConfigError, match="observed_until is 2026-03-03T00:00:00Z"):
        Cluster(observed_from="2026-03-03T00:00:00Z", observed_until="2026-03-03T00:00:00Z")


@pytest.mark.slow
def test_a_machine_that_lost_all_it_ran_is_down_in_the_ledger(tmp_path: Path) -> None:
    others = [run for run in full_week(4) if run[0] != "n0"]
    # Jobs of an hour until three of them fail at one moment; then nothing for a day.
    before = [("n0", "COMPLETED", float(at), float(at), at + 1.0) for at in range(100)]
    killed = [("n0", "NODE_FAIL", 100.0, 100.0, 100.5)] * 3
    after = [("n0", "COMPLETED", float(at), float(at), at + 1.0) for at in range(125, 168)]
    runs = [*others, *before, *killed, *after]
    lake = built_from(tmp_path, {"sacct.txt": sacct(runs), "machines.csv": inventory(4, gpus=4)}, LEDGER)
    found = rows_of(lake, "SELECT basis, started_at, ended_at FROM silver_outages")
    assert [tuple(row.values()) for row in found] == [("died", hour(100.5), hour(125))]
    assert totals(lake, "down", "unknown") == (4 * 24.5, 0)


@pytest.mark.slow
def test_a_machine_gone_silent_is_unknown_not_down(tmp_path: Path) -> None:
    # Off after three days, and nothing says why.
    runs = [run for run in full_week(4) if run[0] != "n0" or run[4] <= 72]
    lake = built_from(tmp_path, {"sacct.txt": sacct(runs), "machines.csv": inventory(4)}, LEDGER)
    assert totals(lake, "down", "unknown", "unallocated") == (0, 96, 0)


@pytest.mark.slow
def test_a_cluster_that_rests_expects_nothing_of_its_machines(tmp_path: Path) -> None:
    runs = [run for run in full_week(4) if run[4] <= 72 or run[2] >= 144]
    lake = built_from(tmp_path, {"sacct.txt": sacct(runs), "machines.csv": inventory(4)}, LEDGER)
    assert totals(lake, "down", "unknown", "unallocated") == (0, 0, 4 * 72)


@pytest.mark.slow
def test_work_before_the_last_checkpoint_is_not_lost(tmp_path: Path) -> None:
    runs = [("n0", "FAILED", 0.0, 0.0, 10.0), ("n1", "TIMEOUT", 0.0, 0.0, 10.0), ("n2", "PREEMPTED", 0.0, 0.0, 10.0)]
    moments = {"1": ("08:00", "04:00"), "3": ("11:00",)}
    saved = "cluster,job,saved_at\n" + "".join(
        f"tiger,{job},2026-03-02T{moment}:00Z\n" for job, of_job in moments.items() for moment in of_job
    )
    files = {"sacct.txt": sacct(runs), "machines.csv": inventory(3), "checkpoints.csv": saved}
    lake = built_from(tmp_path, files, [*LEDGER, "gold_failures_daily", "gold_ledger_buckets"])
    buckets = ("unobserved", "failed", "timed_out", "interrupted", "lost", "lost_at_least")
    # A checkpoint after the end says nothing.
    assert totals(lake, *buckets) == (8, 2, 10, 10, 22, 2)
    rows = rows_of(lake, "SELECT sum(lost_gpu_hours) AS a, sum(lost_at_least_gpu_hours) AS b FROM gold_failures_daily")
    assert rows == [{"a": 22.0, "b": 2.0}]
    of_buckets = rows_of(lake, "SELECT gpu_hours_at_least FROM gold_ledger_buckets WHERE bucket = 'failed'")
    assert of_buckets == [{"gpu_hours_at_least": 2.0}]


@pytest.mark.slow
def test_overcommit_is_charged_to_those_who_claimed_too_much(tmp_path: Path) -> None:
    jobs = "a,ia,ann,Terminated,0,7200\nb,ib,bob,Terminated,0,7200\nc,ic,eve,Terminated,0,7200\n"
    jobs = jobs.replace(",0,7200", ",3600.0,10800.0")
    tasks = "".join(f"{job},worker,1,Terminated,3600.0,10800.0,600,29,200,T4\n" for job in "abc")
    places = {"a": "m1", "b": "m1", "c": "m2"}
    attempts = "".join(
        f"{job},worker,n{job},w{job},i{job},Terminated,3600.0,10800.0,{machine}\n" for job, machine in places.items()
    )
    files = {
        "pai_job_table.csv": jobs,
        "pai_task_table.csv": tasks,
        "pai_instance_table.csv": attempts,
        "pai_machine_spec.csv": "m1,T4,96,512,2\nm2,T4,96,512,2\n",
    }
    lake = built_from(tmp_path, files, ["gold_ledger_daily"])
    rows = rows_of(lake, "SELECT user_id, capacity_gpu_hours AS held FROM gold_ledger_daily WHERE user_id IS NOT NULL")
    # Ann and Bob claimed the two GPUs of one machine twice over; Eve, on the other, did nothing of the kind.
    assert {row["user_id"]: row["held"] for row in rows} == pytest.approx({"ann": 2.0, "bob": 2.0, "eve": 4.0})


@pytest.mark.slow
@pytest.mark.real
def test_the_real_tail_without_its_requests_says_what_is_missing(tmp_path: Path) -> None:
    data = Path(os.environ["GPULAKE_REAL_DATA"]) / "pai"
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([data / "pai_machine_spec.csv", data / "pai_instance_table_tail.csv.gz"])
    findings = flow.build().findings or ()
    (missing,) = [finding for finding in findings if finding.kind == "missing_demand"]
    assert missing.headline == "what 100% of the attempts of pai asked for is not known"
    assert "pai_task_table" in missing.detail
    held, unknown, capacity = totals(flow.lake, "unallocated", "unknown", "capacity")
    assert (held, unknown) == (0, capacity)


@pytest.mark.slow
@pytest.mark.real
def test_the_real_openb_is_observed_from_when_its_pods_come(tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([Path(os.environ["GPULAKE_REAL_DATA"]) / "alibaba_openb_v2023"])
    flow.build(["silver_clusters"])
    rows = rows_of(
        flow.lake,
        "SELECT epoch(observed_from) / 86400 AS begin, epoch(observed_until) / 86400 AS until FROM silver_clusters",
    )
    (row,) = rows
    assert 109 < float(str(row["begin"])) < 117
    assert float(str(row["until"])) > 149
