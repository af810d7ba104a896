"""Whatever a user or a group is called, it is text: in panels, figures, links and downloads."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.testclient import TestClient

from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.pages import pages
from hand_made import Attempt, write_trace

NAMES = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "'; drop table silver_jobs; --",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "a&b=c?d#e%20f+g",
    "long" * 60,
    "\u202egnp.exe",
    "javascript:alert(3)",
    "{x}{custom}{user}",
    "' onmouseover='alert(4)",
)
PANELS = [(page, panel.name) for page in ("explore", "efficiency", "user", "group") for panel in pages()[page].panels]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("hostile")
    attempts = []
    for number, name in enumerate(NAMES):
        begin, job = number % 4, f"job{number}{name}"
        attempts.append(Attempt(job, name, begin, begin + 20, gpus=1, used=0, group=name, workload=name))
        attempts.append(Attempt(f"lost{number}", name, begin, begin + 3, machine="t", gpus=0.5, status="failed"))
    config = Config(lake=folder / "lake", threads=1)
    Flow(config).refresh([write_trace(folder / "raw", attempts)], None)
    with TestClient(application(Lake(config))) as result:
        yield result


class Tags(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(text: str) -> Tags:
    result = Tags()
    result.feed(text)
    return result


def rows(client: TestClient, name: str, **given: str) -> list[dict[str, Any]]:
    response = client.get(f"/api/v1/{name}", params={"limit": "1000", **given})
    assert response.status_code == 200, response.text
    result: list[dict[str, Any]] = response.json()["rows"]
    return result


def test_the_lake_has_all_of_the_names(client: TestClient) -> None:
    assert {row["user_id"] for row in rows(client, "efficiency_by_user")} == set(NAMES)
    assert {row["group_id"] for row in rows(client, "efficiency_by_group")} >= set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_name_becomes_an_element_an_attribute_or_an_address(client: TestClient, name: str) -> None:
    for page in ("user", "group"):
        tags = read(client.get(f"/{page}", params={page: name}).text)
        assert "img" not in tags.tags
        assert name in "".join(tags.texts)
    for page, panel in PANELS:
        text = client.get(f"/panels/{page}/{panel}", params={"user": name, "group": name}).text
        tags = read(re.sub(r'<script type="application/json" class="figure">.*?</script>', "", text, flags=re.DOTALL))
        assert not tags.tags & {"img", "script", "iframe", "style"}, (page, panel)
        assert not [key for key, _ in tags.attributes if key.startswith("on")], (page, panel)
        hrefs = [value or "" for key, value in tags.attributes if key == "href"]
        assert [href for href in hrefs if not href.startswith("/") or href.startswith("//")] == []


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_finds_its_own_rows_and_no_others(client: TestClient, name: str) -> None:
    assert {row["user_id"] for row in rows(client, "efficiency_of_jobs", user=name, by="held")} == {name}
    assert {row["group_id"] for row in rows(client, "efficiency_of_jobs", group=name)} == {name}
    assert {row["workload"] for row in rows(client, "efficiency_of_jobs", workload=name)} == {name}
    held = {row["label"]: row["value"] for row in rows(client, "report_card", user=name)}["held"]
    assert held == pytest.approx(20 + 1.5)
    # And nothing was dropped.
    assert len(rows(client, "efficiency_by_user")) == len(NAMES)


def test_links_that_are_made_in_the_engine_lead_to_the_very_name(client: TestClient) -> None:
    for row in rows(client, "efficiency_by_workload"):
        if row["workload"] is not None:
            assert parse_qs(urlsplit(row["link"]).query)["workload"] == [row["workload"]]
            assert client.get(row["link"]).status_code == 200
    subjects = {row["subject"]: row["link"] for row in rows(client, "found") if row["kind"] == "idle_gpus"}
    assert subjects
    assert {parse_qs(urlsplit(link).query)["user"][0] for link in subjects.values()} == set(subjects)
    for name in NAMES:
        for row in rows(client, "waste_by_cause", user=name):
            assert parse_qs(urlsplit(row["link"]).query)["user"] == [name]
        for row in rows(client, "report_card", user=name)[:7]:
            assert parse_qs(urlsplit(row["link"]).query)["user"] == [name]


def test_labels_of_figures_are_escaped_and_what_a_click_sends_is_the_name_itself(client: TestClient) -> None:
    text = client.get("/panels/efficiency/holders").text
    (source,) = re.findall(r'<script type="application/json" class="figure">(.*?)</script>', text, re.DOTALL)
    assert "<" not in source
    figure = json.loads(source)
    labels = figure["layout"]["yaxis"]["ticktext"]
    assert len(labels) == len(NAMES)
    assert not [label for label in labels if "<" in label]
    assert max(map(len, labels)) < 100
    assert not [label for label in labels if "\u202e" in label]
    for trace in figure["data"]:
        assert set(trace["customdata"]) == set(NAMES)
        assert trace["text"] == labels


def test_a_click_target_cannot_be_steered_by_a_name(client: TestClient) -> None:
    for name in NAMES:
        tags = read(client.get("/panels/user/days", params={"user": name}).text)
        (target,) = (value for key, value in tags.attributes if key == "data-leads-to")
        assert target == f"/jobs?{urlencode({'user': name})}&from={{x}}&to={{x}}"


def test_spreadsheets_get_text_and_no_formula(client: TestClient) -> None:
    lines = list(csv.DictReader(io.StringIO(client.get("/api/v1/efficiency_by_user.csv").text)))
    assert {line["user_id"].removeprefix("'") for line in lines} == {name.removeprefix("'") for name in NAMES}
    assert not [line["user_id"] for line in lines if line["user_id"][:1] in ("=", "+", "-", "@", "\t", "\r")]
    for question in ("advice", "report_card"):
        response = client.get(f"/api/v1/{question}.csv", params={"user": "=cmd|' /C calc'!A0"})
        assert response.status_code == 200
        for line in csv.reader(io.StringIO(response.text)):
            assert not [cell for cell in line if cell[:1] in ("=", "@")]
