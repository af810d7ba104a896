"""Hostile text, in URLs and in the lake: it is shown as text, stays a value in SQL, and is no formula."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute

from examples import each
from gpulake.core.config import Config
from gpulake.show.web.guard import Guard
from gpulake.show.web.html import embedded
from gpulake.show.web.questions import questions
from hostile import FORMULA, HOSTILE, Page
from show.web.boards import Dashboard, dashboard
from show.web.lakes import HOSTILE_JOB, HOSTILE_MACHINE, HOSTILE_USER

TEXTS = list(HOSTILE.values())


@pytest.fixture(scope="module")
def board(rich: Config) -> Dashboard:
    return dashboard(rich)


def parameters(route: APIRoute) -> list[str]:
    described = (route.openapi_extra or {}).get("parameters", ())
    return [*(field.alias for field in route.dependant.query_params), *(one["name"] for one in described)]


def needed_by(route: APIRoute) -> list[str]:
    return [one["name"] for one in (route.openapi_extra or {}).get("parameters", ()) if one["required"]]


def asked_routes(board: Dashboard) -> list[APIRoute]:
    return [route for route in board.routes() if "GET" in (route.methods or ()) and "{" not in route.path]


def check(path: str, given: dict[str, str], response: Any) -> None:
    """No failure, and nothing of what was sent has become anything but text."""
    where = (path, {name: text[:40] for name, text in given.items()}, response.status_code, response.text[:300])
    assert response.status_code in (200, 307, 400, 404, 422), where
    kind = response.headers.get("content-type", "")
    if "text/html" in kind:
        assert Page(response.text).wrong == [], where
    elif "application/json" in kind:
        json.loads(response.text)
    elif "text/csv" in kind:
        for line in csv.reader(io.StringIO(response.text, newline="")):
            assert not [cell for cell in line if cell.startswith(FORMULA) and not is_number(cell)], where


def is_number(cell: str) -> bool:
    try:
        return bool(float(cell)) or True
    except ValueError:
        return False


@pytest.mark.slow
def test_a_page_takes_every_hostile_text_in_every_parameter(board: Dashboard) -> None:
    pages = [route for route in asked_routes(board) if route.path.count("/") == 1 and route.path not in ("/", "/login")]
    assert pages
    for route in pages:
        for text in TEXTS:
            # Some at a time: a client sends no longer address than 64 KiB.
            names = sorted(parameters(route))
            for some in (names[:8], names[8:]):
                given = {**dict.fromkeys(needed_by(route), text), **dict.fromkeys(some, text)}
                check(route.path, given, board.client.get(route.path, params=given))


@pytest.mark.parametrize("name", ["cluster", "user", "search"])
def test_a_null_character_stands_in_no_page(board: Dashboard, name: str) -> None:
    response = board.client.get("/jobs", params={name: "a\x00b"})
    assert (response.status_code, "a\ufffdb" in response.text) == (200, True)
    check("/jobs", {name: "a\x00b"}, response)


@pytest.mark.slow
def test_every_route_takes_hostile_text_in_each_parameter(board: Dashboard) -> None:
    """Texts take turns: each is sent to many routes, and each parameter of a route gets some of them."""
    turn = 0
    for route in asked_routes(board):
        names = parameters(route)
        for name in names:
            turn += 7  # shares no factor with the number of texts, so that all have their turn
            given = {**dict.fromkeys(names, ""), name: TEXTS[turn % len(TEXTS)]}
            given = {key: text for key, text in given.items() if text or key == name}
            check(route.path, given, board.client.get(route.path, params=given))


@pytest.fixture(scope="module")
def own(rich: Config) -> Dashboard:
    return dashboard(rich, Guard(tokens={"ann-has-this-token": "ann"}))


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_login_takes_hostile_text(own: Dashboard, name: str) -> None:
    form = own.client.get("/login", params={"next": HOSTILE[name]})
    check("/login", {}, form)
    for token in (HOSTILE[name], "ann-has-this-token"):
        entered = own.client.post("/login", data={"token": token, "next": HOSTILE[name]})
        assert entered.status_code in (303, 401, 413, 429)
        assert "evil" not in entered.headers.get("location", "")
        assert "set-cookie" not in entered.headers or "x=y" not in entered.headers["set-cookie"]


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_path_and_headers_take_hostile_text(board: Dashboard, name: str) -> None:
    text = HOSTILE[name]
    for prefix in ("/", "/api/v1/", "/panels/", "/rows/", "/static/x/"):
        check(prefix, {}, board.client.get(prefix + quote(text, safe="")))
    raw = text.encode("utf-8", "replace")
    if not set(raw) & {0, 10, 13}:
        for header in ("Authorization", "Cookie", "Host", "X-Forwarded-User", "Accept", "Origin"):
            check("/explore", {}, board.client.get("/explore", headers={header.encode(): raw}))


@pytest.mark.slow
def test_every_question_shows_hostile_names_of_the_lake_as_text(board: Dashboard) -> None:
    """In pages of rows and in downloads. That somebody of such a name is in the lake is made sure of."""
    options = {"user": HOSTILE_USER, "job": HOSTILE_JOB, "machine": HOSTILE_MACHINE, "cluster": "tiger"}
    with board.lake.reading() as reader:
        rows = reader.query("SELECT job_id FROM silver_jobs WHERE user_id = getvariable('u')", u=HOSTILE_USER)
        assert rows.to_pylist() == [{"job_id": HOSTILE_JOB}]
    for question in questions().values():
        selected = {option.name: options[option.name] for option in question.options if option.name in options}
        for given in ({}, selected):
            params = {**board.needed(question.options), **given}
            for path in (f"/rows/{question.name}", f"/api/v1/{question.name}", f"/api/v1/{question.name}.csv"):
                response = board.client.get(
                    path, params={**params, **({} if path.endswith(".csv") else {"limit": "1000"})}
                )
                assert response.status_code == 200, (path, response.text)
                check(path, params, response)


@each("name", list(HOSTILE))
def test_what_is_embedded_cannot_leave_its_element(name: str) -> None:
    text = embedded({HOSTILE[name]: [HOSTILE[name]]})
    assert not set(text) & {"<", "&"}
    assert json.loads(text) == {HOSTILE[name]: [HOSTILE[name]]}
