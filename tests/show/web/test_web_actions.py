"""What people do to incidents from the dashboard: who may, what is written, what is refused."""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.incidents import Incident, State
from gpulake.core.serve_settings import Serve, ServeUser
from gpulake.flow.incidents import read_incident
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.actions import ALLOWED, MOST_NOTE
from gpulake.show.web.app import create_app
from gpulake.show.web.guard import Guard
from show.web.journals import FIRST, HOSTILE

NOW = FIRST + timedelta(days=30)
ANN, BOB, EVE = "ann-has-this-token", "bob-has-that-token", "eve-has-other-token"
USERS = {"ann": ServeUser("operator"), "bob": ServeUser("viewer"), "eve": ServeUser("operator", groups=("physics",))}
STATES: tuple[State, ...] = ("open", "acknowledged", "muted", "resolved")
LEADS_TO = {
    "acknowledge": "acknowledged",
    "mute": "muted",
    "unmute": "open",
    "resolve": "resolved",
    "reopen": "open",
    "assign": None,
    "comment": None,
    "confirm": None,
    "correct": None,
}
MORE = {"assign": {"to": "bob"}, "correct": {"reason": "DiskFull"}}
PAIRS = [(verb, state) for verb in LEADS_TO for state in STATES]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(Config(lake=tmp_path_factory.mktemp("acting") / "lake", threads=1)).create()


@pytest.fixture(scope="module")
def client(journal: Lake) -> TestClient:
    guard = Guard(Serve(users=USERS), {ANN: "ann", BOB: "bob", EVE: "eve"})
    return TestClient(application(journal, guard, FrozenClock(NOW)))


def incident(lake: Lake, state: State = "open", **values: Any) -> str:
    """One of this test's own."""
    name = f"i-{next(_numbers):04}"
    one = Incident(name, FIRST, "opened", "gpulake", state=state, opened_at=FIRST, job_id="80", **values)
    lake.append("incident_events", [one.row()])
    return name


def act(client: TestClient, name: str, verb: str, token: str = ANN, body: Any = None, **headers: str) -> Any:
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
    content = json.dumps({} if body is None else body)
    return client.post(f"/api/v1/incidents/{name}/{verb}", content=content, headers=sent)


@pytest.mark.parametrize(("verb", "state"), PAIRS)
def test_an_action_leads_where_the_commands_lead_and_is_refused_where_they_refuse(
    client: TestClient, journal: Lake, verb: str, state: State
) -> None:
    name = incident(journal, state, reason="DiskFull")
    leads_to = LEADS_TO[verb] or state
    answer = act(client, name, verb, body={"note": "the fan", **MORE.get(verb, {})})
    history = read_incident(journal, name).history
    if state in ALLOWED[verb]:
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert (shown["state"], shown["changed_by"], shown["note"]) == (leads_to, "ann", "the fan")
        assert datetime.fromisoformat(shown["changed_at"]) == NOW
        assert [(one.state, one.changed_by) for one in history] == [(state, "gpulake"), (leads_to, "ann")]
    else:
        assert answer.status_code == 409
        assert state in answer.json()["error"]
        assert answer.json()["hint"]
        assert len(history) == 1


def test_what_was_done_shows_at_once(client: TestClient, journal: Lake) -> None:
    name = incident(journal)
    headers = {"Authorization": f"Bearer {ANN}"}
    paths = [
        f"/panels/incident/facts?incident={name}",
        f"/panels/incident/history?incident={name}",
        f"/api/v1/incident?incident={name}",
    ]
    before = [client.get(path, headers=headers) for path in paths]
    assert act(client, name, "acknowledge", body={"note": HOSTILE, "is_held": True}).status_code == 200
    after = [
        client.get(path, headers={**headers, "If-None-Match": one.headers["etag"]})
        for path, one in zip(paths, before, strict=True)
    ]
    assert [answer.status_code for answer in after] == [200] * 3
    facts, history, row = after
    assert "acknowledged by ann" in history.text
    assert "held open" in history.text
    assert "it stays until a person resolves it" in facts.text
    assert row.json()["rows"][0]["state"] == "acknowledged"
    assert HOSTILE not in facts.text + history.text


def test_a_mute_ends_at_its_time(client: TestClient, journal: Lake) -> None:
    name, until = incident(journal), NOW + timedelta(hours=3)
    assert act(client, name, "mute", body={"until": until.isoformat()}).json()["muted_until"]
    assert read_incident(journal, name).incident.muted_until == until
    late = act(client, incident(journal), "mute", body={"until": FIRST.isoformat()})
    assert (late.status_code, late.json()["hint"]) == (400, "name a time to come")
    assert act(client, incident(journal), "mute", body={"until": "2026-05-01T10:00:00"}).status_code == 422


@pytest.mark.slow
def test_the_command_line_sees_what_the_dashboard_did(rich_copy: Config) -> None:
    lake = Lake(rich_copy)
    client = TestClient(application(lake, clock=FrozenClock(NOW)))
    alerts = lake.journal("alert_events")
    listed = client.get("/api/v1/incidents", params={"state": "open"}).json()["rows"]
    name = listed[0]["incident_id"]
    token = {"Authorization": ""}
    assert act(client, name, "acknowledge", body={"note": "on it"}, **token).json()["changed_by"] == "local"
    said = CliRunner().invoke(root, ["incidents", "list", "--lake", str(lake.root), "--json"])
    (row,) = [one for one in json.loads(said.stdout) if one["incident_id"] == name]
    assert (row["state"], row["changed_by"], row["note"]) == ("acknowledged", "local", "on it")
    assert lake.journal("alert_events") == alerts, "looking sends no alert"
    open_now = client.get("/api/v1/incident_counts").json()["rows"][0]
    assert (open_now["label"], open_now["value"]) == ("open", len(listed) - 1)


