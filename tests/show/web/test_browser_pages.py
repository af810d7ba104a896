"""Every page as a browser shows it: no errors, nobody else asked, nothing cut off, and readable by everybody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attack.serving import serving
from playwright.sync_api import Browser, Page

from gpulake.core.config import Config
from gpulake.lake import Lake
from gpulake.show.web.pages import pages
from show.web.browser import PICTURED, PICTURES, Seen, a_browser, a_tab, addresses, shot

pytestmark = pytest.mark.slow

PHONE = 390
SCREENS = (1440, 1920, 3840)
# How far the panels reach, of what the page is wide.
FILLED_SHARE = """() => Math.max(...[...document.querySelectorAll('section.panel')].map(
    (panel) => panel.getBoundingClientRect().right)) / window.innerWidth"""
# What a click or a key can act on, and the Tab key does not lead to.
OUT_OF_REACH = """() => [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, .scroll, .sheet')]
    .filter((one) => one.checkVisibility() && !one.disabled && one.type !== 'hidden')
    .filter((one) => one.tabIndex !== 0).map((one) => one.outerHTML.slice(0, 120))"""
# Each input by the words that say what it is for, or none.
UNNAMED = """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button')]
    .filter((field) => !(field.labels?.length || field.getAttribute('aria-label') || field.textContent.trim()))
    .map((field) => field.outerHTML)"""
UNNAMED_PLOTS = """() => [...document.querySelectorAll('.plot, img')]
    .filter((plot) => !(plot.getAttribute('aria-label') || plot.getAttribute('alt') || '').trim())
    .map((plot) => plot.outerHTML.slice(0, 200))"""
HEADINGS = "() => [...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => Number(heading.tagName[1]))"
REGIONS = "() => [...document.querySelectorAll('.scroll')].filter((one) => one.tabIndex !== 0).length"
UNDRAWN = "() => [...document.querySelectorAll('.plot')].filter((plot) => !plot.querySelector('svg')).length"
TOO_WIDE = "() => document.scrollingElement.scrollWidth - window.innerWidth"
ALERTS = "() => [...document.querySelectorAll('[role=alert]:not(output)')].map((one) => one.textContent)"
COLOURS = """() => Object.fromEntries(
    ['ink', 'soft', 'accent', 'bad', 'good', 'warn', 'page', 'card', 'shade', 'bar'].map(
    (name) => [name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()]))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as result:
        yield result


@pytest.fixture(scope="module")
def shown(request: pytest.FixtureRequest) -> Config:
    """The lake that scripts/screenshots was given, or that of the tests."""
    config: Config = Config(lake=PICTURED) if PICTURED else request.getfixturevalue("rich")
    return config


@pytest.fixture(scope="module")
def places(shown: Config) -> dict[str, str]:
    return addresses(shown)


@pytest.fixture(scope="module")
def tab(shown: Config, browser: Browser) -> Iterator[Seen]:
    with serving(shown) as url, a_tab(browser, url) as seen:
        yield seen


@pytest.fixture(scope="module")
def empty_tab(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Seen]:
    config = Config(lake=tmp_path_factory.mktemp("empty") / "lake", threads=1)
    Lake(config).create()
    with serving(config) as url, a_tab(browser, url) as seen:
        yield seen


def test_every_page_is_linked_from_another(places: dict[str, str]) -> None:
    assert set(places) == set(pages())


@pytest.mark.parametrize("name", list(pages()))
def test_a_page_is_whole_in_light_in_dark_and_on_a_phone(name: str, tab: Seen, places: dict[str, str]) -> None:
    if PICTURED and name not in places:
        pytest.skip("nothing in this lake leads to such a page")
    tab.faults.clear()
    page = tab.go(places[name])
    page.wait_for_function("() => ![...document.querySelectorAll('.plot')].some((plot) => !plot.querySelector('svg'))")
    result = {
        "faults": tab.faults,
        "alerts": page.evaluate(ALERTS),
        "unnamed": page.evaluate(UNNAMED),
        "unnamed plots": page.evaluate(UNNAMED_PLOTS),
        "tables out of reach": page.evaluate(REGIONS),
        "plots not drawn": page.evaluate(UNDRAWN),
        "out of the keyboard's reach": page.evaluate(OUT_OF_REACH),
    }
    assert result == dict(zip(result, ([], [], [], [], 0, 0, []), strict=True))
    assert _are_nested(page.evaluate(HEADINGS))
    try:
        for width in (PHONE, *SCREENS):
            page.set_viewport_size({"width": width, "height": 800 if width == PHONE else 1200})
            # Plots follow the width of their panels a moment later.
            page.wait_for_function("() => document.scrollingElement.scrollWidth <= window.innerWidth")
            assert page.evaluate(FILLED_SHARE) > 0.9
            _shots(page, f"{name}-{width}")
    finally:
        page.set_viewport_size({"width": 1400, "height": 1200})
    assert tab.faults == []


def _shots(page: Page, name: str) -> None:
    if PICTURES is None:
        return
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        shot(page, PICTURES, f"{name}-{theme}")
    page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("name", list(pages()))
def test_a_page_of_an_empty_lake_says_what_to_do(name: str, empty_tab: Seen) -> None:
    empty_tab.faults.clear()
    needed = [option.name for option in pages()[name].options if option.is_needed]
    page = empty_tab.go(f"/{name}?" + "&".join(f"{option}=none" for option in needed))
    # There is no incident of that name: the page says so, and answers 404.
    faults = [fault for fault in empty_tab.faults if name != "incident" or "404" not in fault]
    assert (faults, page.evaluate(ALERTS), page.evaluate(TOO_WIDE)) == ([], [], 0)
    panels = page.locator("section.panel[data-source^='/panels/']")
    assert panels.count() == len(pages()[name].panels)
    said = [" ".join(panels.nth(place).inner_text().split()) for place in range(panels.count())]
    assert [words for words in said if "loading" in words] == []
    if PICTURES is not None and not PICTURED:
        for width in (PHONE, *SCREENS):
            page.set_viewport_size({"width": width, "height": 800})
            _shots(page, f"empty-{name}-{width}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_what_they_stand_on(theme: str, tab: Seen) -> None:
    page = tab.go("/quality" if "quality" in pages() else "/explore")
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    colours = page.evaluate(COLOURS)
    page.evaluate("delete document.documentElement.dataset.theme")
    poor = {
        (ink, ground): round(ratio, 2)
        for ink in ("ink", "soft", "accent", "bad", "good", "warn")
        for ground in ("page", "card", "shade", "bar")
        if (ratio := _contrast(colours[ink], colours[ground])) < 4.5
    }
    assert poor == {}


def _are_nested(levels: list[int]) -> bool:
    """One title, and no level is left out on the way down."""
    steps = zip([0, *levels], levels, strict=False)
    return levels.count(1) == 1 and all(here <= before + 1 for before, here in steps)


def _contrast(one: str, other: str) -> float:
    """By the Web Content Accessibility Guidelines."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_is_that_of_the_guidelines() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)
    assert _contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
