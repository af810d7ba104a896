"""Pages: a TOML file each. A page is panels; a panel shows a question."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from gpulake.show.web.questions import Option, questions
from gpulake.show.web.questions.options import OPTIONS

Row = dict[str, Any]
Figure = dict[str, Any]
Draw = Callable[..., Figure]  # of rows, and of the values that `drawn_by` names
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
    draw: Draw | None = None  # in the file: its name in figures/, such as queue.demand
    drawn_by: tuple[str, ...] = ()  # parameters of the page that `draw` takes
    given: Mapping[str, str] = field(default_factory=dict)  # values that this panel fixes
    columns: tuple[str, ...] = ()  # of a table, in this order; empty: all
    limit: int = 20  # of a figure MOST_DRAWN; may be more than a URL can ask for
    is_wide: bool = False
    is_small: bool = False  # several of them share a row
    # Where a click on a point leads: {x}, {y}, {name} and {custom} are those of the point, {custom0} the first of a
    # list, {day} the day of x, other names are parameters of the page. The filters of the page are added.
    leads_to: str = ""
    empty: str = ""  # what to do when there are no rows; otherwise that of the page
    is_explained: bool = (
        False  # its template gets `explained`: the series behind an incident, and the jobs of that time
    )
    height: float = 0  # in rem, reserved until its content is there; 0: by what it shows

    @property
    def kind(self) -> str:
        """A class of style sheets."""
        return f"of-{self.show.removesuffix('.html')}"


@dataclass(frozen=True)
class Page:
    name: str  # its URL is /name
    title: str
    panels: tuple[Panel, ...]
    lead: str = ""  # a sentence below the title
    empty: str = "Nothing here for these filters."  # of panels without rows
    options: tuple[Option, ...] = ()  # in its URL; passed to those of its questions that take them
    must_exist: bool = False  # 404 if its first panel has no rows
    words: str = ""  # a column of its first panel that is its title, in place of the id
    place: int = 100  # in the navigation, from the left
    parent: str = ""  # the page of the navigation that it belongs to; empty: it is in the navigation itself

    @property
    def is_listed(self) -> bool:
        return not self.parent


@cache
def pages() -> Mapping[str, Page]:
    folder = [file for file in files(__name__).iterdir() if file.name.endswith(".toml")]
    texts = {file.name.removesuffix(".toml"): file.read_text(encoding="utf-8") for file in folder}
    entries = {name: tomllib.loads(text) for name, text in texts.items()}
    known = [_page(name, entries) for name in entries]
    return {page.name: page for page in sorted(known, key=lambda page: (page.place, page.name))}


def _page(name: str, entries: Mapping[str, Mapping[str, Any]]) -> Page:
    """A panel that is `like` another page has what its file leaves out from that page's panel of its name."""
    entry = dict(entries[name])
    panels = []
    for panel, given in entry.pop("panels").items():
        source = entries[given["like"]] if "like" in given else entry
        shown = {**source["panels"][panel], **given} if "like" in given else given
        panels.append(_panel(panel, shown, source.get("fill", {})))
    entry.pop("fill", None)
    options = tuple(OPTIONS[option] for option in entry.pop("options", ()))
    return Page(name, panels=tuple(panels), options=options, **entry)


def _panel(name: str, entry: Mapping[str, Any], words: Mapping[str, str]) -> Panel:
    """In `about` and `empty`, {name} is one of the page's `fill`."""
    fields = {key: value for key, value in entry.items() if key != "like"}
    fields |= {key: fields[key].format(**words) for key in ("about", "empty") if key in fields}
    if fields["question"] not in questions():
        raise AssertionError(f"no question named {fields['question']}")
    if "columns" in fields:
        fields["columns"] = tuple(fields["columns"])
    if "draw" in fields:
        module, _, function = fields["draw"].partition(".")
        figures = importlib.import_module(f"gpulake.show.web.figures.{module}")
        fields = {"show": "figure", "limit": MOST_DRAWN, **fields, "draw": getattr(figures, function)}
    return Panel(name, **fields)
