"""What people do with the dashboard: look closer, narrow, take away, act, log in, and leave it open."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from attack.serving import serving
from playwright.sync_api import Browser, expect

from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve, ServeUser
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.flow import Flow
from gpulake.show.web import events
from gpulake.show.web.guard import Guard
from gpulake.show.web.pages import pages
from show.web.browser import Seen, a_browser, a_tab
from show.web.lakes import CLUSTER, NOW, OTHER_LOG

pytestmark = pytest.mark.slow

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as result:
        yield result


@pytest.fixture(scope="module")
def url(rich: Config) -> Iterator[str]:
    with serving(rich) as address:
        yield address


@pytest.fixture
def tab(browser: Browser, url: str) -> Iterator[Seen]:
    with a_tab(browser, url) as seen:
        yield seen
        assert seen.faults == []


def test_a_click_on_a_point_leads_to_what_is_behind_it(tab: Seen) -> None:
    page = tab.go("/explore?cluster=synth")
    page.locator("#ledger .plot .sheet").scroll_into_view_if_needed()
    box = page.locator("#ledger .plot .sheet").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2)
    expect(page.locator("#ledger .tip")).to_contain_text("used: ")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/explore?*from=*")
    given = dict(part.split("=") for part in urlsplit(page.url).query.split("&"))
    assert (given["from"], given["cluster"]) == (given["to"], "synth")
    tab.filled()
    assert given["from"] in page.locator(".chosen").inner_text()


def test_filters_are_in_the_address_which_shows_the_same_to_another(tab: Seen, browser: Browser, url: str) -> None:
    page = tab.go("/jobs")
    before = page.locator("#results").inner_text()
    assert page.locator("select[name=cluster]").input_value() == CLUSTER
    page.select_option("select[name=cluster]", "synth")
    page.wait_for_url("**cluster=synth*")
    tab.filled()
    shown = page.locator("#results").inner_text()
    assert shown != before
    assert page.locator("select[name=cluster]").input_value() == "synth"
    with a_tab(browser, url) as other:
        assert other.go(page.url.removeprefix(url)).locator("#results").inner_text() == shown
    page.get_by_role("link", name="Queue").click()
    assert "cluster=synth" in page.url


def test_what_is_shown_can_be_downloaded_as_csv_and_parquet(tab: Seen, tmp_path: Path) -> None:
    page = tab.go("/explore")
    saved = {}
    for kind in ("CSV", "Parquet"):
        with page.expect_download() as coming:
            page.locator("#ledger .behind").get_by_role("link", name=kind).click()
        saved[kind] = tmp_path / coming.value.suggested_filename
        coming.value.save_as(saved[kind])
    with saved["CSV"].open(newline="") as text:
        rows = list(csv.DictReader(text))
    table = pq.read_table(saved["Parquet"])
    assert saved["Parquet"].name == "ledger.parquet"
    assert [row["day"] for row in rows] == [str(day) for day in table["day"].to_pylist()]
    assert f"{len(rows)} row" in page.locator("#ledger .behind").inner_text()


def test_a_phone_shows_two_measures_side_by_side(browser: Browser, url: str) -> None:
    with a_tab(browser, url, width=390, height=800) as seen:
        page = seen.go("/explore?cluster=synth")
        boxes = [page.locator(".measure").nth(place).bounding_box() for place in range(3)]
        assert [box and box["y"] == boxes[0]["y"] for box in boxes if boxes[0]] == [True, True, False]


def test_the_reason_of_an_incident_is_corrected_to_one_that_is_offered(browser: Browser, rich_copy: Config) -> None:
    with serving(rich_copy) as selected, a_tab(browser, selected) as seen:
        seen.go("/incidents?kind=failure").locator("td.what a").first.click()
        seen.filled()
        form = seen.page.locator("form.act[data-action$='/correct']")
        offered = seen.page.locator("#reasons option").evaluate_all("many => many.map((one) => one.value)")
        assert "DiskFull" in offered
        form.get_by_label("Reason").fill("DiskFull")
        form.get_by_role("button").click()
        expect(seen.page.locator("#facts .headline")).to_contain_text("DiskFull")
        assert seen.faults == []


def test_the_theme_is_kept(tab: Seen) -> None:
    page = tab.go("/explore")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark or light").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    tab.filled()
    assert page.evaluate(ground) == dark


def test_plots_turn_dark_with_the_system(browser: Browser, url: str) -> None:
    with a_tab(browser, url) as tab:
        page = tab.go("/explore")
        ticks = page.locator("#ledger .ytick text").first
        expect(ticks).to_have_css("fill", "rgb(88, 101, 118)")
        page.emulate_media(color_scheme="dark")
        expect(ticks).to_have_css("fill", "rgb(157, 171, 187)")


def test_the_keyboard_reaches_everything_in_order(tab: Seen) -> None:
    page = tab.go("/jobs")
    here = """() => { const at = document.activeElement;
        return at.closest('.skip') ? 'skip' : at.closest('nav') ? 'navigation' : at.closest('.filters') ? 'filters'
             : at.matches('.scroll') ? 'table' : at.closest('.scroll') ? 'link in a table' : 'other'; }"""
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(here))
        if reached[-1] == "link in a table":
            break
    order = [place for place in dict.fromkeys(reached) if place != "other"]
    assert order == ["skip", "navigation", "filters", "table", "link in a table"]
    page.keyboard.press("Enter")
    page.wait_for_url("**/*?*")
    assert urlsplit(page.url).path.split("/")[1] in (*pages(), "rows")


@pytest.mark.usefixtures("impatient")
def test_a_failure_shows_on_an_open_page_when_it_is_diagnosed(
    browser: Browser, rich_copy: Config, tmp_path: Path
) -> None:
    (tmp_path / "new.log").write_text(OTHER_LOG)
    with serving(rich_copy) as url, a_tab(browser, url) as seen:
        page = seen.go("/incidents")
        expect(page.locator("#live")).to_have_text("live")
        page.evaluate("window.isTheSamePage = true")
        expect(page.locator("#incidents")).not_to_contain_text("new.log")
        request = DiagnosisRequest(tmp_path / "new.log", job_id="81", cluster_id=CLUSTER)
        Flow(rich_copy, FrozenClock(NOW)).diagnose(request)
        expect(page.locator("#incidents")).to_contain_text("new.log", timeout=60_000)
        assert page.evaluate("window.isTheSamePage")
        assert seen.faults == []


@pytest.mark.usefixtures("impatient")
def test_an_open_page_says_when_it_is_cut_off_and_when_it_is_back(browser: Browser, url: str) -> None:
    with a_tab(browser, url) as seen:
        page = seen.go("/explore")
        expect(page.locator("#live")).to_have_text("live")
        page.evaluate("live.live.source.dispatchEvent(new Event('error'))")
        expect(page.locator("#live")).to_have_text("not live: trying again")
        assert page.evaluate("live.live.poll") != 0
        # A new start, as the browser itself makes one.
        page.evaluate("() => { live.pause(); live.listen(); }")
        expect(page.locator("#live")).to_have_text("live")
        assert page.evaluate("live.live.poll") == 0


@pytest.mark.usefixtures("impatient")
def test_a_hidden_page_does_not_listen(browser: Browser, rich: Config) -> None:
    with serving(rich) as selected, a_tab(browser, selected) as seen:
        page = seen.go("/explore")
        expect(page.locator("#live")).to_have_text("live")
        hide = "() => { Object.defineProperty(document, 'hidden', {get: () => %s, configurable: true});"
        hide += " document.dispatchEvent(new Event('visibilitychange')); }"
        page.evaluate(hide % "true")
        assert page.evaluate("live.live.source") is None
        _wait_for_listeners(selected, 0)
        page.evaluate(hide % "false")
        _wait_for_listeners(selected, 1)


@pytest.mark.skipif("incidents" not in pages(), reason="there is no page of incidents")
def test_an_operator_acknowledges_an_incident_from_the_page(browser: Browser, rich_copy: Config) -> None:
    with serving(rich_copy) as selected, a_tab(browser, selected) as seen:
        page = seen.go("/incidents?state=open")
        rows = page.locator("#incidents tbody tr")
        before = rows.count()
        assert before > 0
        page.locator("#incidents").get_by_role("button", name="acknowledge").first.click()
        expect(rows).to_have_count(before - 1)
        assert seen.faults == []


def test_who_is_not_logged_in_is_asked_to_and_then_led_on(browser: Browser, rich: Config) -> None:
    settings = Serve(users={"ann": ServeUser()})
    guard = Guard(settings, {TOKEN: "ann"})
    with serving(replace(rich, serve=settings), guard) as selected, a_tab(browser, selected) as seen:
        page = seen.page
        page.goto(f"{selected}/jobs?cluster={CLUSTER}")
        assert urlsplit(page.url).path == "/login"
        page.get_by_label("Token").fill("not the token")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"**/jobs?cluster={CLUSTER}")
        seen.filled()
        expect(page.locator("#live")).to_have_text("live")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.2)


def _wait_for_listeners(url: str, count: int) -> None:
    for _ in range(200):
        connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        if f"\ngpulake_serve_listeners {count}\n" in text:
            return
    raise AssertionError(f"there are not {count} listeners")
