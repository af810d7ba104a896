"""The whole study of the PAI trace: findings first, then figures by chapter, then the trace itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpulake.core.types import DurationScore
from gpulake.lake import LakeReader
from gpulake.show.page import write_page
from gpulake.show.pai import load, machines, predictions, trace, usage, users, waits
from gpulake.show.pai.draw import drawn
from gpulake.show.pai.headlines import GENERATED, headlines
from gpulake.show.pai.parts import Chapter, Figure, Headline, Listing, Measure
from gpulake.show.pai.source import TASKS, Trace

Row = tuple[str, str, float | None, float | None, str, str]
COLUMNS = ("figure", "measure", "ours", "published", "distance", "beyond error")
MOST_MEASURES = 2  # of a figure in the short table: those furthest from the published ones


@dataclass(frozen=True)
class Study:
    is_generated: bool
    headlines: list[Headline]
    chapters: list[Chapter]
    listings: list[Listing]
    durations: list[DurationScore]
    build: dict[str, Any]

    @property
    def figures(self) -> list[Figure]:
        return [figure for chapter in self.chapters for figure in chapter.figures]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for machines."""
        return {
            "is_generated": self.is_generated,
            "headlines": [asdict(headline) for headline in self.headlines],
            "chapters": [
                {"title": chapter.title, "figures": [_figure(figure) for figure in chapter.figures]}
                for chapter in self.chapters
            ],
            "durations": [asdict(score) for score in self.durations],
            "trace": [asdict(listing) for listing in self.listings],
            "build": self.build,
        }


def opened(reader: LakeReader) -> Trace:
    """The trace in a lake; an error if the lake has nothing of it."""
    trace_ = Trace(reader)
    _ = trace_.present
    return trace_


def study(source: Trace, durations: Sequence[DurationScore]) -> Study:
    # One query serves all figures of the load; without tasks none is drawn.
    grids = load.hourly(source) if TASKS in source.present else {}
    chapters = [
        users.FIGURES.chapter(source.present, source),
        load.FIGURES.chapter(source.present, grids),
        waits.FIGURES.chapter(source.present, waits.Times(source)),
        usage.FIGURES.chapter(source.present, usage.Usage(source)),
        machines.FIGURES.chapter(source.present, source),
        predictions.FIGURES.chapter(source.present, durations),
    ]
    build = source.rows("build")[0]
    lines = [GENERATED] * source.is_generated + headlines(chapters)
    return Study(source.is_generated, lines, chapters, trace.listings(source), list(durations), build)


def write_study(result: Study, path: Path) -> None:
    """One HTML file that works offline."""
    plots = {_name(figure): drawn(figure.content) for figure in result.figures if figure.content and not figure.reason}
    write_page(
        path,
        "pai.html",
        plots,
        "--out",
        study=result,
        name=_name,
        row_of=row_of,
        columns=COLUMNS,
        short=short_rows(result.figures),
    )


def short_rows(figures: Sequence[Figure]) -> list[Row]:
    """The table that fits on a screen."""
    return [row for figure in figures for row in _short(figure)]


def distance_words(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return {"KS": f"KS {value:.3f}", "points": f"{value:.1f} points", "%": f"{value:.1f} %"}[unit]


def row_of(figure: Figure, measure: Measure) -> Row:
    """A line of a table; the last column is what is left of the distance beyond the error of the reading."""
    is_named = not measure.unit or f" {measure.unit} " in f" {measure.name} ".replace(",", "")
    name = measure.name if is_named else f"{measure.name}, {measure.unit}"
    distance, beyond = (
        distance_words(value, measure.distance_unit) for value in (measure.distance, measure.beyond_error)
    )
    return figure.about.number, name, measure.ours, measure.published, distance, beyond


def _short(figure: Figure) -> Iterator[Row]:
    if figure.reason or figure.content is None:
        yield figure.about.number, figure.reason, None, None, "", ""
        return
    measures = figure.content.measures
    compared = [measure for measure in measures if measure.distance is not None]
    if len(compared) > MOST_MEASURES:
        compared.sort(key=_closeness)
    for measure in compared[:MOST_MEASURES]:
        yield row_of(figure, measure)


def _closeness(measure: Measure) -> tuple[bool, float]:
    """The furthest off first, shares and distributions before quantities."""
    points = (measure.beyond_error or 0.0) * (100 if measure.distance_unit == "KS" else 1)
    return measure.distance_unit == "%", -points


def _figure(figure: Figure) -> dict[str, Any]:
    content = asdict(figure.content) if figure.content else None
    return {**asdict(figure.about), "missing": list(figure.missing), "reason": figure.reason, "content": content}


def _name(figure: Figure) -> str:
    """An id for the page."""
    return "figure-" + "".join(letter if letter.isalnum() else "-" for letter in figure.about.number)
