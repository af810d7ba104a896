"""Jobs on the dashboard: searched, filtered, and looked at one by one; each number against plain Python over silver."""

from __future__ import annotations

import html
import json
import re
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from conftest import rows_of
from examples import cases
from gpulake.core.config import Config
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.answers import Answers, Asked
from gpulake.show.web.questions import questions
from gpulake.show.web.viewers import LOCAL
from show.web.lakes import CLUSTER, DEAD_JOB, HOSTILE_JOB, HOSTILE_USER, ODD_USER

Row = dict[str, Any]
SEARCHED = ("job_id", "user_id", "group_id", "account_id", "workload")


@pytest.fixture(scope="module")
def jobs(rich: Config) -> list[Row]:
    return rows_of(
        Lake(rich), "SELECT j.*, c.time_zone FROM silver_jobs j LEFT JOIN silver_clusters c USING (cluster_id)"
    )


def ask(answers: Answers, name: str, limit: int = 1000, offset: int = 0, sort: str = "", **values: Any) -> list[Row]:
    question = questions()[name]
    return list(answers.ask(Asked(question, values, LOCAL, limit, offset, sort)).rows)


def all_jobs(answers: Answers, **values: Any) -> list[Row]:
    return [*ask(answers, "jobs", **values), *ask(answers, "jobs", offset=1000, **values)]


def named(rows: list[Row]) -> list[tuple[str, str]]:
    return sorted((row["cluster_id"], row["job_id"]) for row in rows)


def day_of(job: Row) -> str:
    submitted: datetime = job["submitted_at"]
    return submitted.astimezone(ZoneInfo(job["time_zone"])).date().isoformat()


BEGINNINGS = st.one_of(
    st.sampled_from(["", "%", "_", "'", '"', "\\", "%_", "' OR 1=1 --", "8", "80", "ann", "ann/", "a", "A", "math"]),
    st.sampled_from([ODD_USER, HOSTILE_USER, "100%", "100%_", "100_", "10%", "null", "[a-z]", "*", "?"]),
    st.text(alphabet="0123456789abcdef%_'\"\\", max_size=4),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6),
)


@pytest.mark.slow
@settings(max_examples=cases(60))
@given(search=BEGINNINGS)
def test_a_search_finds_what_begins_like_it_and_nothing_is_a_pattern(
    answers: Answers, jobs: list[Row], search: str
) -> None:
    expected = [job for job in jobs if any((job[column] or "").startswith(search) for column in SEARCHED)]
    assert named(all_jobs(answers, search=search)) == named(expected)


FILTERS: list[dict[str, Any]] = [
    {"status": "failed"},
    {"user": ODD_USER},
    {"group": "ann/train"},
    {"cluster": CLUSTER},
    {"gpu_type": "T4"},
    {"least_gpus": 4},
    {"from": "1970-02-01", "to": "1970-02-03"},
    {"from": "2026-03-01"},
    {"to": "1970-01-26", "status": "succeeded"},
    {"search": "synth-", "least_gpus": 0.5, "gpu_type": "MISC"},
]


@pytest.mark.parametrize("values", FILTERS, ids="-".join)
def test_filters_are_those_of_python(answers: Answers, rich: Config, jobs: list[Row], values: dict[str, Any]) -> None:
    gpus: dict[int, float] = defaultdict(float)
    types: dict[int, set[str]] = defaultdict(set)
    for task in rows_of(Lake(rich), "FROM silver_tasks"):
        key = int(str(task["job_key"]))
        gpus[key] += float(str(task["requested_gpus"] or 0)) * float(str(task["planned_instances"] or 0))
        types[key].add(str(task["gpu_type"]))

    def is_kept(job: Row) -> bool:
        return (
            values.get("status") in (None, job["status"])
            and values.get("user") in (None, job["user_id"])
            and values.get("group") in (None, job["group_id"])
            and values.get("cluster") in (None, job["cluster_id"])
            and ("gpu_type" not in values or values["gpu_type"] in types[job["job_key"]])
            and gpus[job["job_key"]] >= values.get("least_gpus", 0)
            and values.get("from", "") <= day_of(job) <= values.get("to", "9")
            and any((job[column] or "").startswith(values.get("search", "")) for column in SEARCHED)
        )

    expected = [job for job in jobs if is_kept(job)]
    assert expected, "a filter that keeps nothing tests nothing"
    result = all_jobs(answers, **values)
    assert named(result) == named(expected)
    tiles = {row["label"]: row["value"] for row in ask(answers, "jobs_summary", **values)}
    assert tiles["jobs"] == len(expected)
    assert tiles["GPU-hours"] == pytest.approx(sum(row["held_gpu_hours"] or 0 for row in result))
    assert tiles["lost"] == pytest.approx(sum(row["lost_gpu_hours"] or 0 for row in result))
    counted = {(str(row["day"]), row["status"]): row["jobs"] for row in ask(answers, "jobs_by_status", **values)}
    assert counted == Counter((day_of(job), job["status"]) for job in expected)


