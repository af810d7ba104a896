"""The distance of our distribution from a published one.

A published curve is known at a few quantiles, published points at a few values. The distance is the largest |F(x) - q|
there (Kolmogorov and Smirnov). A second distance allows for the error with which the figure was read, which matters
where many tasks have the same value: a few percent off in value, a curve may be off by half of the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.show.pai.parts import Curve, Measure

Floats = NDArray[np.float64]
MOST_POINTS = 200
VALUE_ERROR, LAST_VALUE_ERROR, LAST_PERCENT = 0.08, 0.15, 98
SHARE_ERROR = 0.005


def known(values: Any) -> Floats:
    """The numbers of a column that are numbers, in order."""
    array = np.asarray(values, dtype=float)
    return np.sort(array[np.isfinite(array)])


def share_at_most(ordered: Floats, value: Floats | float) -> Floats:
    """F: the share of a sample that is at most this."""
    if not len(ordered):
        return np.full(np.shape(value), np.nan)
    return np.asarray(np.searchsorted(ordered, value, side="right") / len(ordered))


def curve_distance(ordered: Floats, percent: Sequence[float], value: Sequence[float]) -> float:
    """The largest |F(x_q) - q| at published quantiles."""
    return float(np.max(np.abs(share_at_most(ordered, np.array(value)) - np.array(percent) / 100)))


def curve_distance_beyond(
    ordered: Floats, percent: Sequence[float], value: Sequence[float], resolution: float = 0.0
) -> float:
    """The same, where each x_q may be anywhere within the error that it was read with."""
    at, shares = np.array(value, dtype=float), np.array(percent, dtype=float) / 100
    error = np.where(np.array(percent) >= LAST_PERCENT, LAST_VALUE_ERROR, VALUE_ERROR) * np.abs(at) + resolution
    least = np.searchsorted(ordered, at - error, side="left") / len(ordered)
    most = share_at_most(ordered, at + error)
    return float(np.max(np.maximum(np.maximum(least - shares, shares - most), 0)))


def distribution(label: str, ordered: Floats, hue: int = 0) -> Curve:
    """The cumulative distribution of a sample, in few enough points for a page."""
    if not len(ordered):
        return Curve(label, [], [], hue)
    places = np.unique(np.linspace(0, len(ordered) - 1, MOST_POINTS).round().astype(int))
    values = np.unique(ordered[places])
    return Curve(label, _rounded(values), _rounded(100 * share_at_most(ordered, values)), hue)


def against_curve(
    label: str, sample: Floats, facts: Mapping[str, Any], unit: str, hue: int = 0
) -> tuple[list[Curve], Measure]:
    """Our distribution beside published quantiles; the medians stand for them in the table."""
    percent, value = facts["percent"], facts["value"]
    curves = [
        distribution(label, sample, hue),
        Curve(label, list(value), list(percent), hue, is_published=True, style="line"),
    ]
    reference = float(np.interp(50, percent, value))
    if not len(sample):
        return curves, Measure(f"{label}, median", unit, None, reference)
    measure = Measure(
        f"{label}, median",
        unit,
        float(np.median(sample)),
        reference,
        curve_distance(sample, percent, value),
        "KS",
        curve_distance_beyond(sample, percent, value, facts.get("resolution", 0.0)),
    )
    return curves, measure


def against_points(
    label: str, sample: Floats, facts: Mapping[str, Any], unit: str, hue: int = 0
) -> tuple[list[Curve], Measure]:
    """Our distribution beside published points; the one that is furthest off stands for them in the table."""
    value, shares = np.array(facts["value"], dtype=float), np.array(facts["percent"], dtype=float) / 100
    curves = [
        distribution(label, sample, hue),
        Curve(label, list(facts["value"]), list(facts["percent"]), hue, is_published=True, style="points"),
    ]
    if not len(sample):
        return curves, Measure(label, "%", None)
    gaps = np.abs(share_at_most(sample, value) - shares)
    worst = int(np.argmax(gaps))
    error = 0.0 if facts.get("is_exact") else SHARE_ERROR
    measure = Measure(
        f"{label}, at most {value[worst]:,g} {unit}".strip(),
        "%",
        float(100 * share_at_most(sample, value[worst])),
        float(100 * shares[worst]),
        float(gaps[worst]),
        "KS",
        max(float(gaps[worst]) - error, 0.0),
    )
    return curves, measure


def against_curves(
    samples: Iterable[tuple[str, Floats, Mapping[str, Any] | None]], unit: str
) -> tuple[list[Curve], list[Measure]]:
    """Several distributions, each in its colour; one that was not published has its median alone."""
    curves: list[Curve] = []
    measures: list[Measure] = []
    for hue, (label, sample, facts) in enumerate(samples):
        if facts is None:
            measures.append(Measure(f"{label}, median", unit, float(np.median(sample)) if len(sample) else None))
            continue
        drawn, measure = against_curve(label, sample, facts, unit, hue)
        curves += drawn
        measures.append(measure)
    return curves, measures


def points_apart(name: str, ours: float | None, reference: float | None, error: float = 0.0) -> Measure:
    """Two percentages, and how many points they are apart."""
    if ours is None or reference is None:
        return Measure(name, "%", ours, reference)
    apart = abs(ours - reference)
    return Measure(name, "%", ours, reference, apart, "points", max(apart - error, 0.0))


def percent_apart(name: str, unit: str, ours: float | None, reference: float | None, error: float = 0.0) -> Measure:
    """Two quantities, and how many percent ours is off."""
    if ours is None or reference is None:
        return Measure(name, unit, ours, reference)
    apart = abs(ours / reference - 1) * 100
    return Measure(name, unit, ours, reference, apart, "%", max(apart - error, 0.0))


def ordered_types(names: Sequence[str]) -> list[str]:
    """GPU types, those of the study first, in its order."""
    first = [name for name in published()["shares"]["gpu_type"] if name in names]
    return [*first, *sorted(set(names) - set(first))]


def _rounded(values: Floats) -> list[float | None]:
    """Six digits: more would not be seen, and the page would carry them."""
    return [float(f"{value:.6g}") for value in values]