@pytest.mark.parametrize("verb", LEADS_TO)
def test_who_is_no_operator_may_look_and_not_act(client: TestClient, journal: Lake, verb: str) -> None:
    name = incident(journal, "muted")
    answer = act(client, name, verb, token=BOB)
    assert (answer.status_code, answer.json()["error"]) == (403, "bob may look, and not act")
    assert act(client, name, verb, token="nobody-has-this-one").status_code == 401
    assert len(read_incident(journal, name).history) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": ""}, 415),
    ],
    ids=str,
)
def test_what_another_site_forges_is_refused(
    client: TestClient, journal: Lake, headers: dict[str, str], status: int
) -> None:
    name = incident(journal)
    answer = act(client, name, "resolve", **headers)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "hint"}
    assert len(read_incident(journal, name).history) == 1


def test_a_request_of_the_dashboards_own_page_is_accepted(client: TestClient, journal: Lake) -> None:
    selected = {
        "Origin": "http://testserver",
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/json; charset=utf-8",
    }
    assert act(client, incident(journal), "resolve", **selected).status_code == 200


def test_an_incident_that_is_not_there_is_not_found(client: TestClient, journal: Lake) -> None:
    name = incident(journal)
    for wrong in ("i-none", name[:-1], "%3Cb%3E", "..%2F..%2Fx"):
        answer = act(client, wrong, "resolve")
        assert answer.status_code == 404, wrong
        assert answer.json()["hint"]
    assert len(read_incident(journal, name).history) == 1


def test_who_sees_some_groups_alone_acts_on_nothing_else(client: TestClient, journal: Lake) -> None:
    name = incident(journal)
    assert act(client, name, "resolve", token=EVE).status_code == 404
    assert len(read_incident(journal, name).history) == 1


def test_while_another_process_changes_incidents_an_action_has_to_wait(
    client: TestClient, journal: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulake.core.locks.MOST_WAIT_SECONDS", 0.0)
    name = incident(journal)
    with journal.alone("incidents"):
        answer = act(client, name, "resolve")
    assert answer.status_code == 503
    assert answer.json()["hint"] == "wait until it is done, or leave it to it"
    assert act(client, name, "resolve").status_code == 200


def test_buttons_are_there_for_operators_and_only_for_what_may_follow(client: TestClient, journal: Lake) -> None:
    for state in STATES:
        name = incident(journal, state)

        def verbs(token: str, path: str, name: str = name) -> set[str]:
            text = client.get(path, headers={"Authorization": f"Bearer {token}"}).text
            return {verb for verb in LEADS_TO if f"/api/v1/incidents/{name}/{verb}" in text}

        expected = {verb for verb in LEADS_TO if state in ALLOWED[verb]}
        listed = f"/panels/incidents/incidents?state={state}&limit=1000"
        for path, needs_text in (
            (f"/panels/incident/facts?incident={name}", set()),
            (listed, {"assign", "comment", "confirm", "correct"}),
        ):
            assert verbs(ANN, path) == expected - needs_text
            assert verbs(BOB, path) == set()


@pytest.mark.slow
def test_a_lake_that_cannot_be_written_has_no_buttons(journal: Lake) -> None:
    name = incident(journal)
    client = TestClient(create_app(journal))
    answer = act(client, name, "resolve", Authorization="")
    assert (answer.status_code, answer.json()["error"]) == (403, "the lake is read-only here")
    assert "form" not in client.get(f"/panels/incident/facts?incident={name}").text


@pytest.mark.slow
@settings(max_examples=cases(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(note=st.text(max_size=50))
@example(note="\x00\x1b[31m\n\u2028")
def test_no_note_can_make_an_event_unreadable(client: TestClient, journal: Lake, note: str) -> None:
    name = incident(journal)
    answer = act(client, name, "acknowledge", body={"note": note})
    assert answer.status_code == 200, answer.text
    headers = {"Authorization": f"Bearer {ANN}"}
    (row,) = client.get("/api/v1/incident", params={"incident": name}, headers=headers).json()["rows"]
    assert (row["state"], row["note"]) == ("acknowledged", read_incident(journal, name).incident.note)


@pytest.mark.parametrize(
    "body",
    [
        [],
        "x",
        {"note": 1},
        {"note": "half a character: \ud800"},
        {"until": 5},
        {"other": 1},
        {"note": "x" * (MOST_NOTE + 1)},
    ],
)
def test_a_body_that_makes_no_sense_changes_nothing(client: TestClient, journal: Lake, body: Any) -> None:
    name = incident(journal)
    assert act(client, name, "resolve", body=body).status_code == 422
    assert len(read_incident(journal, name).history) == 1


@pytest.mark.slow
def test_actions_are_in_the_document_of_the_api(client: TestClient) -> None:
    paths = client.get("/api/v1/openapi.json", headers={"Authorization": f"Bearer {ANN}"}).json()["paths"]
    shown = {path: set(verbs) for path, verbs in paths.items() if path.startswith("/api/v1/incidents/{")}
    assert shown == {f"/api/v1/incidents/{{incident_id}}/{verb}": {"post"} for verb in LEADS_TO}
    assert {"404", "409", "415", "503"} <= set(paths["/api/v1/incidents/{incident_id}/mute"]["post"]["responses"])