@pytest.mark.slow
def test_a_page_of_jobs_is_a_part_of_all_of_them_in_order(answers: Answers) -> None:
    """Rows that are completed after they were chosen are those that are completed before."""
    for sort in ("", "-status", "held_gpu_hours", "-gpus", "ran_seconds"):
        whole = all_jobs(answers, sort=sort)
        paged = [row for offset in range(0, 1100, 250) for row in ask(answers, "jobs", 250, offset, sort)]
        assert paged == whole
    assert whole == sorted(whole, key=lambda row: (row["ran_seconds"] is None, row["ran_seconds"] or 0.0))


def test_hours_and_gpus_of_a_job_are_the_sums_of_its_rows(answers: Answers, rich: Config) -> None:
    held: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for row in rows_of(Lake(rich), "FROM gold_job_efficiency_daily"):
        sums = held[str(row["cluster_id"]), str(row["job_id"])]
        for place, name in enumerate(("held", "lost", "used", "unobserved")):
            sums[place] += float(str(row[f"{name}_gpu_hours"]))
    for row in all_jobs(answers):
        selected = str(row["cluster_id"]), str(row["job_id"])
        if selected not in held:
            assert (row["held_gpu_hours"], row["efficiency_ratio"]) == (None, None)
            continue
        whole, lost, used, unobserved = held[selected]
        assert (row["held_gpu_hours"], row["lost_gpu_hours"]) == (pytest.approx(whole), pytest.approx(lost))
        sensed = whole - unobserved - lost
        if sensed > 1e-9:
            assert row["efficiency_ratio"] == pytest.approx(used / sensed)


@pytest.mark.slow
def test_attempts_of_a_job_are_those_of_silver_and_hold_what_it_held(answers: Answers, rich: Config) -> None:
    lake = Lake(rich)
    busiest = "SELECT cluster_id, job_key FROM silver_instances GROUP BY ALL ORDER BY count(*) DESC, job_key LIMIT 3"
    chosen = rows_of(
        lake, f"SELECT j.cluster_id, job_id, job_key FROM silver_jobs j SEMI JOIN ({busiest}) USING (job_key)"
    )
    dead = f"SELECT cluster_id, job_id, job_key FROM silver_jobs WHERE job_id = '{DEAD_JOB}'"
    for job in (*chosen, *rows_of(lake, dead)):
        result = ask(answers, "job_attempts", job=job["job_id"], cluster=job["cluster_id"])
        silver = rows_of(lake, f"FROM silver_instances WHERE job_key = {job['job_key']}")
        assert sorted((str(row["instance_id"]), row["attempt"], row["status"]) for row in result) == sorted(
            (str(row["instance_key"]), row["attempt"], row["status"]) for row in silver
        )
        holdings = rows_of(lake, f"FROM silver_holdings WHERE job_key = {job['job_key']}")
        hours = sum(float(str(row["gpus"])) * float(str(row["held_seconds"])) / 3600 for row in holdings)
        assert sum(row["held_gpu_hours"] or 0 for row in result) == pytest.approx(hours)
    names = ("attempt", "status", "machine_id", "ran_seconds", "gpus", "held_gpu_hours", "bucket", "used_gpus")
    assert sorted(tuple(row[name] for name in names) for row in result) == [
        (1, "interrupted", "gpu01", 1200.0, 2.0, pytest.approx(2 / 3), "interrupted", None),
        (1, "interrupted", "gpu02", 1200.0, 2.0, pytest.approx(2 / 3), "interrupted", None),
        (2, "failed", "gpu01", 3600.0, 2.0, pytest.approx(2), "failed", 1.0),
        (2, "failed", "gpu02", 3600.0, 2.0, pytest.approx(2), "failed", 1.0),
    ]


