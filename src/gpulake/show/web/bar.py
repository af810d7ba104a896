"""The bar of every page: which days are shown and where else one could look; and the panels of a page, by cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from gpulake.show.web.answers import EVERY, RANGES
from gpulake.show.web.given import DAYS, as_query, filters_of
from gpulake.show.web.pages import Page, Panel
from gpulake.show.web.questions import Value, questions

MOST_MULTIPLES = 6  # clusters side by side
Given = Mapping[str, Value]


@dataclass(frozen=True)
class Bar:
    """Queries of links, each with the other values of the page."""

    ranges: tuple[tuple[str, str, bool], ...]  # words, query, whether it is the chosen one
    days: str  # that are shown, in words; empty: all
    earlier: str
    later: str
    wider: str


def bar_of(given: Given, settled: Given) -> Bar:
    rest = {name: value for name, value in given.items() if name not in DAYS}
    chosen = None if given.get("from") or given.get("to") else given.get("range")
    ranges = [
        (f"{days} day{'s' if days > 1 else ''}", as_query(rest, range=name), name == chosen)
        for name, days in RANGES.items()
    ]
    is_all = not any(given.get(name) for name in DAYS)
    ranges.append(("all", as_query(rest), is_all))
    begin, end = settled.get("from"), settled.get("to")
    if not begin or not end:
        return Bar(tuple(ranges), "" if is_all else f"from {begin}" if begin else f"until {end}", "", "", "")
    first, last = date.fromisoformat(str(begin)), date.fromisoformat(str(end))
    length = last - first + timedelta(days=1)

    def moved(before: timedelta, after: timedelta) -> str:
        try:
            return as_query(rest, **{"from": first + before, "to": last + after})
        except OverflowError:
            return ""

    half = max(length / 2, timedelta(days=1))
    half = timedelta(days=half.days)
    words = f"{first}" if first == last else f"{first} to {last}"
    return Bar(tuple(ranges), words, moved(-length, -length), moved(length, length), moved(-half, half))


@dataclass(frozen=True)
class Section:
    """A panel in its place on the page."""

    id: str
    panel: Panel
    title: str
    query: str


def sections(page: Page, given: Given, clusters: Sequence[str]) -> list[Section]:
    """Where all clusters are shown, what is drawn or counted by cluster is so for each of them, side by side."""
    plain = {**given, "cluster": None} if given.get("cluster") == EVERY else given
    result = []
    for panel in page.panels:
        names = {option.name for option in filters_of(questions()[panel.question])}
        if plain is given or "cluster" not in names or panel.show in ("table", "list"):
            result.append(Section(panel.name, panel, panel.title, as_query(plain)))
            continue
        result += [
            Section(f"{panel.name}-{place}", panel, f"{panel.title}: {cluster}", as_query(plain, cluster=cluster))
            for place, cluster in enumerate(clusters[:MOST_MULTIPLES])
        ]
    return result
