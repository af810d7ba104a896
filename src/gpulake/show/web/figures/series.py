"""Figures of samples over time: a line for each thing that was sampled, a row of axes for each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpulake.show.plots import GRID, PALETTE, Figure, Row, column, figure, line, moment, utc_axis

# Value, what its axis says, how its ticks are written, and what it is divided by.
Axis = tuple[str, str, str, float]
BUSY: Axis = ("busy_ratio", "busy", ".0%", 1)
MEMORY: Axis = ("memory_used_bytes", "memory, GiB", "", 1 << 30)
HEAT: Axis = ("temperature_celsius", "°C", "", 1)
POWER: Axis = ("power_watts", "W", "", 1)
HOST: Axis = ("cpu_busy_ratio", "CPU busy", ".0%", 1)
RECEIVED: Axis = ("rx_bytes_per_second", "received, MB/s", "", 1e6)
SENT: Axis = ("tx_bytes_per_second", "sent, MB/s", "", 1e6)


def gpus(rows: Sequence[Row]) -> Figure:
    return lines(rows, lambda row: f"{row['node']} / {_gpu(row)}", (BUSY, MEMORY, HEAT, POWER))


def machine_gpus(rows: Sequence[Row]) -> Figure:
    return lines(rows, _gpu, (BUSY, MEMORY, HEAT, POWER), "began_at")


def hosts(rows: Sequence[Row]) -> Figure:
    return lines(rows, lambda row: str(row["node"]), (HOST, MEMORY))


def links(rows: Sequence[Row]) -> Figure:
    return lines(rows, lambda row: f"{row['node']} {row['interface']}", (RECEIVED, SENT))


def lines(rows: Sequence[Row], subject: Callable[[Row], str], axes: Sequence[Axis], at: str = "sampled_from") -> Figure:
    """Each subject has its colour in all axes; a click leads to its node."""
    by_subject: dict[str, list[Row]] = {}
    for row in rows:
        by_subject.setdefault(subject(row), []).append(row)
    shown = [axis for axis in axes if any(row[axis[0]] is not None for row in rows)]
    traces: list[Figure] = []
    layout: dict[str, Figure] = {}
    height = 1 / max(len(shown), 1)
    for place, (value, title, ticks, unit) in enumerate(shown):
        number = str(place + 1) if place else ""
        layout[f"yaxis{number}"] = {
            "domain": [max(1 - height * (place + 1) + 0.03, 0), 1 - height * place - 0.02],
            "title": {"text": title},
            "tickformat": ticks,
            "gridcolor": GRID,
            "rangemode": "normal" if value.endswith("_celsius") else "tozero",
        }
        for at_colour, (name, some) in enumerate(by_subject.items()):
            points = [row for row in some if row[value] is not None]
            trace = line(
                name,
                [moment(row[at]) for row in points],
                column(points, value, 3, unit),
                PALETTE[at_colour % len(PALETTE)],
                1.3,
                legendgroup=str(at_colour),
                showlegend=not place,
                yaxis=f"y{number}",
            )
            traces.append({**trace, "customdata": [row.get("node") for row in points]})
    last = utc_axis(anchor=f"y{len(shown)}" if len(shown) > 1 else "y")
    return figure(traces, last, layout.pop("yaxis", {}), hovermode="closest", **layout)


def _gpu(row: Row) -> str:
    return str(row["gpu_id"]) if row["gpu_index"] is None else f"GPU {row['gpu_index']}"
