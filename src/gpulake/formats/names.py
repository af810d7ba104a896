"""The vocabulary, names.toml: what a field is called and in which unit, where we write it and where others do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.packaged import packaged_toml
from gpulake.formats.prometheus import Labels

STYLES = ("dcgm", "otel")
EXPORTERS = ("nvidia_exporter", "amd_exporter", "otel_exporter")  # that Prometheus scrapes, beside DCGM's
KINDS = ("gauge", "counter", "updown")
NO_SUBJECTS = ("version", "units", "read", "dcgm_endings", "otel", "pulled")
# By source: how its names begin, and the subject that has them.
WRITERS = {"dcgm": ("DCGM_FI_", "gpu"), "node_exporter": ("node_", "host")}


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


class Written(NamedTuple):
    """What a source calls a field, and how much of our unit one of its own is."""

    names: tuple[str, ...]  # the first that has a value counts
    factor: float


def _content() -> dict[str, Any]:
    return packaged_toml("gpulake.formats", "names.toml")


@cache
def table(style: str) -> Table:
    if style not in STYLES:
        raise UsageError(f"no names called {style!r}", choice_hint(style, STYLES))
    content = _content()
    subjects = {}
    for subject, fields in content.items():
        if subject not in NO_SUBJECTS:
            entries = fields | content["otel"].get(subject, {}) if style == "otel" else fields
            subjects[subject] = tuple(_name(field, entry) for field, entry in entries.items() if entry)
    return Table(style, content["version"], subjects)


@cache
def written(source: str) -> dict[str, Written]:
    """By our field, how a source writes it: dcgm, node_exporter, nvidia_smi, rocm_smi or one of EXPORTERS."""
    content = _content()
    prefix, subject = WRITERS.get(source, ("", ""))
    fields = {name.field: name for name in table("dcgm").subjects.get(subject, ()) if name.name.startswith(prefix)}
    found = {field: Written((name.name,), _factor(name.unit)) for field, name in fields.items()}
    return found | {
        field: Written(tuple(names), _factor(unit)) for field, (names, unit) in content["read"][source].items()
    }


@cache
def pulled_names() -> tuple[str, ...]:
    """What to ask a Prometheus for: names, and patterns of names."""
    others = (field[0] for source in EXPORTERS for field in _content()["read"][source].values())
    return tuple(name for names in (*_content()["pulled"].values(), *others) for name in names)


@cache
def dcgm_unit(metric: str) -> tuple[str, float]:
    """What our name of a field of DCGM would end with, and how much of our unit one of its own is."""
    endings = _content()["dcgm_endings"].items()
    ending, unit = next((known for end, known in endings if metric.endswith(f"_{end}")), ("", ""))
    return ending, _factor(unit)


def _factor(unit: str) -> float:
    per_ours = _content()["units"].get(unit, 1)
    return 1 if per_ours == 1 else 1 / per_ours


def _name(field: str, entry: list[Any]) -> Name:
    name, kind, text, *rest = entry
    options = rest[0] if rest else {}
    labels = tuple(options.get("labels", {}).items())
    unit = options.get("unit", "")
    return Name(field, name, kind, text, unit, options.get("scale", _content()["units"].get(unit, 1)), labels)
