"""The report of one job: its facts, each GPU that it held, and what to change."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.config import Cluster, Config
from gpulake.core.errors import UsageError
from gpulake.flow import Flow
from gpulake.flow.reports import job_report
from gpulake.lake import Lake
from gpulake.show.job_advice import Change, changes
from gpulake.show.job_report import Asked, Used
from gpulake.show.job_text import job_text
from hand_made import write_accounting
from model.sacct import times

pytestmark = pytest.mark.slow

HOUR = ("2026-03-01T09:00:00", "2026-03-01T10:00:00", "2026-03-01T11:00:00")
JOB = {
    "JobID": "11",
    "JobIDRaw": "11",
    "User": "ann",
    "Cluster": "tiger",
    "State": "COMPLETED",
    "ElapsedRaw": "3600",
    "TimelimitRaw": "1440",
    "NNodes": "1",
    "ReqCPUS": "16",
    "TotalCPU": "02:00:00",
    "ReqTRES": "cpu=16,mem=64G,gres/gpu:h100=2",
    "AllocTRES": "cpu=16,mem=64G,gres/gpu=2,gres/gpu:h100=2",
    "NodeList": "gpu-1",
    **times(*HOUR),
}
STEP = {"JobID": "11.0", "JobIDRaw": "11.0", "Cluster": "tiger", "State": "COMPLETED", **times(*HOUR)}
STEP |= {"MaxRSS": "4G", "NTasks": "2"}


def page() -> str:
    """GPU 0 is busy, GPU 1 does nothing; a scrape a minute for an hour."""
    begin = 1772359200000  # 2026-03-01 10:00 UTC
    return "".join(
        f'{name}{{gpu="{gpu}",UUID="gpu-1-{gpu}",Hostname="gpu-1",modelName="NVIDIA H100 80GB HBM3",hpc_job="11"}} '
        f"{value} {at}\n"
        for at in range(begin, begin + 3_600_001, 60_000)
        for gpu, busy in ((0, 90), (1, 0))
        for name, value in (
            ("DCGM_FI_DEV_GPU_UTIL", busy),
            ("DCGM_FI_DEV_FB_USED", 40_960),
            ("DCGM_FI_DEV_POWER_USAGE", 300),
        )
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("site")
    raw = folder / "raw"
    raw.mkdir()
    lines = ["|".join(row.get(field, "") for field in JOB | STEP) for row in (JOB, STEP)]
    (raw / "sacct.txt").write_text("\n".join(["|".join(JOB | STEP), *lines, ""]))
    (raw / "gpu-1.prom").write_text(page())
    write_accounting(raw / "lion", "lion")
    write_accounting(raw / "puma", "puma")
    config = Config(lake=folder / "lake", threads=1, clusters={"tiger": Cluster(time_zone="UTC")})
    Flow(config).refresh([raw], None)
    return config


def test_a_report_says_what_to_change_with_the_figures_that_it_rests_on(site: Config) -> None:
    report = job_report(Flow(site), "11")
    assert (report.status, report.ran_seconds, report.waited_seconds) == ("succeeded", 3600.0, 3600.0)
    assert (report.asked.gpus, report.asked.gpu_model, report.asked.cores) == (2.0, "H100", 16.0)
    assert (report.asked.memory_bytes, report.asked.limit_seconds) == (64 << 30, 86_400.0)
    assert (report.used.cores, report.used.peak_memory_bytes) == (2.0, 8 << 30)
    assert [(gpu.gpu_index, round(gpu.busy_ratio or 0.0, 6), gpu.memory_bytes) for gpu in report.gpus] == [
        (0, 0.9, 80 << 30),
        (1, 0.0, 80 << 30),
    ]
    assert report.money is not None
    assert report.money.amount == pytest.approx(2 * 3.99)
    assert report.changes == (
        Change("gpus", "ask for 1 GPU in place of 2", "1 of 2 did nothing: gpu-1 1"),
        Change(
            "time_limit",
            "ask for 1 h 15 min in place of 24 h",
            "it ran 1 h, 4.2% of its limit; short jobs start earlier",
        ),
        Change("cores", "ask for 3 cores in place of 16", "it used 2.0 cores on average, 12%"),
        Change("memory", "ask for 10 GiB of memory in place of 64", "at its peak it used 8.0 GiB, 12%"),
    )


def test_the_text_has_the_same_facts(site: Config) -> None:
    text = job_text(job_report(Flow(site), "11"))
    assert text.startswith("Job 11 of ann on tiger: succeeded\n  asked for  2 × h100 (H100, 80 GiB each), 16 cores, ")
    assert "  gpu-1 1            0% " in text
    assert "What to change\n  Ask for 1 GPU in place of 2: 1 of 2 did nothing: gpu-1 1\n" in text


def test_a_job_of_several_clusters_is_an_error_with_the_choices(site: Config) -> None:
    with pytest.raises(UsageError) as raised:
        job_report(Flow(site), "7")
    assert (raised.value.message, raised.value.hint) == (
        "job '7' is in 2 clusters",
        "choose one with --cluster: lion, puma",
    )
    ran = CliRunner().invoke(root, ["report", "job", "7", "--cluster", "puma", "--lake", str(site.lake), "--json"])
    assert ran.exit_code == 0
    # Nothing measured it: no advice.
    assert '"changes": []' in ran.output


def test_an_unknown_job_is_an_error_that_names_those_that_begin_alike(site: Config) -> None:
    with pytest.raises(UsageError) as raised:
        job_report(Flow(site), "1")
    assert (raised.value.message, raised.value.hint) == ("no job named '1'", "choose from: 11")


def test_who_holds_most_idle_gpu_hours_comes_first_in_findings_and_ranking(shared_lake: Config) -> None:
    """Idle is the ledger's bucket."""
    query = (
        "SELECT user_id FROM gold_ledger_daily WHERE user_id IS NOT NULL GROUP BY user_id"
        " ORDER BY sum(idle_gpu_hours) DESC, user_id LIMIT 3"
    )
    first = [row["user_id"] for row in rows_of(Lake(shared_lake), query)]
    found = rows_of(Lake(shared_lake), "SELECT kind, subject FROM findings ORDER BY rank LIMIT 3")
    assert found == [{"kind": "idle_gpus", "subject": user} for user in first]
    card = Flow(shared_lake).efficiency_card()
    assert [user.user_id for user in card.worst_users[:3]] == first
    assert [user.waste_rank for user in card.worst_users[:3]] == [1, 2, 3]


@pytest.mark.parametrize(("ran_seconds", "advised"), [(150.0, []), (3600.0, ["gpus"])])
def test_a_job_that_ended_at_once_does_not_show_how_many_gpus_it_needs(ran_seconds: float, advised: list[str]) -> None:
    asked = Asked(4, "H100", None, None, None, None, None)
    used = Used(0.8, 1.0, None, None)
    found = changes("failed", ran_seconds, asked, used, {"idle": 0.0, "used": 1.0}, [], 0.05, False)
    assert [one.what for one in found] == advised
