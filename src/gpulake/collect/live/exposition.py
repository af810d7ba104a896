"""Families as text: Prometheus' format 0.0.4, or OpenMetrics 1.0 if the client prefers it."""

from __future__ import annotations

from collections.abc import Iterable

from gpulake.collect.live.metrics import Family
from gpulake.formats.prometheus import NOT_IN_NAMES, TEXT, Labels, help_text, labels_text

__all__ = ["OPENMETRICS", "TEXT", "exposition", "negotiate", "prometheus_name"]
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

SUFFIXES = {"By": "bytes", "s": "seconds", "W": "watts", "J": "joules", "Cel": "celsius", "Hz": "hertz"}


def exposition(families: Iterable[Family], *, is_openmetrics: bool = False) -> str:
    lines: list[str] = []
    rendered: dict[Labels, str] = {}  # most families share their labels
    for family in families:
        name = prometheus_name(family)
        lines += _head(name, family, is_openmetrics=is_openmetrics)
        for point in family.points:
            text = rendered.get(point.labels)
            if text is None:
                text = rendered[point.labels] = labels_text(point.labels)
            lines.append(f"{name}{text} {point.value!r}")
    if is_openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def prometheus_name(family: Family) -> str:
    """A dotted name is translated as OpenTelemetry does; others stay unchanged."""
    if "." not in family.name:
        return family.name
    words = NOT_IN_NAMES.sub("_", family.name).split("_")
    suffix = "ratio" if family.unit == "1" and family.kind == "gauge" else SUFFIXES.get(family.unit, "")
    if suffix and suffix not in words:
        words.append(suffix)
    if family.kind == "counter" and words[-1] != "total":
        words.append("total")
    return "_".join(words)


def negotiate(accept: str) -> bool:
    """Whether the client prefers OpenMetrics."""
    wanted = {"openmetrics": 0.0, "text": 0.0}
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((_quality(piece[2:]) for piece in parameters if piece.startswith("q=")), 1.0)
        version = next((piece[8:].strip('"') for piece in parameters if piece.startswith("version=")), "")
        if media == "application/openmetrics-text" and version in ("", "1.0.0"):
            wanted["openmetrics"] = max(quality, wanted["openmetrics"])
        elif media in ("text/plain", "text/*", "*/*"):
            wanted["text"] = max(quality, wanted["text"])
    return wanted["openmetrics"] > 0 and wanted["openmetrics"] >= wanted["text"]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _head(name: str, family: Family, *, is_openmetrics: bool) -> tuple[str, str]:
    kind = "counter" if family.kind == "counter" else "gauge"
    text = help_text(family.help)
    if is_openmetrics:
        text = text.replace('"', r"\"")
        if kind == "counter":
            # DCGM's counters do not end in _total, and keep their names: OpenMetrics then calls their type unknown.
            kind, name = ("counter", name.removesuffix("_total")) if name.endswith("_total") else ("unknown", name)
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"
