"""A browser: the dashboard as people see it."""

from __future__ import annotations

import html
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, sync_playwright

from gpulake.core.config import Config
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.pages import pages

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
MOST_MS = 60_000
# Pictures of what the tests look at are left here.
PICTURES = Path(os.environ["GPULAKE_SCREENSHOTS"]) if os.environ.get("GPULAKE_SCREENSHOTS") else None
PICTURED = Path(os.environ["GPULAKE_SCREENSHOT_LAKE"]) if os.environ.get("GPULAKE_SCREENSHOT_LAKE") else None
FILLED = "() => !document.querySelector('section[aria-busy=true]')"


@dataclass
class Seen:
    """A tab, and what went wrong in it."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        self.page.goto(self.url + path)
        self.filled()
        return self.page

    def filled(self) -> None:
        self.page.wait_for_function(FILLED)

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status} {response.url}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.faults.append(f"asked {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def watch(self) -> Seen:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("response", self._answered)
        self.page.on("request", self._asked)
        return self


@contextmanager
def a_browser() -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("no chromium or google-chrome on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def a_tab(browser: Browser, url: str, width: int = 1400, height: int = 1200, **options: Any) -> Iterator[Seen]:
    """A tab of its own: nothing that another left behind is seen in it."""
    with browser.new_context(viewport={"width": width, "height": height}, **options) as context:
        context.set_default_timeout(MOST_MS)
        yield Seen(context.new_page(), url).watch()


def addresses(config: Config) -> dict[str, str]:
    """Where each page is, found as people find them: those of the navigation, and what their links lead to."""
    client = TestClient(application(Lake(config)))
    result = {page.name: f"/{page.name}" for page in pages().values() if page.is_listed}
    looked: set[str] = set()
    while new := [name for name in result if name not in looked]:
        for name in new:
            looked.add(name)
            query = result[name].partition("?")[2]
            for panel in pages()[name].panels:
                text = client.get(f"/panels/{name}/{panel.name}?{query}").text
                for address in re.findall(r'href="(/[^"]+)"', text):
                    result.setdefault(address[1:].partition("?")[0], html.unescape(address))
            result = {name: address for name, address in result.items() if name in pages()}
    return result


def shot(page: Page, folder: Path | None, name: str) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png", full_page=True)
