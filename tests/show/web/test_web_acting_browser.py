"""Actions as people take them: with a click, in a browser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from attack.serving import serving

from gpulake.core.incidents import Incident
from gpulake.flow.incidents import read_incident
from gpulake.lake import Lake
from show.web.browser import a_browser, a_tab
from show.web.journals import FIRST, HOSTILE

pytestmark = pytest.mark.slow


def test_an_operator_mutes_unmutes_and_resolves_with_clicks(lake: Lake) -> None:
    opened = Incident("i-1", FIRST, "opened", "gpulake", opened_at=FIRST, subject=HOSTILE, cause=HOSTILE, reason="x")
    lake.append("incident_events", [opened.row()])
    until = (datetime.now(UTC) + timedelta(days=2)).replace(second=0, microsecond=0)
    with serving(lake.config) as url, a_browser() as browser, a_tab(browser, url, timezone_id="Asia/Tokyo") as tab:
        page = tab.go("/incident?incident=i-1")
        form = page.locator("form.act[data-action$='/mute']")
        form.locator("[name=note]").fill(HOSTILE)
        form.locator("[name=until]").fill(f"{until + timedelta(hours=9):%Y-%m-%dT%H:%M}")  # as clocks in Tokyo show it
        form.locator("button").click()
        page.locator("#history").get_by_text("muted by local").wait_for()
        page.locator("form.act[data-action$='/unmute'] button").click()
        page.locator("#history").get_by_text("reopened by local").wait_for()
        tab.go("/incidents")
        page.locator("form.act[data-action$='/i-1/resolve'] button").click()
        page.locator("table.incidents .mark.resolved").wait_for()
        assert tab.faults == []
    history = read_incident(lake, "i-1").history
    assert [(one.state, one.note) for one in history] == [
        ("open", ""),
        ("muted", HOSTILE),
        ("open", ""),
        ("resolved", ""),
    ]
    assert history[1].muted_until == until


def test_what_is_refused_is_said_beside_the_button(lake: Lake) -> None:
    opened = Incident("i-1", FIRST, "opened", "gpulake", opened_at=FIRST, reason="x")
    lake.append("incident_events", [opened.row()])
    with serving(lake.config) as url, a_browser() as browser, a_tab(browser, url) as tab:
        page = tab.go("/incident?incident=i-1")
        with lake.alone("incidents"):
            page.locator("form.act[data-action$='/resolve'] button").click()
            page.locator("form.act[data-action$='/resolve'] output").get_by_text("wait until it is done").wait_for()
    assert len(read_incident(lake, "i-1").history) == 1
