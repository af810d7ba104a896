"""The report of jobs that ran more than once, wait, share a node or have another name in telemetry."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import built_from
from gpulake.core.config import Cluster, Config
from gpulake.formats.scontrol import Note
from gpulake.lake import Lake
from gpulake.show.job_advice import Change
from gpulake.show.job_report import JobReport, job_report
from gpulake.show.job_text import job_text
from model.sacct import gpus, times
from show.web.asking import ask, client_of

pytestmark = pytest.mark.slow

CLUSTERS = {"tiger": Cluster(time_zone="UTC")}
FIELDS = ["JobID", "JobIDRaw", "User", "Cluster", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw"]
FIELDS += ["TimelimitRaw", "NNodes", "ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES", "TotalCPU", "NodeList"]
HELD = """\
JobId=40 JobName=train UserId=ann(1000) JobState=RUNNING Reason=None Dependency=(null)
   SubmitTime=2026-03-01T09:00:00 StartTime=2026-03-01T10:00:00 EndTime=Unknown
   NodeList=gpu-4 NumNodes=1 TRES=cpu=8,gres/gpu=1 JOB_GRES=gpu:1
     Nodes=gpu-4 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:1)
"""


def at(clock: str) -> str:
    return f"2026-03-01T{clock}:00" if clock else "Unknown"


def row(name: str, raw: str, node: str, state: str, *clocks: str, **more: str) -> dict[str, str]:
    kept = {"JobID": name, "JobIDRaw": raw, "User": "ann", "Cluster": "Tiger", "State": state, "NNodes": "1"}
    kept |= {"NodeList": node, "ReqTRES": gpus(1), "AllocTRES": gpus(1) if node else ""}
    return kept | {"TimelimitRaw": "240"} | times(*map(at, clocks)) | more


ACCOUNTING = [
    row("10", "10", "gpu-1", "NODE_FAIL", "09:00", "10:00", "11:00", ElapsedRaw="3600", TotalCPU="02:00:00"),
    row("10", "10", "gpu-2", "COMPLETED", "11:01", "13:00", "13:30", ElapsedRaw="1800", TotalCPU="00:30:00"),
    row("20_1", "21", "gpu-3", "COMPLETED", "09:00", "10:00", "11:00", ElapsedRaw="3600"),
    row("30", "30", "", "PENDING", "12:00", "", ""),
    row("40", "40", "gpu-4", "RUNNING", "09:00", "10:00", ""),
    row("41", "41", "gpu-4", "RUNNING", "09:00", "10:00", ""),
    row("50", "50", "gpu-5", "OUT_OF_MEMORY", "09:00", "10:00", "11:00", ReqMem="64G", ElapsedRaw="3600"),
    # The last that is seen: until then the one that waits has waited for two hours.
    row("60", "60", "gpu-5", "COMPLETED", "13:00", "13:30", "14:00", ElapsedRaw="1800"),
]


def samples(node: str, gpu: int, busy: int, label: str, first: str, minutes: int) -> str:
    begin = int(datetime.fromisoformat(at(first)).replace(tzinfo=UTC).timestamp() * 1000)
    named = f'{{gpu="{gpu}",UUID="{node}-{gpu}",Hostname="{node}"{label}}}'
    return "".join(
        f"DCGM_FI_DEV_GPU_UTIL{named} {busy} {begin + 60_000 * minute}\n"
        f"DCGM_FI_DEV_POWER_USAGE{named} 300 {begin + 60_000 * minute}\n"
        for minute in range(minutes)
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    accounting = ["|".join(FIELDS), *("|".join(one.get(field, "") for field in FIELDS) for one in ACCOUNTING), ""]
    note = Note("Tiger", "2026-03-01T14:00:00+00:00", "UTC", "").line()
    xid = "2026-03-01T10:59:00,000000+00:00 NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    pages = {
        "gpu-1.prom": samples("gpu-1", 0, 80, ',hpc_job="10"', "10:00", 60),
        "gpu-2.prom": samples("gpu-2", 5, 40, ',hpc_job="10"', "13:00", 30),
        "gpu-3.prom": samples("gpu-3", 2, 70, ',hpc_job="21"', "10:00", 60),
        "gpu-4.prom": samples("gpu-4", 0, 90, "", "10:00", 60) + samples("gpu-4", 1, 20, "", "10:00", 60),
        "gpu-1.dmesg": xid,
    }
    files = {"sacct.txt": "\n".join(accounting), "queue.txt": note + HELD, **pages}
    return built_from(tmp_path_factory.mktemp("site"), files, clusters=CLUSTERS)


def report_of(lake: Lake, job: str) -> JobReport:
    with lake.reading() as reader:
        return job_report(reader, Config(lake=Path("lake"), clusters=CLUSTERS), job)


def test_a_requeued_job_ran_for_its_attempts_and_not_for_the_wait_between_them(lake: Lake) -> None:
    report = report_of(lake, "10")
    assert report.ran_seconds == 5400.0
    assert report.used.cores == 2.0  # of the attempt that used more: 2 h of CPU in its 1 h
    text = job_text(report)
    assert "  ran        1 h 30 min, 2026-03-01 10:00 to 2026-03-01 13:30 UTC, on gpu-1, gpu-2, in 2 attempts\n" in text
    assert (
        "Its attempts\n"
        "  2026-03-01 10:00 to 2026-03-01 11:00 UTC on gpu-1: node_fail\n"
        "  2026-03-01 13:00 to 2026-03-01 13:30 UTC on gpu-2: succeeded\n"
    ) in text


def test_the_limit_of_a_requeued_job_is_compared_with_its_longest_attempt(lake: Lake) -> None:
    (change,) = [change for change in report_of(lake, "10").changes if change.what == "time_limit"]
    assert change.why == "it ran 1 h, 25% of its limit; short jobs start earlier"


def test_the_energy_of_a_job_is_that_of_its_gpus(lake: Lake) -> None:
    assert report_of(lake, "10").energy_kilowatt_hours == pytest.approx(
        0.44
    )  # a last sample covers nothing: 59 and 29 minutes
    assert "  energy     0.4 kWh of its GPUs, as measured\n" in job_text(report_of(lake, "10"))
    assert report_of(lake, "50").energy_kilowatt_hours is None


def test_what_the_nodes_of_a_job_reported_in_its_time_is_named(lake: Lake) -> None:
    assert [(one["kind"], one["node"]) for one in report_of(lake, "10").findings] == [("node_fault", "gpu-1")]
    assert "On its nodes in that time\n  Node gpu-1 reported Xid 79" in job_text(report_of(lake, "10"))
    assert report_of(lake, "20_1").findings == ()


def test_a_task_of_an_array_has_the_gpus_that_telemetry_names_by_its_raw_number(lake: Lake) -> None:
    assert [(gpu.node, gpu.gpu_index) for gpu in report_of(lake, "20_1").gpus] == [("gpu-3", 2)]


def test_a_job_that_shares_a_node_without_labels_has_the_gpus_that_slurm_lists(lake: Lake) -> None:
    assert [gpu.gpu_index for gpu in report_of(lake, "40").gpus] == [1]
    assert report_of(lake, "41").gpus == ()


def test_a_waiting_job_says_for_how_long(lake: Lake) -> None:
    report = report_of(lake, "30")
    assert report.waited_seconds == pytest.approx(7200, abs=60)
    assert "  waited     2 h so far" in job_text(report)


def test_a_job_without_enough_memory_is_told_to_ask_for_more(lake: Lake) -> None:
    expected = Change("memory", "ask for more than 64 GiB of memory", "it was killed for want of memory")
    assert expected in report_of(lake, "50").changes


def test_the_page_of_a_job_draws_its_own_gpus_and_agrees_about_its_time(lake: Lake) -> None:
    client = client_of(lake.config)

    def drawn(job: str) -> set[tuple[str, int]]:
        return {(row["node"], row["gpu_index"]) for row in ask(client, "job_telemetry", job=job, cluster="tiger")}

    assert {job: drawn(job) for job in ("10", "20_1", "40")} == {
        "10": {("gpu-1", 0), ("gpu-2", 5)},
        "20_1": {("gpu-3", 2)},
        "40": {("gpu-4", 1)},
    }
    # Nothing says which are those of 41: both of its machine.
    assert drawn("41") == {("gpu-4", 0), ("gpu-4", 1)}
    tiles = {row["label"]: row["value"] for row in ask(client, "job_summary", job="10", cluster="tiger")}
    assert tiles["ran"] == 5400.0
