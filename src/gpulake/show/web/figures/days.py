"""Days drawn: utilisation in the band that was expected."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.show import plots
from gpulake.show.plots import Figure, Row
from gpulake.show.web.figures.axes import time_axis


def utilisation(rows: Sequence[Row]) -> Figure:
    figure = plots.utilisation(rows, rows)
    figure["layout"]["xaxis"].update(time_axis([row["dt"] for row in rows]))
    return figure
