"""Saved views, the wall, annotations, pictures and SQL, as people use them in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from attack.serving import serving
from playwright.sync_api import Browser, expect

from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve
from show.web.browser import Seen, a_browser, a_tab

pytestmark = pytest.mark.slow
TURN = """async () => (await import(document.querySelector('link[href$="wall.js"]').href)).turn(
    [{link: '/now'}, {link: '/explore?range=7d&by=idle'}], '/now?wall=yes')"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as result:
        yield result


@pytest.fixture
def tab(browser: Browser, rich_copy: Config) -> Iterator[Seen]:
    with serving(replace(rich_copy, serve=Serve(sql=True))) as url, a_tab(browser, url) as seen:
        yield seen
        assert seen.faults == []


def test_a_saved_view_is_listed_shown_on_a_wall_and_removed(tab: Seen) -> None:
    page = tab.go("/explore?cluster=synth&range=7d")
    page.get_by_role("button", name="Save view").click()
    page.get_by_label("Save this view as").fill("Waste of synth")
    page.locator("#save").get_by_role("button", name="save").click()
    expect(page.locator("#save")).to_be_hidden()
    page = tab.go("/views")
    page.get_by_role("link", name="Waste of synth").click()
    page.wait_for_url("**/explore?cluster=synth&range=7d")
    page = tab.go("/views")
    page.get_by_role("link", name="Show them in turn").click()
    page.wait_for_url("**wall=yes")
    tab.filled()
    expect(page.locator("header")).to_be_hidden()
    assert page.evaluate(TURN) == "/explore?range=7d&by=idle"
    page.keyboard.press("Escape")
    page.wait_for_url("**/explore?cluster=synth&range=7d")
    page = tab.go("/views")
    page.get_by_role("button", name="remove Waste of synth").click()
    expect(page.locator("#saved")).to_contain_text("None yet")


def test_an_annotation_is_drawn_on_charts_over_time(tab: Seen) -> None:
    page = tab.go("/explore?cluster=synth")
    assert page.locator(".annotation").count() == 0
    day = page.evaluate("async () => (await (await fetch('/api/v1/ledger_by_day?cluster=synth')).json()).rows[20].day")
    page = tab.go("/admin")
    form = page.locator("form[data-action$=annotations]")
    form.get_by_label("what").fill("driver 570")
    form.get_by_label("from").fill(f"{day}T12:00")
    form.get_by_role("button").click()
    expect(form.locator("output")).to_have_text("added")
    page = tab.go("/explore?cluster=synth")
    expect(page.locator("#breakdown .annotation title")).to_have_text("deployment: driver 570")


def test_a_panel_is_saved_as_a_picture(tab: Seen) -> None:
    page = tab.go("/explore?cluster=synth")
    with page.expect_download() as download:
        page.get_by_role("button", name="By day as PNG").click()
    assert download.value.suggested_filename == "By day.png"
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_a_query_is_a_table_a_chart_and_an_address(tab: Seen) -> None:
    page = tab.go("/sql?query=SELECT+dt,+sum(held_gpus)+AS+held+FROM+nothing")
    expect(page.get_by_role("status").last).to_contain_text("no table")
    tab.faults.clear()  # 400, as it must be
    page.get_by_label("Query").fill(
        "SELECT dt, sum(idle_gpu_hours) AS idle FROM gold_ledger_daily GROUP BY dt ORDER BY dt"
    )
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer th").last).to_have_text("idle")
    page.get_by_label("Show as").select_option("chart")
    expect(page.locator("#answer svg.sheet")).to_be_visible()
    page.reload()
    expect(page.locator("#answer svg.sheet")).to_be_visible()
