"""Accounts, partitions and QOS: what their tables say adds up to what the jobs held and waited."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from conftest import built_from, rows_of
from gpulake.core.config import Config
from gpulake.formats.scontrol import Note
from gpulake.lake import Lake
from show.web.asking import ask
from show.web.boards import dashboard

pytestmark = pytest.mark.slow

FIELDS = "JobID|Cluster|User|Account|Partition|QOS|State|Reason|Submit|Start|End|ElapsedRaw|NNodes|AllocTRES|NodeList"
DAY = "2026-03-01T"
# Two hours of two GPUs for bio, one hour of one GPU for math; the second waited for an hour, half of it seen.
JOBS = f"""{FIELDS}
1|tiger|ann|bio|gpu|high|COMPLETED|None|{DAY}09:00:00|{DAY}09:00:00|{DAY}11:00:00|7200|1|cpu=1,gres/gpu=2|g1
2|tiger|bob|math|debug|low|COMPLETED|None|{DAY}09:00:00|{DAY}10:00:00|{DAY}11:00:00|3600|1|cpu=1,gres/gpu=1|g1
"""
QUEUE = """JobId=2 JobName=x UserId=bob(1) Account=math QOS=low JobState=PENDING Reason=Resources Dependency=(null) \
SubmitTime=2026-03-01T09:00:00 Partition=debug TRES=cpu=1,gres/gpu=1
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    note = Note("tiger", "2026-03-01T09:30:00+00:00", "UTC", "").line()
    return built_from(tmp_path_factory.mktemp("accounts"), {"jobs.txt": JOBS, "queue.txt": note + QUEUE})


@pytest.fixture(scope="module")
def client(lake: Lake) -> TestClient:
    return dashboard(Config(lake=lake.root, threads=1)).client


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        ("account", {"bio": 4, "math": 1}),
        ("partition", {"gpu": 4, "debug": 1}),
        ("qos", {"high": 4, "low": 1}),
    ],
)
def test_gpu_hours_are_told_by_it(client: TestClient, thing: str, expected: dict[str, float]) -> None:
    rows = ask(client, f"efficiency_by_{thing}")
    assert {row[f"{thing}_id"]: row["held_gpu_hours"] for row in rows} == pytest.approx(expected)
    name = max(expected, key=expected.__getitem__)
    assert [row["job_id"] for row in ask(client, "efficiency_of_jobs", by="held", **{thing: name})] == ["1"]


def test_an_account_has_a_page_of_its_own(client: TestClient) -> None:
    assert client.get("/account?account=bio").status_code == 200
    assert client.get("/account").status_code == 422
    (held,) = (tile for tile in ask(client, "report_card", account="bio") if tile["label"] == "held")
    assert held["value"] == pytest.approx(4)
    assert [row["user_id"] for row in ask(client, "efficiency_by_user", account="bio")] == ["ann"]


def test_a_wait_is_told_by_its_reasons(client: TestClient, lake: Lake) -> None:
    rows = ask(client, "wait_reasons")
    assert {row["reason"]: (row["jobs"], row["waiting_gpu_hours"], row["known_ratio"]) for row in rows} == {
        "Resources": (1, 0.5, 1.0),
        "unknown": (1, 0.5, 0.0),
    }
    assert ask(client, "wait_reasons", account="bio") == []
    (row,) = ask(client, "waits_by_account", qos="low")
    assert (row["partition_id"], row["account_id"], row["wait_seconds"]) == ("debug", "math", 3600)
    (waited,) = rows_of(lake, "SELECT launch_wait_seconds AS seconds FROM silver_jobs WHERE job_id = '2'")
    assert waited == {"seconds": 3600}
