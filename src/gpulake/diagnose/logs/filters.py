"""Filters: lines that are routine however rare they are. A filter is a rule of role noise."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import re2

from gpulake.core.errors import ConfigError
from gpulake.core.packaged import packaged_text
from gpulake.diagnose.rulebook.book import compiled
from gpulake.diagnose.rulebook.rule import Rule, read_rule


class Filters:
    def __init__(self, filters: Sequence[Rule]) -> None:
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
    return Filters(read_filters(packaged_text("gpulake.diagnose.logs", "filters.toml")))


def read_filters(text: str) -> list[Rule]:
    try:
        return [_checked(entry) for entry in tomllib.loads(text).get("filter", [])]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"filters are not valid TOML: {error}", "correct the line that it names") from error


def _checked(entry: dict[str, Any]) -> Rule:
    try:
        filter_ = read_rule({"role": "noise", **entry}, "filters")
        compiled(filter_.pattern)
        if not filter_.source:
            raise ValueError("no source")
    except (ValueError, TypeError) as error:
        name = entry.get("name", "without a name")
        raise ConfigError(f"filter {name}: {error}", "see docs/add-a-rule.md") from error
    return filter_
