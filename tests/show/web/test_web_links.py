"""Every link of every page leads somewhere: nothing is missing, nothing is broken, filters go along."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from fastapi.testclient import TestClient

from gpulake.show.web.given import FILTERS
from gpulake.show.web.pages import pages

HREF = re.compile(r'(?:href|data-source)="([^"#][^"]*)"')
MOST_STEPS = 3
MOST_ALIKE = 1  # of links with the same path and the same names in their query: one row of a table stands for all


def links(text: str, base: str) -> list[str]:
    """Addresses of our own that a page names, as a browser would ask for them."""
    result = (urljoin(base, html.unescape(link)) for link in HREF.findall(text))
    return [link for link in result if link.startswith("/") and not link.startswith("/static/")]


def shape(link: str) -> tuple[str, tuple[str, ...]]:
    parts = urlsplit(link)
    return parts.path, tuple(sorted(name for name, _ in parse_qsl(parts.query, keep_blank_values=True)))


def crawled(client: TestClient, begins: list[str]) -> tuple[dict[str, int], dict[str, str]]:
    """What each address answered, and the page on which it was found."""
    answered: dict[str, int] = {}
    found_on = dict.fromkeys(begins, "the address bar")
    alike: dict[tuple[str, tuple[str, ...]], int] = {}
    waiting = begins
    for _ in range(MOST_STEPS):
        following: list[str] = []
        for link in waiting:
            answer = client.get(link)
            answered[link] = answer.status_code
            if "html" not in answer.headers["content-type"]:
                continue
            for new in links(answer.text, link):
                seen = alike.get(shape(new), 0)
                if new not in found_on and seen < MOST_ALIKE:
                    alike[shape(new)] = seen + 1
                    found_on[new] = link
                    following.append(new)
        waiting = following
    return answered, found_on


@pytest.mark.slow
def test_every_link_leads_somewhere(client: TestClient) -> None:
    begins = [f"/{page.name}" for page in pages().values() if page.is_listed]
    answered, found_on = crawled(client, begins)
    assert {link: (status, found_on[link]) for link, status in answered.items() if status >= 400} == {}
    assert {urlsplit(link).path[1:] for link in answered} >= set(pages())


def test_every_link_of_the_navigation_keeps_the_filters(client: TestClient) -> None:
    given = {"from": "2026-03-01", "to": "2026-03-01", "cluster": "tiger", "gpu_type": "H100"}
    text = client.get("/explore", params=given).text
    navigation = text[text.index("<nav") : text.index("</nav>")]
    kept = {urlsplit(link).path: dict(parse_qsl(urlsplit(link).query)) for link in links(navigation, "/explore")}
    assert kept == {f"/{page.name}": given for page in pages().values() if page.is_listed} | {"/admin": {}}


def test_each_filter_that_is_set_can_be_taken_away(client: TestClient) -> None:
    given = {"from": "2026-03-01", "to": "2026-03-01", "cluster": "tiger"}
    text = client.get("/explore", params=given).text
    chosen = text[text.index('<p class="chosen"') :].partition("</p>")[0]
    left = [dict(parse_qsl(urlsplit(link).query)) for link in links(chosen, "/explore")]
    assert left == [{name: value for name, value in given.items() if name != gone} for gone in given] + [{}]
    assert '<p class="chosen"' not in client.get("/explore").text


@pytest.mark.slow
def test_no_link_of_a_panel_drops_the_filters_that_its_page_was_given(client: TestClient) -> None:
    """Rows and downloads behind a panel are those that it shows."""
    given = {"cluster": "tiger"}
    for page in pages().values():
        if not page.is_listed:
            continue
        for panel in page.panels:
            text = client.get(f"/panels/{page.name}/{panel.name}", params=given).text
            behind = text.partition('<p class="behind">')[2]
            taken = {option.name for option in FILTERS}
            for link in links(behind, "/"):
                query = dict(parse_qsl(urlsplit(link).query))
                assert taken & set(query) <= {"cluster"}
                assert query.get("cluster", "tiger") == "tiger"
