"""Axes of time: without the years between two clusters, and with as many names as have room."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

LEAST_DATES = 4  # fewer are names, and not a line of time
MOST_EMPTY = 3  # times as long as what is shown: then most of a line of time would be empty
MOST_NAMES = 5


def time_axis(times: Sequence[object]) -> dict[str, Any]:
    """Of days, or of hours. What lies far apart is shown side by side, by name."""
    moments = sorted({datetime.fromisoformat(str(time)) for time in times})
    steps = [after - before for before, after in pairwise(moments)]
    is_sparse = bool(steps) and moments[-1] - moments[0] > MOST_EMPTY * len(moments) * min(steps)
    if len(moments) >= LEAST_DATES and not is_sparse:
        return {"type": "date"}
    return {"type": "category", "nticks": MOST_NAMES, "tickangle": 0}
