"""A series as text: the expected band shaded, points as dots, flagged ones as diamonds. Needs no colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpulake.core.explanation import Evidence, Maybe, Track
from gpulake.core.words import quantity

ROWS = 9
MOST_COLUMNS = 100
LEAST_COLUMNS = 40
MINUTE_SECONDS = 60.0
POINT, FLAGGED, BAND = "•", "◆", "░"
LEGEND = f"{POINT} seen  {FLAGGED} flagged  {BAND} expected"


@dataclass(frozen=True)
class _Column:
    """Consecutive points: the one furthest from the expected value represents them."""

    value: Maybe
    low: Maybe
    high: Maybe
    is_flagged: bool


def chart(evidence: Evidence, track: Track, columns: int) -> list[str]:
    """Lines of at most `columns` characters, with the scale on the left and times below."""
    known = [value for part in (track.values, track.low, track.high) for value in part if value is not None]
    if not known:
        return ["no values"]
    lowest, highest = _scale(track, known)
    unit = evidence.unit if evidence.unit == "ratio" else ""
    labels = [quantity(highest, unit), quantity(lowest, unit)]
    margin = max(map(len, labels))
    room = min(max(columns, LEAST_COLUMNS), MOST_COLUMNS) - margin - 2
    drawn = _columns(evidence, track, room)
    lines = []
    for row in range(ROWS):
        top, bottom = (highest - (highest - lowest) * (row + edge) / ROWS for edge in (0, 1))
        shown = labels[0] if row == 0 else labels[1] if row == ROWS - 1 else ""
        cells = "".join(_cell(column, top, bottom, row == 0, row == ROWS - 1) for column in drawn)
        lines.append(f"{shown:>{margin}} │{cells}".rstrip())
    lines.append(f"{'':>{margin}} └{'─' * len(drawn)}")
    lines.append(f"{'':>{margin}}  {_axis(evidence, len(drawn))}")
    return lines


def _scale(track: Track, known: Sequence[float]) -> tuple[float, float]:
    """Covers all seen values and the band, as far as the seen values stay distinguishable."""
    seen = [value for value in track.values if value is not None]
    if seen and (spread := max(seen) - min(seen)) > 0:
        known = [value for value in known if min(seen) - spread <= value <= max(seen) + spread]
    lowest, highest = min(known), max(known)
    return (lowest, highest) if highest > lowest else (lowest - 1.0, highest + 1.0)


def _columns(evidence: Evidence, track: Track, room: int) -> list[_Column]:
    count = len(evidence.times)
    width = min(count, room)
    edges = [count * place // width for place in range(width + 1)]
    return [_merged(evidence, track, range(begin, end)) for begin, end in pairwise(edges)]


def _merged(evidence: Evidence, track: Track, places: range) -> _Column:
    def off(place: int) -> tuple[bool, bool, float]:
        value, expected = track.values[place], track.expected[place]
        distance = 0.0 if value is None or expected is None else abs(value - expected)
        return evidence.is_flagged[place] and value is not None, value is not None, distance

    chosen = max(places, key=off)
    return _Column(track.values[chosen], track.low[chosen], track.high[chosen], evidence.is_flagged[chosen])


def _cell(column: _Column, top: float, bottom: float, is_first: bool, is_last: bool) -> str:
    value = column.value
    if value is not None and (value > bottom or is_last) and (value <= top or is_first):
        return FLAGGED if column.is_flagged else POINT
    return BAND if _has_band(column, top, bottom) else " "


def _has_band(column: _Column, top: float, bottom: float) -> bool:
    """Whether most of the cell is in the band; a band thinner than a cell is drawn, too."""
    if column.low is None or column.high is None:
        return False
    is_thin = bottom < column.low and column.high <= top
    return is_thin or column.low <= (top + bottom) / 2 <= column.high


def _axis(evidence: Evidence, width: int) -> str:
    """The first and the last time."""
    begin, end = evidence.times[0], evidence.times[-1]
    years = "%Y-" if begin.year != end.year else ""
    seconds = ":%S" if evidence.interval_seconds < MINUTE_SECONDS else ""
    first, last = (f"{at:{years}%m-%d %H:%M{seconds}}" for at in (begin, end))
    gap = width - len(first) - len(last)
    return f"{first}{' ' * gap}{last}" if gap > 0 else f"{first} to {last}"