def test_the_dead_job_in_numbers(answers: Answers) -> None:
    tiles = ask(answers, "job_summary", job=DEAD_JOB, cluster=CLUSTER)
    assert {row["label"]: row["words"] or row["value"] for row in tiles} == {
        "status": "failed",
        "user": "ann",
        "GPUs": 4.0,
        "waited": 600.0,
        "ran": 4800.0,  # of 90 minutes, ten passed between the attempts
        "GPU-hours": pytest.approx(4 / 3 + 4),
        # All of it was lost, at most: there is no share of use.
        "efficiency": None,
        "lost": "0.0 to 5.3",
    }
    (task,) = ask(answers, "job_resources", job=DEAD_JOB, cluster=CLUSTER)
    names = ("requested_gpus", "used_gpus", "requested_cores", "used_cores", "peak_memory_bytes", "measured_instances")
    assert tuple(task[name] for name in names) == (2.0, 1.0, 4.0, 2.0, 3 << 30, 2)


def test_telemetry_of_a_job_is_thinned_and_loses_no_peak(answers: Answers, rich: Config) -> None:
    points = ask(answers, "job_telemetry", job=DEAD_JOB, cluster=CLUSTER)
    assert 0 < len(points) <= 500
    of_time = "node_id IN ('gpu01', 'gpu02') AND sampled_at BETWEEN '2026-03-01 10:00:00Z' AND '2026-03-01 11:30:00Z'"
    samples = rows_of(Lake(rich), f"FROM silver_gpu_samples WHERE {of_time}")
    assert sum(row["samples"] for row in points) == len(samples)
    hottest: dict[str, float] = {}
    for row in samples:
        gpu = str(row["gpu_id"])
        hottest[gpu] = max(hottest.get(gpu, 0.0), float(str(row["temperature_celsius"])))
    shown = {gpu: max(row["temperature_celsius"] for row in points if row["gpu_id"] == gpu) for gpu in hottest}
    assert shown == hottest


def test_neighbours_are_those_who_ran_there_then(answers: Answers, rich: Config) -> None:
    lake = Lake(rich)
    rows = rows_of(
        lake, "SELECT i.*, j.job_id FROM silver_instances i JOIN silver_jobs j USING (job_key, cluster_id) "
        f"WHERE cluster_id = '{CLUSTER}' AND i.started_at IS NOT NULL",
    )  # fmt: skip
    far = max(row["ended_at"] for row in rows if isinstance(row["ended_at"], datetime))
    selected: dict[Any, list[Any]] = {}
    for row in rows:
        if row["job_id"] == DEAD_JOB:
            times = selected.setdefault(row["machine_key"], [row["started_at"], row["ended_at"]])
            times[:] = min(times[0], row["started_at"]), max(times[1], row["ended_at"])
    expected = {
        str(row["job_id"])
        for row in rows
        if row["job_id"] != DEAD_JOB
        and row["machine_key"] in selected
        and row["started_at"] < selected[row["machine_key"]][1]
        and (row["ended_at"] or far) > selected[row["machine_key"]][0]
    }
    result = ask(answers, "job_neighbours", job=DEAD_JOB, cluster=CLUSTER)
    assert {row["job_id"] for row in result} == expected == {"81"}


def text_of(client: TestClient, page: str, panel: str, **values: str) -> str:
    response = client.get(f"/panels/{page}/{panel}?{urlencode(values)}")
    assert response.status_code == 200, response.text
    return response.text


