"""The pages of incidents: every count against plain Python over the journal."""

from __future__ import annotations

import csv
import html
import io
import re
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.incidents import Incident
from gpulake.flow.incidents import add_window, remove_window
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.pages import pages
from show.web.asking import ask
from show.web.journals import FIRST, FORMULA, HOSTILE, chosen, days_of, scatter
from show.web.lakes import NOW

FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"from": "2026-03-03", "to": "2026-03-05"},
    {"to": "2026-03-02"},
    {"from": "2026-03-21"},
    {"cluster": "tiger", "from": "2026-03-02", "to": "2026-03-21"},
)
CHOICES = (
    *FILTERS,
    {"state": "open"},
    {"severity": "critical", "state": "muted"},
    {"kind": "failure"},
    {"kind": HOSTILE},
)


@pytest.fixture(scope="module")
def scattered_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Without a build: incidents do not need one."""
    return Lake(Config(lake=tmp_path_factory.mktemp("scattered") / "lake", threads=1)).create()


@pytest.fixture(scope="module")
def scattered(scattered_lake: Lake) -> tuple[TestClient, list[Incident]]:
    incidents = scatter(scattered_lake, seed=5)
    return TestClient(application(scattered_lake)), incidents


@pytest.mark.slow
@pytest.mark.parametrize("given", FILTERS, ids=str)
def test_tiles_count_incidents_as_they_stand(
    scattered: tuple[TestClient, list[Incident]], given: dict[str, str]
) -> None:
    client, incidents = scattered
    here = list(chosen(incidents, **given))
    states = Counter(str(one.state) for one in here)
    critical = sum(one.state == "open" and one.severity == "critical" for one in here)
    expected = {
        **{state: states[state] for state in ("open", "acknowledged", "muted", "resolved")},
        "critical": critical,
    }
    rows = ask(client, "incident_counts", **given)
    assert {row["label"]: row["value"] for row in rows} == expected
    for row in rows:
        followed = {name: values[0] for name, values in parse_qs(urlsplit(row["link"]).query).items()}
        assert len(ask(client, "incidents", **followed)) == row["value"], "a tile leads to what it counts"


@pytest.mark.parametrize("given", CHOICES, ids=str)
def test_the_list_has_those_that_the_filters_leave_as_they_stand(
    scattered: tuple[TestClient, list[Incident]], given: dict[str, str]
) -> None:
    client, incidents = scattered
    expected = {one.incident_id: (one.state, one.severity, one.kind, one.subject) for one in chosen(incidents, **given)}
    rows = ask(client, "incidents", **given)
    assert {
        row["incident_id"]: (row["state"], row["severity"], row["kind"], row["subject"]) for row in rows
    } == expected
    assert [row["state"] for row in rows] == sorted(
        (row["state"] for row in rows), key=["open", "acknowledged", "muted", "resolved"].index
    )


@pytest.mark.parametrize("given", CHOICES, ids=str)
def test_an_incident_counts_on_every_day_on_which_it_was_seen(
    scattered: tuple[TestClient, list[Incident]], given: dict[str, str]
) -> None:
    client, incidents = scattered
    first, last = given.get("from", "0"), given.get("to", "9")
    expected: dict[str, Counter[str]] = {}
    for one in chosen(incidents, **given):
        for day in map(str, days_of(one)):
            if first <= day <= last:
                expected.setdefault(day, Counter())[one.severity] += 1
    rows = ask(client, "incidents_by_day", **given)
    assert {
        row["day"]: Counter({k: row[k] for k in ("critical", "warning", "info") if row[k]}) for row in rows
    } == expected
    assert [row["day"] for row in rows] == sorted(expected)


def test_a_day_of_the_figure_leads_to_as_many_incidents_as_it_shows(
    scattered: tuple[TestClient, list[Incident]],
) -> None:
    client, _ = scattered
    for row in ask(client, "incidents_by_day"):
        assert len(ask(client, "incidents", **{"from": row["day"], "to": row["day"]})) == row["incidents"]


def test_reasons_add_up_to_the_list(scattered: tuple[TestClient, list[Incident]]) -> None:
    client, incidents = scattered
    expected = {
        reason: (
            sum(one.reason == reason for one in incidents),
            sum(one.reason == reason and one.state != "resolved" for one in incidents),
            sum(one.reason == reason and one.is_confirmed for one in incidents),
            sum(one.gpu_hours_lost or 0 for one in incidents if one.reason == reason),
        )
        for reason in {one.reason for one in incidents}
    }
    rows = ask(client, "incidents_by_reason")
    assert {
        row["reason"]: (row["incidents"], row["standing"], row["confirmed"], row["lost_gpu_hours"]) for row in rows
    } == expected


def test_an_incident_tells_its_history_and_what_it_was_made_of(
    scattered: tuple[TestClient, list[Incident]], scattered_lake: Lake
) -> None:
    client, incidents = scattered
    for one in incidents[:10]:
        events = [row for row in scattered_lake.journal("incident_events") if row["incident_id"] == one.incident_id]
        shown = ask(client, "incident_history", incident=one.incident_id)
        assert [(row["event"], row["changed_by"]) for row in shown] == [
            (event["event"], event["changed_by"]) for event in events
        ]
        (seen,) = ask(client, "incident_sightings", incident=one.incident_id)
        assert (seen["headline"], seen["kind"]) == (HOSTILE, one.reason)
        (facts,) = ask(client, "incident", incident=one.incident_id)
        assert (facts["state"], facts["subject"], facts["note"]) == (one.state, one.subject, one.note)


def test_cases_are_similar_that_share_a_reason_a_subject_a_machine_or_a_job(
    scattered: tuple[TestClient, list[Incident]],
) -> None:
    client, incidents = scattered
    for selected in incidents[:10]:
        expected = {
            one.incident_id
            for one in incidents
            if one.incident_id != selected.incident_id
            and (
                one.reason == selected.reason
                or one.subject == selected.subject
                or (one.node is not None and one.node == selected.node)
                or (one.job_id is not None and one.job_id == selected.job_id)
            )
        }
        assert {
            row["incident_id"] for row in ask(client, "incident_similar", incident=selected.incident_id)
        } == expected


@pytest.mark.slow
def test_what_a_diagnosis_recalled_comes_first(lake: Lake) -> None:
    incidents = scatter(lake, seed=5, count=12)
    selected, recalled = incidents[0].incident_id, incidents[7].incident_id
    result = [{"incident_id": recalled, "score": 0.9, "reason": "x", "cause": "y", "is_confirmed": False}]
    rows = [
        {"diagnosis_id": "d1", "incident_id": selected, "diagnosed_at": FIRST, "similar": []},
        {"diagnosis_id": "d2", "incident_id": selected, "diagnosed_at": FIRST + timedelta(hours=1), "similar": result},
    ]
    lake.append("diagnoses", rows)
    first = ask(TestClient(application(lake)), "incident_similar", incident=selected)[0]
    assert (first["incident_id"], first["similarity"]) == (recalled, 0.9)
    assert first["alike_by"].startswith("its text")


@pytest.mark.slow
def test_what_only_a_log_says_is_shown_as_a_claim_and_leads_nowhere(lake: Lake) -> None:
    claims: dict[str, Any] = {"claimed_job_id": "777", "claimed_node": "gpu09"}
    lake.append("incident_events", [Incident("f-1", FIRST, "opened", "gpulake", opened_at=FIRST, **claims).row()])
    page = TestClient(application(lake)).get("/panels/incident/facts?incident=f-1").text
    assert "<dt>Claimed job</dt><dd>777, as only the log says</dd>" in page
    assert "<dt>Claimed node</dt><dd>gpu09, as only the log says</dd>" in page


@pytest.mark.slow
def test_nothing_from_the_data_is_markup_or_a_formula(scattered: tuple[TestClient, list[Incident]]) -> None:
    client, incidents = scattered
    paths = [f"/panels/incidents/{panel.name}" for panel in pages()["incidents"].panels]
    paths += [
        f"/panels/incident/{panel.name}?incident={one.incident_id}"
        for one in incidents[:8]
        for panel in pages()["incident"].panels
    ]
    for path in (*paths, "/rows/incidents", f"/incidents?kind={HOSTILE}", f"/incident?incident={HOSTILE}"):
        text = client.get(path).text
        assert HOSTILE not in text, path
        assert "<script>" not in text.replace('<script type="application/json" class="figure">', ""), path
        assert not re.search(r'(href|src|data-action)="\s*javascript:', text, re.IGNORECASE)
    assert html.escape(HOSTILE) in client.get("/panels/incidents/incidents").text
    rows = list(csv.DictReader(io.StringIO(client.get("/api/v1/incidents.csv").text)))
    assert {row["cause"] for row in rows} == {HOSTILE, f"'{FORMULA}", "a fan"}


def test_the_subject_of_an_incident_leads_to_its_page(scattered: tuple[TestClient, list[Incident]]) -> None:
    client, _ = scattered
    links = {row["incident_id"]: row for row in ask(client, "incidents")}
    for row in links.values():
        query = {name: values[0] for name, values in parse_qs(urlsplit(row["link"] or "").query).items()}
        place = {"cluster": row["cluster_id"]} if row["cluster_id"] else {}
        if row["job_id"]:
            assert (urlsplit(row["link"]).path, query) == ("/job", {"job": row["job_id"], **place})
        elif row["node"]:
            assert (urlsplit(row["link"]).path, query) == ("/machine", {"machine": row["node"], **place})
        elif row["subject"] == "2026-03-04":
            assert row["link"] == "/jobs?from=2026-03-04&to=2026-03-04"
        else:
            assert row["link"] is None


@pytest.mark.slow
def test_the_strangest_days_come_first_and_lead_to_their_jobs(shared_lake: Config) -> None:
    lake = Lake(shared_lake)
    rows = ask(TestClient(application(lake)), "anomalous_days")
    scored = {str(row["dt"]): row for row in rows_of(lake, "SELECT * FROM gold_cluster_util_daily_scored")}
    assert {row["day"] for row in rows} == set(scored)
    key = [(not scored[r["day"]]["own_flag"], -float(str(scored[r["day"]]["own_score"] or 0))) for r in rows]
    assert key == sorted(key)
    ended = Counter(
        str(row["day"])
        for row in rows_of(
            lake,
            "SELECT timezone(time_zone, ended_at)::DATE AS day FROM silver_jobs JOIN silver_clusters USING (cluster_id)"
            " WHERE ended_at IS NOT NULL AND status IN ('succeeded', 'failed', 'cancelled', 'interrupted')",
        )
    )
    for row in rows:
        assert row["link"] == f"/jobs?from={row['day']}&to={row['day']}"
        assert row["ended_jobs"] in (ended[row["day"]], None if not ended[row["day"]] else -1)
        assert row["own_flag"] == scored[row["day"]]["own_flag"]


@pytest.mark.slow
def test_alerts_wait_until_they_are_sent(rich: Config) -> None:
    lake = Lake(rich)
    client = TestClient(application(lake))
    alerts = {row["alert_id"]: row for row in lake.journal("alert_events")}
    rows = ask(client, "alerts")
    assert {row["alert_id"]: row["state"] for row in rows} == {name: row["state"] for name, row in alerts.items()}
    (sink,) = ask(client, "alerts_by_sink")
    assert (sink["sink"], sink["waiting"], sink["sent"]) == ("ops", len(alerts), 0)
    incident = rows[0]["incident_id"]
    shown = ask(client, "incident_alerts", incident=incident)
    assert {row["alert_id"] for row in shown} == {n for n, row in alerts.items() if row["incident_id"] == incident}


@pytest.mark.slow
def test_windows_that_were_removed_are_not_shown(lake: Lake) -> None:
    clock = FrozenClock(NOW)
    kept = add_window(lake, clock, "eve", ends_at=NOW + timedelta(hours=2), note="<b>fans</b>")
    gone = add_window(lake, clock, "eve", ends_at=NOW + timedelta(hours=2))
    remove_window(lake, clock, gone.window_id, "eve")
    client = TestClient(application(lake))
    (row,) = ask(client, "maintenance_windows")
    assert (row["window_id"], row["note"]) == (kept.window_id, "<b>fans</b>")
    assert "<b>fans" not in client.get("/panels/incidents/windows").text


@pytest.mark.slow
def test_a_diagnosis_is_shown_with_the_lines_that_prove_it(rich: Config) -> None:
    lake = Lake(rich)
    client = TestClient(application(lake))
    diagnoses = lake.journal("diagnoses")
    for incident in {row["incident_id"] for row in diagnoses}:
        selected = [row for row in diagnoses if row["incident_id"] == incident]
        rows = ask(client, "incident_diagnoses", incident=incident)
        assert [row["diagnosis_id"] for row in rows] == [row["diagnosis_id"] for row in reversed(selected)]
        panel = client.get("/panels/incident/diagnosis", params={"incident": incident}).text
        for row in rows:
            for quote in row["evidence"]:
                assert html.escape(quote["text"]).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in panel


@pytest.mark.slow
@pytest.mark.parametrize("page", ["incidents", "incident", "quality"])
def test_an_empty_lake_says_what_to_do(page: str, tmp_path: Path) -> None:
    client = TestClient(application(Lake(Config(lake=tmp_path / "lake")).create()))
    status = 404 if page == "incident" else 200
    assert client.get(f"/{page}", params={"incident": "i-1"}).status_code == status
    for panel in pages()[page].panels:
        answer = client.get(f"/panels/{page}/{panel.name}", params={"incident": "i-1"})
        assert answer.status_code == 200, answer.text
        assert 'class="empty' in answer.text or panel.show == "tiles"


def test_an_incident_leads_to_the_days_around_it(scattered: tuple[TestClient, list[Incident]]) -> None:
    client, incidents = scattered
    for one in incidents[:10]:
        (facts,) = ask(client, "incident", incident=one.incident_id)
        query = parse_qs(urlsplit(facts["around_link"]).query)
        days = sorted(days_of(one))
        assert [date.fromisoformat(query[name][0]) for name in ("from", "to")] == [days[0], days[-1]]
