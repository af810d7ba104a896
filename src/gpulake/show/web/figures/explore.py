"""Figures of the front page: a card for each measure, and one measure broken down."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import groupby

from gpulake.core.ledger import bucket_name
from gpulake.core.words import count
from gpulake.show import plots
from gpulake.show.plots import Figure, Row
from gpulake.show.web.cells import number

COLOURS = {
    "capacity": plots.GREY,
    "held": "#5b6b8c",
    **plots.BUCKET_COLOURS,
    "lost": plots.RED,
    "failed": plots.PINK,
    "waiting": plots.ORANGE,
    "energy": plots.GREEN,
    "cost": "#7B3294",
    "incidents": plots.RED,
}
UNITS = {"gpu_hours": "GPU-hours", "kwh": "kWh", "jobs": "jobs", "incidents": ""}
# Of what a measure is shown as a share.
WHOLE = {"held": "capacity", "used": "held", "under_used": "held", "idle": "held", "lost": "held"}
WORSE = ("idle", "lost", "failed", "waiting", "incidents", "under_used", "cost", "energy")  # the more of it
SMALL = 0.05  # a change that is not called one
MOST_WORDS = 80
MOST_TIMES = 10


def measures(rows: Sequence[Row]) -> Figure:
    """`cards`: a measure each, with its sum, its change against the days before, and its line."""
    by_measure = {name: list(some) for name, some in groupby(rows, key=lambda row: str(row["measure"]))}
    sums = {name: sum(row["value"] for row in some) for name, some in by_measure.items()}
    marks = _marks(by_measure.get("incidents", []))
    cards = [_card(name, some, sums, marks if name != "incidents" else []) for name, some in by_measure.items()]
    return {"cards": cards}


def _card(name: str, rows: Sequence[Row], sums: dict[str, float], marks: list[Figure]) -> Figure:
    unit, whole = str(rows[0]["unit"]), WHOLE.get(name, "")
    share = sums[name] / sums[whole] if sums.get(whole) else None
    total, unit = number("count", sums[name]), UNITS.get(unit, unit)
    change = change_of(rows)
    is_worse = change is not None and abs(change) > SMALL and (change > 0) == (name in WORSE)
    return {
        "name": name,
        "label": bucket_name(name),
        "value": total if share is None else f"{share:.1%}",
        "unit": unit if share is None else f"of {whole}",
        "note": "" if share is None else f"{total} {unit}",
        "change": change_words(change),
        "level": "" if change is None or abs(change) <= SMALL or name == "capacity" else "bad" if is_worse else "good",
        "figure": _line(name, rows, marks),
    }


def change_of(rows: Sequence[Row]) -> float | None:
    """Of the days that have one to compare with; None where none has, or there was nothing before."""
    both = [row for row in rows if row["compared_value"] is not None]
    before = sum(row["compared_value"] for row in both)
    return sum(row["value"] for row in both) / before - 1 if before else None


def change_words(change: float | None) -> str:
    """As a percentage; of more than ten times as much, how many times."""
    if change is None:
        return ""
    return f"{change:+.0%}" if change < MOST_TIMES else f"×{change + 1:,.0f}"


def _line(name: str, rows: Sequence[Row], marks: list[Figure]) -> Figure:
    days = [str(row["day"]) for row in rows]
    colour = COLOURS[name]
    known = [row for row in rows if row["expected_low"] is not None]
    band = plots.band(
        "expected",
        [str(row["day"]) for row in known],
        plots.column(known, "expected_low", 3),
        plots.column(known, "expected_high", 3),
    )
    before = plots.line("days before", days, plots.column(rows, "compared_value", 3), plots.GREY, 1)
    before["line"]["dash"] = "dot"
    # A day that was observed in part would look like a fall: it is a hollow point, and no line leads to it.
    whole = [None if row["is_partial"] else round(row["value"], 3) for row in rows]
    line = plots.line(
        bucket_name(name), days, whole, colour, 1.8, customdata=days, hovertemplate="%{x|%a %Y-%m-%d}<br>%{y:,.0f}"
    )
    partial = [row for row in rows if row["is_partial"]]
    hollow = {"color": ["white"] * len(partial), "size": 6, "line": {"color": colour, "width": 1.5}}
    points = plots.marks(
        "part of a day",
        [str(row["day"]) for row in partial],
        plots.column(partial, "value", 3),
        hollow,
        customdata=[str(row["day"]) for row in partial],
        hovertemplate="%{x|%a %Y-%m-%d}<br>%{y:,.0f}",
    )
    traces = [*(band if known else []), *([before] if any(row["compared_value"] for row in rows) else []), line]
    traces += [points] if partial else []
    y = plots.from_zero(nticks=3)
    return plots.figure(traces, {**plots.time_axis(days), "nticks": 4}, y, showlegend=False, shapes=marks)


def _marks(days: Sequence[Row]) -> list[Figure]:
    """A tick for each day on which incidents began; their reasons are shown on hovering."""
    line = {"color": plots.RED, "width": 3}
    place = {"type": "line", "yref": "paper", "y0": 0, "y1": 0.12, "line": line, "layer": "below"}
    return [
        {
            **place,
            "x0": str(day["day"]),
            "x1": str(day["day"]),
            "name": html.escape(f"{count(int(day['value']), 'incident')}: {str(day['words'])[:MOST_WORDS]}"),
        }
        for day in days
    ]


def breakdown(rows: Sequence[Row]) -> Figure:
    """Stacked by name, the largest at the bottom. A click narrows the page to the day."""
    days = sorted({str(row["day"]) for row in rows})
    places = sorted({(row["place"], str(row["name"])) for row in rows})
    amounts = {(str(row["day"]), str(row["name"])): row["amount_gpu_hours"] for row in rows}
    traces = [
        plots.bars(
            name,
            days,
            [round(amounts.get((day, name), 0), 2) for day in days],
            plots.PALETTE[at % len(plots.PALETTE)] if name != "others" else plots.GREY,
            hovertemplate="%{y:,.0f}",
        )
        for at, (_, name) in enumerate(places)
    ]
    partial = {row["day"] for row in rows if row["is_partial"]}
    return plots.figure(
        traces,
        plots.time_axis(days),
        plots.from_zero("GPU-hours a day"),
        barmode="stack",
        bargap=0.1,
        hovermode="x unified",
        shapes=plots.partial_days(partial) if len(days) >= plots.LEAST_DATES else [],  # fewer are drawn as names
    )