@pytest.mark.slow
def test_the_panel_of_a_diagnosis_shows_exactly_its_lines(client: TestClient, rich: Config) -> None:
    text = text_of(client, "job", "diagnoses", job=DEAD_JOB, cluster=CLUSTER)
    blocks = re.findall(r'<pre class="evidence"[^>]*>(.*?)</pre>', text, re.DOTALL)
    journal = [row for row in Lake(rich).journal("diagnoses") if row["job_id"] == DEAD_JOB]
    newest_first = sorted(journal, key=lambda row: str(row["diagnosed_at"]), reverse=True)
    expected = [
        "".join(f"{row['log']}:{quote['line']}{quote['text']}\n" for quote in row["evidence"]) for row in newest_first
    ]
    assert [html.unescape(re.sub(r"</?span[^>]*>", "", block)) for block in blocks] == expected
    assert len(expected) == 2
    assert "<b>shard</b>" not in text
    assert "&lt;b&gt;shard&lt;/b&gt;" in text
    for row in newest_first:
        assert html.escape(row["remedy"]).replace("&#x27;", "&#39;") in text


def test_a_figure_of_attempts_has_a_bar_for_each(client: TestClient) -> None:
    text = text_of(client, "job", "attempts", job=DEAD_JOB, cluster=CLUSTER)
    figure = json.loads(re.findall(r'class="figure">(.*?)</script>', text, re.DOTALL)[0])
    bars = {trace["name"]: (trace["x"], trace["customdata"]) for trace in figure["data"]}
    assert bars == {
        "interrupted": ([1_200_000.0] * 2, ["gpu02", "gpu01"]),
        "failed": ([3_600_000.0] * 2, ["gpu02", "gpu01"]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("page", ["jobs", "job", "runs", "run"])
def test_pages_fill_on_a_rich_lake_and_say_what_to_do_on_an_empty_one(
    client: TestClient, page: str, tmp_path: Path
) -> None:
    values = {"job": DEAD_JOB, "run": "night1"}
    lake = Lake(Config(lake=tmp_path / "lake", threads=1)).create()
    with TestClient(application(lake)) as empty:
        for one in (client, empty):
            shell = one.get(f"/{page}?{urlencode(values)}")
            assert shell.status_code == 200
            sources = re.findall(r'data-source="([^"]+)"', shell.text)
            assert sources
            for source in sources:
                panel = one.get(html.unescape(source))
                assert panel.status_code == 200, source
                is_unfilled = one is empty or "/training?" in source or "/goodput?" in source  # no run has landed
                assert ('class="empty"' in panel.text) == is_unfilled, source
                assert 'role="alert"' not in panel.text, source


@pytest.mark.slow
def test_a_lake_without_telemetry_says_so(shared_lake: Config) -> None:
    (job,) = rows_of(Lake(shared_lake), "SELECT job_id FROM silver_jobs ORDER BY job_id LIMIT 1")
    panels = {"job": ("telemetry", "diagnoses", "incidents"), "run": ("nodes", "waterfall", "gpus"), "runs": ("runs",)}
    with TestClient(application(Lake(shared_lake))) as client:
        for page, names in panels.items():
            for name in names:
                text = text_of(client, page, name, job=str(job["job_id"]), run="none")
                assert 'class="empty"' in text
                assert 'role="alert"' not in text


def test_hostile_names_are_text_on_every_page(client: TestClient) -> None:
    values = {"job": HOSTILE_JOB, "cluster": CLUSTER}
    seen = "".join(
        text_of(client, page, panel, **values)
        for page, panel in (("jobs", "results"), ("job", "summary"), ("job", "attempts"), ("job", "diagnoses"))
    )
    seen += client.get(f"/jobs?{urlencode({'search': HOSTILE_USER})}").text
    assert html.escape(HOSTILE_USER, quote=False).replace("'", "&#39;") in seen
    assert "<script>alert" not in seen
    assert "<img" not in seen
    link = re.search(r'href="(/user\?[^"]+)"', text_of(client, "job", "summary", **values))
    assert link
    assert link[1] == "/user?" + urlencode({"user": HOSTILE_USER, "cluster": CLUSTER}).replace("&", "&amp;")


def test_reasons_lead_to_the_logs_behind_them(client: TestClient, answers: Answers, rich: Config) -> None:
    diagnosed = [row for row in Lake(rich).journal("diagnoses") if row["verdict"] == "failed"]
    expected = Counter(row["reason"] for row in diagnosed)
    assert {row["reason"]: row["diagnoses"] for row in ask(answers, "failure_reasons")} == expected
    for reason, count in expected.items():
        assert len(ask(answers, "diagnosed", reason=reason)) == count
    assert 'href="/rows/diagnosed?reason=OSError"' in text_of(client, "jobs", "reasons")
