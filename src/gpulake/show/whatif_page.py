"""Scenarios side by side, as a page of plots: waits, waiting runs, use of the GPUs, what was lost and paid."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gpulake.show import plots
from gpulake.show.page import write_page

Named = tuple[str, Mapping[str, Any], Sequence[float]]
QUANTILES = ("p50", "p90", "p99")
BARS = {
    "utilisation_ratio": "share of the GPU time held",
    "fragmented_ratio": "share of free GPUs on partly held machines",
    "lost_gpu_hours": "GPU-hours lost",
    "energy_kwh": "energy, kWh",
    "cost": "cost",
}


def write_whatif(path: Path, title: str, hours: Sequence[datetime], scenarios: Sequence[Named]) -> None:
    names = [name for name, _, _ in scenarios]
    sizes = list(dict.fromkeys(size for _, record, _ in scenarios for size in record["by_size"]))
    drawn = {
        "waits": _bars(
            [(name, QUANTILES, record["wait_seconds"]) for name, record, _ in scenarios], "wait, hours", 3600
        ),
        "waits_by_size": _bars(
            [
                (name, sizes, [record["by_size"].get(size, (0, 0, 0))[1] for size in sizes])
                for name, record, _ in scenarios
            ],
            "p90 wait by GPUs of the run, hours",
            3600,
        ),
        "queue": plots.figure(
            [{"x": [at.isoformat() for at in hours], "y": list(queue), "name": html.escape(name), "mode": "lines"}
             for name, _, queue in scenarios],
            {}, plots.from_zero("waiting runs"),
        ),
    }  # fmt: skip
    for column, words in BARS.items():
        values = [record[column] for _, record, _ in scenarios]
        if all(value is not None for value in values):
            drawn[column] = _bars([("", names, values)], words)
    write_page(
        path,
        "whatif.html",
        drawn,
        "--plot",
        title=title,
        panels={name: BARS.get(name, name.replace("_", " ")) for name in drawn},
    )


def _bars(rows: Sequence[tuple[str, Sequence[str], Sequence[float]]], words: str, unit: float = 1) -> plots.Figure:
    traces = [
        {
            "type": "bar",
            "name": html.escape(name),
            "x": [html.escape(one) for one in x],
            "y": [value / unit for value in y],
        }
        for name, x, y in rows
    ]
    return plots.figure(traces, {"type": "category"}, plots.from_zero(words))
