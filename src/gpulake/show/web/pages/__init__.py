"""Pages: one file each, with a tuple PAGES. A page is panels; a panel shows a question."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from gpulake.show.web.questions import Option, questions

Row = dict[str, Any]
Figure = dict[str, Any]
Draw = Callable[[Sequence[Row]], Figure]
Show = Literal["tiles", "table", "figure", "list"]
MOST_DRAWN = 20_000


@dataclass(frozen=True)
class Panel:
    """How one question is shown.

    tiles: each row a number, with columns `label`, `value` (already as text, or a number) and, if it has them, `unit`,
    `words` (in place of the value), `note`, `level` (good, bad, soft) and `link`. table: rows and columns.
    figure: `draw` makes a Plotly figure of rows. list: each row a sentence, with columns `headline` and, if it has
    them, `detail`, `level`, `link`, `at`.
    Or the name of a template in templates/panels/, which gets `answer`, `panel` and `given`.
    """

    name: str
    title: str
    question: str
    show: Show | str = "table"
    about: str = ""  # what the numbers are, with their units
    draw: Draw | None = None
    given: Mapping[str, str] = field(default_factory=dict)  # values that this panel fixes
    limit: int = 20  # may be more than a URL can ask for
    is_wide: bool = False
    # Where a click on a point leads: {x}, {y}, {name} and {custom} are those of the point, {custom0} the first of a
    # list, {day} the day of x, other names are parameters of the page. The filters of the page are added.
    leads_to: str = ""
    empty: str = ""  # what to do when there are no rows; otherwise that of the page


def plot(
    name: str, title: str, question: str, draw: Draw, leads_to: str = "", limit: int = MOST_DRAWN, **more: Any
) -> Panel:
    """A panel that draws all of its rows."""
    return Panel(name, title, question, "figure", draw=draw, leads_to=leads_to, limit=limit, **more)


@dataclass(frozen=True)
class Page:
    name: str  # its URL is /name
    title: str
    panels: tuple[Panel, ...]
    lead: str = ""  # a sentence below the title
    empty: str = "Nothing here for these filters."  # of panels without rows
    options: tuple[Option, ...] = ()  # in its URL; passed to those of its questions that take them
    is_listed: bool = True  # in the navigation
    place: int = 100  # in the navigation, from the left
    parent: str = ""  # the listed page that an unlisted one belongs to


@cache
def pages() -> Mapping[str, Page]:
    known: dict[str, Page] = {}
    for module in pkgutil.iter_modules(__path__):
        content = importlib.import_module(f"{__name__}.{module.name}")
        for page in content.PAGES:
            if page.name in known:
                raise AssertionError(f"two pages are named {page.name}")
            for panel in page.panels:
                if panel.question not in questions():
                    raise AssertionError(f"no question named {panel.question}")
            known[page.name] = page
    return dict(sorted(known.items(), key=lambda item: (item[1].place, item[0])))
