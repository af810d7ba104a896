"""What people come for, counted in clicks from the front page; and what a page costs: bytes, and how much it moves."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from attack.serving import serving
from playwright.sync_api import Browser, Page, expect

from gpulake.core.config import Config
from gpulake.core.incidents import Incident
from gpulake.flow.incidents import read_incident
from gpulake.lake import Lake
from gpulake.show.web.pages import pages
from show.web.browser import Seen, a_browser, a_tab, addresses
from show.web.journals import FIRST
from show.web.lakes import CLUSTER

pytestmark = pytest.mark.slow

FRONT = f"/explore?cluster={CLUSTER}"
MOST_BYTES = 500_000
MOST_SHIFT = 0.05
# After two seconds a page shows what it has, and what comes later moves: that would be the load of this machine.
SHIFTS = """window.setTimeout = ((later) => (act, ms) => (ms === 2000 ? 0 : later(act, ms)))(window.setTimeout);
window.shift = 0; new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) window.shift += one.value;
}).observe({type: 'layout-shift', buffered: true});"""
# What a person does counts, on every page that it leads to: clicks, choices in a list, and Enter.
COUNTED = "Number(sessionStorage.clicks ?? 0)"
CLICKS = f"""const count = () => sessionStorage.clicks = {COUNTED} + 1;
addEventListener('click', (event) => event.isTrusted && event.detail && count(), true);
addEventListener('change', count, true);
addEventListener('keydown', (event) => event.key === 'Enter' && count(), true);"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as result:
        yield result


@pytest.fixture(scope="module")
def url(rich: Config) -> Iterator[str]:
    with serving(rich) as address:
        yield address


@pytest.fixture(scope="module")
def places(rich: Config) -> dict[str, str]:
    return addresses(rich)


@pytest.fixture
def tab(browser: Browser, url: str) -> Iterator[Seen]:
    with a_tab(browser, url, permissions=["clipboard-read", "clipboard-write"]) as seen:
        seen.page.add_init_script(CLICKS)
        yield seen
        assert seen.faults == []


def given(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def clicks(page: Page) -> int:
    return int(page.evaluate(COUNTED))


def test_who_wastes_most_this_week_and_by_which_jobs_in_two_clicks(tab: Seen) -> None:
    page = tab.go(FRONT)
    page.get_by_role("link", name="7 days").click()
    page.wait_for_url("**range=7d*")
    tab.filled()
    first = page.locator("#users .leaders a").first
    user = str(first.get_attribute("title"))
    first.click()
    page.wait_for_url("**user=*")
    tab.filled()
    assert (given(page)["user"], given(page)["range"]) == (user, "7d")
    users = page.locator("#jobs tbody td:nth-child(2)").all_inner_texts()
    assert users
    assert set(users) == {user}
    assert clicks(page) == 2


def test_whether_it_got_worse_than_the_days_before_in_one_click(tab: Seen) -> None:
    page = tab.go("/explore?cluster=synth")
    assert page.locator(".measure .change").count() == 0
    page.get_by_role("link", name="7 days").click()
    page.wait_for_url("**range=7d*")
    tab.filled()
    expect(page.locator(".measure .change").first).to_contain_text("%")
    assert clicks(page) == 1


def test_why_a_day_is_abnormal_in_one_click_on_the_day(tab: Seen) -> None:
    page = tab.go("/explore?cluster=synth")
    sheet = page.locator(".measure .sheet").nth(1)
    sheet.scroll_into_view_if_needed()
    box = sheet.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    page.wait_for_url("**from=*")
    tab.filled()
    assert given(page)["from"] == given(page)["to"]
    expect(page.locator("#headline")).to_contain_text("held GPU-hours")
    expect(page.locator("#users .leaders li").first).to_be_visible()
    assert clicks(page) == 1


def test_a_brush_over_days_zooms_and_back_leads_out_again(tab: Seen) -> None:
    page = tab.go("/explore?cluster=synth")
    sheet = page.locator("#breakdown .sheet")
    sheet.scroll_into_view_if_needed()
    box = sheet.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_url("**from=*")
    assert given(page)["from"] < given(page)["to"]
    page.go_back()
    page.wait_for_url("**/explore?cluster=synth")


def test_which_machine_to_drain_in_two_clicks(tab: Seen) -> None:
    page = tab.go("/explore?cluster=synth")
    page.select_option("select[name=by]", "lost")
    page.wait_for_url("**by=lost*")
    tab.filled()
    page.locator("#machines .leaders a").first.click()
    page.wait_for_url("**/machine?*")
    tab.filled()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Machine")
    assert clicks(page) == 2


def test_why_a_job_died_with_the_search_and_no_mouse(tab: Seen) -> None:
    page = tab.go(FRONT)
    page.keyboard.press("/")
    page.keyboard.type("80")
    expect(page.locator("#found-list li").first).to_contain_text("80")
    page.keyboard.press("Enter")
    page.wait_for_url("**/job?job=80*")
    tab.filled()
    expect(page.locator("#diagnoses")).to_contain_text("What to do:")
    assert clicks(page) == 1


def test_escape_leaves_the_search_at_once(tab: Seen) -> None:
    page = tab.go(FRONT)
    page.keyboard.press("Control+k")
    page.keyboard.type("80")
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_be_hidden()


def test_a_view_is_sent_to_a_colleague_with_one_click(tab: Seen) -> None:
    page = tab.go(f"{FRONT}&range=7d")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert clicks(page) == 1


def test_clusters_are_side_by_side_where_all_are_chosen(tab: Seen) -> None:
    page = tab.go(FRONT)
    page.select_option("select[name=cluster]", "*")
    page.wait_for_url("**cluster=*")
    tab.filled()
    titles = page.locator("section[id^=measures-] h2").all_inner_texts()
    assert titles == ["Measures: synth", f"Measures: {CLUSTER}"]


def test_several_incidents_are_acknowledged_at_once_and_it_is_undone(browser: Browser, lake: Lake) -> None:
    opened = [Incident(name, FIRST, "opened", "gpulake", opened_at=FIRST, reason="x") for name in ("i-1", "i-2")]
    lake.append("incident_events", [one.row() for one in opened])
    with serving(lake.config) as selected, a_tab(browser, selected) as seen:
        page = seen.go("/incidents?state=open")
        rows = page.locator("#incidents tbody tr")
        expect(rows).to_have_count(2)
        page.get_by_role("checkbox", name="Select all").check()
        page.locator(".bulk").get_by_role("button", name="acknowledge").click()
        expect(rows).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(rows).to_have_count(2)
        assert seen.faults == []
    for one in opened:
        assert [event.state for event in read_incident(lake, one.incident_id).history] == [
            "open",
            "acknowledged",
            "open",
        ]


@pytest.mark.parametrize("name", list(pages()))
def test_a_cold_page_is_light_and_nothing_on_it_moves(
    name: str, browser: Browser, url: str, places: dict[str, str]
) -> None:
    with a_tab(browser, url) as seen:
        seen.page.add_init_script(SHIFTS)
        session = seen.page.context.new_cdp_session(seen.page)
        session.send("Network.enable")
        sizes: list[float] = []
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        page = seen.go(places[name])
        assert sum(sizes) < MOST_BYTES
        assert page.evaluate("window.shift") <= MOST_SHIFT
