"""The table of names: what a field of a row is called on the page and in what is pushed. The table is names.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from gpulake.core.errors import UsageError, choice_hint
from gpulake.formats.prometheus import Labels

STYLES = ("dcgm", "otel")
KINDS = ("gauge", "counter", "updown")


class Name(NamedTuple):
    """What one field is called. Labels are those that the name itself needs, such as a mode."""

    field: str
    name: str
    kind: str
    help: str
    unit: str
    scale: float
    labels: Labels


@dataclass(frozen=True)
class Table:
    """The names of one style, by subject and in order."""

    style: str
    version: int
    subjects: Mapping[str, tuple[Name, ...]]


@cache
def table(style: str) -> Table:
    if style not in STYLES:
        raise UsageError(f"no names called {style!r}", choice_hint(style, STYLES))
    content = tomllib.loads(files("gpulake.formats").joinpath("names.toml").read_text(encoding="utf-8"))
    version = content.pop("version")
    other = content.pop("otel")
    subjects = {}
    for subject, fields in content.items():
        entries = fields | other.get(subject, {}) if style == "otel" else fields
        subjects[subject] = tuple(_name(field, entry) for field, entry in entries.items() if entry)
    return Table(style, version, subjects)


def _name(field: str, entry: list[Any]) -> Name:
    name, kind, text, *rest = entry
    options = rest[0] if rest else {}
    labels = tuple(options.get("labels", {}).items())
    return Name(field, name, kind, text, options.get("unit", ""), options.get("scale", 1), labels)
