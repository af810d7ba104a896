"""Cells: values formatted for people. A column's name says its unit and which page it links to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from typing import Any
from urllib.parse import urlencode

from gpulake.core.ledger import bucket_name

Row = Mapping[str, Any]
BUCKET_COLUMNS = ("bucket", "saves")
# Columns that link to a page: the page, and its option that takes the value.
PAGES = {
    "job_id": ("job", "job"),
    "user_id": ("user", "user"),
    "group_id": ("group", "group"),
    "account_id": ("account", "account"),
    "machine_id": ("machine", "machine"),
    "node": ("machine", "machine"),
    "incident_id": ("incident", "incident"),
    "run_name": ("run", "run"),
}
UNITS = {
    "_gpu_hours": " GPU-h",
    "_celsius": " °C",
    "_watts": " W",
    "_kwh": " kWh",
}
# Words with their own capitalisation.
WORDS = {
    "gpu": "GPU",
    "gpus": "GPUs",
    "cpu": "CPU",
    "cpus": "CPUs",
    "id": "ID",
    "kwh": "kWh",
    "qos": "QOS",
    "xid": "Xid",
}
LEAST_HOURS = 0.01
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def heading(column: str) -> str:
    words = column
    for suffix in ("_seconds", "_bytes", "_at", "_ratio", "_id", *UNITS):
        words = words.removesuffix(suffix)
    unit = next((unit.strip() for suffix, unit in UNITS.items() if column.endswith(suffix)), "")
    text = " ".join(
        WORDS.get(word, word)
        for word in words.replace("under_used", "under-used").replace("gpu_hours", "GPU-hours").split("_")
        if word
    )
    text = text[:1].upper() + text[1:] or column
    return f"{text} ({unit})" if unit else text


def cell(column: str, value: Any) -> str:
    """As text, in the unit of its column's name."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}".removesuffix(":00")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int | float):
        return number(column, value)
    return _words(column, str(value))


def _words(column: str, text: str) -> str:
    """What a step noted of its run is an object in JSON; people read it without the brackets."""
    if column in BUCKET_COLUMNS:
        return bucket_name(text)
    with suppress(ValueError):
        if column == "detail" and isinstance(noted := json.loads(text), dict):
            return ", ".join(f"{name}: {value}" for name, value in noted.items())
    return text


def number(column: str, value: float) -> str:
    if value != value:  # NaN
        return "–"
    if column.endswith("_ratio"):
        return f"{value:.1%}"
    if column == "seconds" or column.endswith("_seconds"):
        return duration(value)
    if column.endswith("_bytes"):
        return size(value)
    is_whole = column.endswith("gpus") and value == round(value)
    if isinstance(value, int) or is_whole or column == "count" or abs(value) >= 1000:
        return f"{value:,.0f}"
    return _small(column, value) if abs(value) < 1 else f"{value:,.1f}"


def _small(column: str, value: float) -> str:
    """Hours below 1 have two decimals."""
    if not column.endswith("_hours") or value == 0:
        return f"{value:,.3g}"
    return f"{value:.2f}" if abs(value) >= LEAST_HOURS else f"< {LEAST_HOURS}"


def duration(seconds: float) -> str:
    sign, rest = ("−" if seconds < 0 else ""), abs(seconds)
    if 0 < rest < 1:
        return f"{sign}{rest * 1000:.3g} ms" if rest >= 0.001 else "< 1 ms"
    if rest < 60:
        return f"{sign}{rest:.3g} s"
    minutes, hours, days = rest / 60, rest / 3600, rest / 86400
    if minutes < 60:
        return f"{sign}{minutes:.3g} min"
    return f"{sign}{hours:.3g} h" if hours < 48 else f"{sign}{days:.3g} d"


def size(count: float) -> str:
    rest, unit = float(count), 0
    while abs(rest) >= 1024 and unit < len(_SIZES) - 1:
        rest, unit = rest / 1024, unit + 1
    return f"{rest:.4g} {_SIZES[unit]}"


def link(column: str, row: Row) -> str:
    """The page that a cell links to; empty: none."""
    if column not in PAGES or row.get(column) in (None, ""):
        return ""
    page, option = PAGES[column]
    values = {option: str(row[column])}
    if row.get("cluster_id"):
        values["cluster"] = str(row["cluster_id"])
    return f"/{page}?{urlencode(values)}"
