"""What a study is made of: figures of curves, and measures of how far they are from the published ones."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from gpulake.core.packaged import packaged_toml


@dataclass(frozen=True)
class Curve:
    """A line, points, bars or boxes; a published one has the colour of ours."""

    label: str
    x: list[Any]
    y: list[float | None]
    hue: int = 0
    is_published: bool = False
    is_dotted: bool = False
    style: Literal["line", "step", "points", "bars", "boxes"] = "step"
    # The ends and the quartiles of each box, whose middle is y.
    box: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Measure:
    """One number of ours beside the published one. None: there is none."""

    name: str
    unit: str
    ours: float | None
    published: float | None = None
    distance: float | None = None
    distance_unit: Literal["KS", "points", "%", ""] = ""
    # What remains of the distance beyond the error with which the published number was read.
    beyond_error: float | None = None


@dataclass(frozen=True)
class Content:
    """What a figure shows."""

    curves: list[Curve]
    measures: list[Measure]
    x_title: str = ""
    y_title: str = ""
    is_log: bool = False
    x_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class About:
    """The description of a figure."""

    number: str  # as published, or a word of ours
    title: str
    note: str
    needs: tuple[str, ...]
    corrected: str = ""  # what the notebook does differently
    error: str = ""


@dataclass(frozen=True)
class Figure:
    about: About
    content: Content | None
    missing: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why nothing is drawn; empty: it is drawn."""
        if self.missing:
            tables = " and ".join(self.missing)
            return f"Not drawn: {tables} {'is' if len(self.missing) == 1 else 'are'} not in the lake."
        if self.content is None or not any(curve.x for curve in self.content.curves if not curve.is_published):
            return "Not drawn: the lake has no rows for it."
        return ""


@dataclass(frozen=True)
class Listing:
    """A table of the chapter about the trace itself."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Headline:
    headline: str
    detail: str


@dataclass(frozen=True)
class Chapter:
    title: str
    figures: list[Figure]


def _described(number: str) -> About:
    entries = packaged_toml("gpulake.show.pai", "figures.toml")
    needs, texts = tuple(entries[number]["needs"]), {**entries[number]}
    del texts["needs"]
    return About(number, needs=needs, **{name: text.format(**entries["words"]) for name, text in texts.items()})


Source = TypeVar("Source")
Make = Callable[[Source], Content]


class Figures(Generic[Source]):
    """The figures of a chapter, in the order in which they are defined, each made from the same source."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._figures: list[tuple[About, Make[Source]]] = []

    def add(self, number: str) -> Callable[[Make[Source]], Make[Source]]:
        """Its description is in figures.toml."""

        def keep(make: Make[Source]) -> Make[Source]:
            self._figures.append((_described(number), make))
            return make

        return keep

    def chapter(self, present: Collection[str], source: Source) -> Chapter:
        """A figure is made only if all tables that it needs are in the lake."""
        made = []
        for about, make in self._figures:
            missing = tuple(table for table in about.needs if table not in present)
            made.append(Figure(about, None if missing else make(source), missing))
        return Chapter(self._title, made)
