"""Filters: lines that are routine however rare they are. They are data, like the rules."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import re2

from gpulake.core.errors import ConfigError, choice_hint
from gpulake.diagnose.rulebook.book import compiled


@dataclass(frozen=True)
class Filter:
    """One `[[filter]]` of diagnose/logs/filters.toml, or a learned one. See docs/add-a-rule.md."""

    name: str
    pattern: str  # RE2, searched for in the first line of its kind
    source: str  # where such lines come from
    matches: tuple[str, ...]
    ignores: tuple[str, ...] = ()


class Filters:
    def __init__(self, filters: Sequence[Filter]) -> None:
        self.filters = tuple(filters)

    def is_routine(self, line: str) -> bool:
        return bool(self.filters) and bool(self._automaton.Match(line))

    @cached_property
    def _automaton(self) -> Any:
        automaton = re2.Set.SearchSet()
        for entry in self.filters:
            automaton.Add(entry.pattern)
        automaton.Compile()
        return automaton


@cache
def shipped_filters() -> Filters:
    text = files("gpulake.diagnose.logs").joinpath("filters.toml").read_text(encoding="utf-8")
    return Filters(read_filters(text))


def read_filters(text: str) -> list[Filter]:
    try:
        return [_checked(entry) for entry in tomllib.loads(text).get("filter", [])]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"filters are not valid TOML: {error}", "correct the line that it names") from error


def _checked(entry: dict[str, Any]) -> Filter:
    hint = "see docs/add-a-rule.md"
    name = entry.get("name", "without a name")
    known = {setting.name for setting in fields(Filter)}
    if unknown := sorted(set(entry) - known):
        raise ConfigError(f"filter {name}: unknown key {unknown[0]!r}", choice_hint(unknown[0], known))
    if missing := sorted(known - {"ignores"} - set(entry)):
        raise ConfigError(f"filter {name}: no {missing[0]}", hint)
    try:
        compiled(entry["pattern"])
    except ValueError as error:
        raise ConfigError(f"filter {name}: {error}", hint) from error
    return Filter(**{**entry, "matches": tuple(entry["matches"]), "ignores": tuple(entry.get("ignores", ()))})
