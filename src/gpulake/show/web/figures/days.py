"""Days drawn: utilisation in the band that was expected."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.show import plots
from gpulake.show.plots import Figure, Row


def utilisation(rows: Sequence[Row]) -> Figure:
    return plots.utilisation(rows, rows)
