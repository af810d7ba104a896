"""Every page and panel of the dashboard, on a lake of everything, of empty tables and of none; what leads where."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from contracts.test_questions import bare, full, hollow  # noqa: F401 - fixtures
from gpulake.show.web.given import FILTERS
from gpulake.show.web.html import asked_of
from gpulake.show.web.pages import Page, pages
from gpulake.show.web.questions import questions
from hostile import Page as Parsed
from show.web.boards import Dashboard

NOBODY = re.compile("no (user|group|cluster) named")
MUST_EXIST = {page.name for page in pages().values() if page.must_exist}
BOARDS = ("full", "hollow", "bare")


@pytest.fixture(params=list(pages()))
def page(request: pytest.FixtureRequest) -> Page:
    return pages()[request.param]


@pytest.fixture(params=BOARDS)
def board(request: pytest.FixtureRequest) -> Dashboard:
    found: Dashboard = request.getfixturevalue(request.param)
    return found


def checked(board: Dashboard, path: str, given: dict[str, str]) -> str:
    response = board.client.get(path, params=given)
    # Of somebody who is not there a card is refused, with a word.
    is_nobody = response.status_code == 400 and bool(NOBODY.search(response.text)) and "x" in given.values()
    # A page about one thing that is not there says so, and has everything else of a page.
    is_unknown = response.status_code == 404 and path[1:] in MUST_EXIST and "x" in given.values()
    assert response.status_code == 200 or is_nobody or is_unknown, (path, given, response.text)
    parsed = Parsed(response.text)
    assert parsed.wrong == [], path
    known = {"/api/v1/openapi.json", *(route.path for route in board.routes())}
    for link in parsed.links - {"data:,"}:
        place = urlsplit(link).path
        assert not place or place in known or place.startswith("/static/"), (path, link)
    return response.text


@pytest.mark.slow
def test_it_is_shown_whole(board: Dashboard, page: Page) -> None:
    text = checked(board, f"/{page.name}", board.needed(page.options))
    assert "{{" not in text
    assert "{%" not in text
    for panel in page.panels:
        checked(board, f"/panels/{page.name}/{panel.name}", board.needed(page.options))


@pytest.mark.slow
def test_its_rows_can_be_looked_at(board: Dashboard, page: Page) -> None:
    for panel in page.panels:
        question = questions()[panel.question]
        given = {**board.needed((*page.options, *question.options)), **panel.given}
        checked(board, f"/rows/{question.name}", {k: str(v) for k, v in asked_of(question, given).items()})


def test_its_options_reach_a_question(page: Page) -> None:
    """What a page needs, one of its questions asks for; what a question needs, its page gives."""
    given = {option.name for option in (*FILTERS, *page.options)}
    taken = {option.name for panel in page.panels for option in questions()[panel.question].options}
    filters = {option.name for option in FILTERS}
    assert {option.name for option in page.options} <= taken | filters
    for panel in page.panels:
        needed = {option.name for option in questions()[panel.question].options if option.is_needed}
        assert needed <= given | set(panel.given), panel.name


def test_the_first_page_is_where_one_arrives(full: Dashboard) -> None:  # noqa: F811 - the fixture
    response = full.client.get("/")
    assert (response.status_code, response.headers["location"]) == (307, f"/{next(iter(pages()))}")


def test_nothing_of_a_page_comes_from_elsewhere(full: Dashboard) -> None:  # noqa: F811 - the fixture
    for page in pages().values():
        links = Parsed(full.client.get(f"/{page.name}", params=full.needed(page.options)).text).links
        assert not [link for link in links if urlsplit(link).netloc]
