"""Scenarios of the simulator side by side."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.show.plots import PALETTE, Figure, Row, bars, figure, from_zero


def _grouped(rows: Sequence[Row], columns: dict[str, str], unit: float, words: str) -> Figure:
    names = [f"{row['scenario']} ({row['cluster_id']})" for row in rows]
    traces = [
        bars(name, names, [row[column] / unit for row in rows], PALETTE[number % len(PALETTE)])
        for number, (name, column) in enumerate(columns.items())
    ]
    return figure(traces, {"type": "category"}, from_zero(words), barmode="group", showlegend=True)


def waits(rows: Sequence[Row]) -> Figure:
    columns = {"p50": "p50_wait_seconds", "p90": "p90_wait_seconds", "p99": "p99_wait_seconds"}
    return _grouped(rows, columns, 3600, "wait, hours")


def hours(rows: Sequence[Row]) -> Figure:
    return _grouped(rows, {"held": "held_gpu_hours", "lost": "lost_gpu_hours"}, 1, "GPU-hours")
