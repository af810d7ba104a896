"""What a page that stays open is told, and what it is spared."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from attack.serving import serving
from fastapi.testclient import TestClient

from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve
from gpulake.flow import Flow
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web import events
from gpulake.show.web.answers import Answer, Answers, Asked
from gpulake.show.web.guard import Guard
from gpulake.show.web.pages import pages
from gpulake.show.web.questions import questions
from gpulake.show.web.render_cache import RenderCache
from gpulake.show.web.viewers import LOCAL, Viewer
from gpulake.show.web.warming import Warming

PANEL = "/panels/explore/" + next(iter(pages()["explore"].panels)).name


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)


def _asked(url: str, path: str, **headers: str) -> tuple[HTTPConnection, HTTPResponse]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return connection, connection.getresponse()


def _tokens(response: HTTPResponse) -> Iterator[str]:
    while line := response.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])["token"]


@pytest.mark.usefixtures("impatient")
def test_listeners_get_the_state_and_each_change_at_once_and_uncompressed(built_lake: Config) -> None:
    with serving(built_lake) as url:
        connection, response = _asked(url, "/api/v1/events", Accept_Encoding="gzip")
        with closing(connection), response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            assert response.headers["Content-Encoding"] is None
            tokens = _tokens(response)
            first = next(tokens)
            Lake(built_lake).append("diagnoses", [{"diagnosis_id": "a"}])
            second = next(tokens)
            Flow(built_lake).build(is_forced=True)
            seen = {first, second}
            while len(seen) < 4:  # the steps of a build are journaled before its end
                seen.add(next(tokens))
            assert len(seen) == 4


@pytest.mark.usefixtures("impatient")
def test_a_quiet_lake_sends_heartbeats(built_lake: Config) -> None:
    with serving(built_lake) as url:
        connection, response = _asked(url, "/api/v1/events")
        with closing(connection), response:
            next(_tokens(response))
            assert [response.readline() for _ in range(5)] == [
                b"\n",
                b": still here\n",
                b"\n",
                b": still here\n",
                b"\n",
            ]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("settings", "status"), [(Serve(most_streams=1), 503), (Serve(most_streams_per_viewer=1), 429)]
)
def test_only_so_many_may_listen_and_who_leaves_makes_room(built_lake: Config, settings: Serve, status: int) -> None:
    with serving(built_lake, Guard(settings)) as url:
        first, listening = _asked(url, "/api/v1/events")
        next(_tokens(listening))
        second, refused = _asked(url, "/api/v1/events")
        assert (refused.status, refused.headers["Retry-After"]) == (status, "60")
        listening.close()
        first.close()
        second.close()
        for _ in range(200):
            connection, response = _asked(url, "/api/v1/events")
            with closing(connection), response:
                if response.status == 200:
                    break
        assert response.status == 200


@pytest.mark.slow
def test_one_viewer_cannot_hold_the_streams_of_all(built_lake: Config) -> None:
    tokens = {"ann-has-this-token": "ann", "bob-has-that-token": "bob"}
    with serving(built_lake, Guard(Serve(most_streams_per_viewer=2), tokens)) as url, ExitStack() as opened:
        result = []
        for token in [*tokens][:1] * 4 + [*tokens][1:]:
            connection, response = _asked(url, "/api/v1/events", Authorization=f"Bearer {token}")
            opened.callback(connection.close)
            result.append(response.status)
            if response.status == 200:
                next(_tokens(response))
        assert result == [200, 200, 429, 429, 200]


@pytest.mark.slow
def test_a_server_that_stops_does_not_wait_for_its_listeners(built_lake: Config) -> None:
    with serving(built_lake) as url:
        connection, response = _asked(url, "/api/v1/events")
        next(_tokens(response))
    assert response.read() == b"\n"
    connection.close()


@pytest.mark.slow
def test_a_panel_that_has_not_changed_is_not_sent_again(built_lake: Config) -> None:
    client = TestClient(application(Lake(built_lake)))
    first = client.get(PANEL)
    tag = first.headers["ETag"]
    again = client.get(PANEL, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert client.get(f"{PANEL}?from=2020-01-01", headers={"If-None-Match": tag}).status_code == 200
    Flow(built_lake).build(is_forced=True)
    other = client.get(PANEL, headers={"If-None-Match": tag})
    assert (other.status_code, other.headers["ETag"] != tag) == (200, True)


@pytest.mark.slow
def test_an_answer_of_the_api_has_a_tag_too_and_is_the_same_packed(built_lake: Config) -> None:
    client = TestClient(application(Lake(built_lake)))
    packed = client.get("/api/v1/ledger_by_day")
    plain = client.get("/api/v1/ledger_by_day", headers={"Accept-Encoding": "identity"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert packed.headers["ETag"] == plain.headers["ETag"]
    tag = {"If-None-Match": plain.headers["ETag"]}
    assert client.get("/api/v1/ledger_by_day", headers=tag).status_code == 304


def test_what_one_viewer_was_shown_is_not_what_another_gets() -> None:
    from starlette.requests import Request

    kept = RenderCache()
    request = Request({"type": "http", "path": "/x", "headers": [], "server": ("h", 1), "scheme": "http"})
    shown = [
        kept.respond(request, ("v1",), viewer, "text/html", lambda viewer=viewer: viewer.name)  # type: ignore[misc]
        for viewer in (Viewer("ann"), Viewer("bob"), Viewer("ann", groups=frozenset({"g"})), Viewer("ann", "operator"))
    ]
    assert [one.body for one in shown] == [b"ann", b"bob", b"ann", b"ann"]
    assert len({one.headers["ETag"] for one in shown}) == 4


def test_rendered_bodies_stay_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    from starlette.requests import Request

    from gpulake.show.web import render_cache as room

    monkeypatch.setattr(room, "MOST_CACHED_BYTES", 10_000)
    kept = RenderCache()
    path = {"type": "http", "path": "/x", "headers": [(b"accept-encoding", b"gzip")]}
    request = Request({**path, "server": ("h", 1), "scheme": "http"})
    for number in range(50):
        text = f"{number}" * 1500
        shown = kept.respond(request, (number,), LOCAL, "text/html", lambda text=text: text)  # type: ignore[misc]
        assert gzip.decompress(bytes(shown.body)).decode() == text
    assert kept._bytes == sum(body.weight for body in kept._bodies.values()) <= 10_000


def test_a_question_that_many_ask_at_once_is_asked_once(built_lake: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    answers = Answers(Lake(built_lake))
    asked = Asked(questions()["ledger_by_day"], {}, LOCAL)
    counted: list[str] = []
    before = Answers._ask

    def counting(self: Answers, one: Asked, unsorted: Answer | None) -> Answer:
        counted.append(one.question.name)
        return before(self, one, unsorted)

    monkeypatch.setattr(Answers, "_ask", counting)
    begun = Barrier(8)

    def ask(_: int) -> int:
        begun.wait()
        return answers.ask(asked).total

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert counted == ["ledger_by_day"]


@pytest.mark.slow
def test_after_a_build_pages_find_their_answers_ready(built_lake: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    app = application(Lake(built_lake))
    answers = Answers(Lake(built_lake))
    Warming(answers).begin()
    monkeypatch.setattr(Answers, "_ask", lambda *_: pytest.fail("asked again"))
    asked = 0
    for page in pages().values():
        if not any(option.is_needed for option in page.options):
            for panel in page.panels:
                given = {**dict.fromkeys(("from", "to", "cluster", "gpu_type")), **panel.given}
                answers.ask(Asked(questions()[panel.question], given, LOCAL, panel.limit))
                asked += 1
    assert asked > 0
    assert app.state.events.token == ""  # nobody watches a lake that is not served


@pytest.mark.slow
def test_an_empty_lake_has_a_state_too(tmp_path: Path) -> None:
    config = Config(lake=tmp_path / "lake", threads=1)
    Lake(config).create()
    with serving(config) as url:
        connection, response = _asked(url, "/api/v1/events")
        with closing(connection), response:
            assert len(next(_tokens(response))) == 16
