"""The rules in force, and one automaton for all of their patterns."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import re2

from gpulake.core.errors import ConfigError
from gpulake.diagnose.rule import Hit, Rule, read_rule
from gpulake.diagnose.xids import catalogued_rules

# What the automaton may remember. With too little it starts over again and again, or gives up.
MOST_MEMORY_BYTES = 64 << 20


def _options() -> Any:
    options = re2.Options()
    options.max_mem = MOST_MEMORY_BYTES
    options.log_errors = False
    return options


def compiled(pattern: str) -> Any:
    """Linear in the length of the text, whatever the pattern: nothing can backtrack. Raises ValueError."""
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise ValueError(f"pattern {pattern!r} does not compile: {reason!r}") from error


class Rulebook:
    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        names = [rule.name for rule in rules]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"two rules are named {sorted(twice)[0]!r}", "give each rule a name of its own")
        self._patterns: dict[str, Any] = {}

    def hits(self, text: str, number: int = 0) -> list[Hit]:
        """Rules that match the line, in the order of the book. Conditions on a traceback are not looked at here."""
        found = []
        for index in sorted(self._automaton.Match(text) or ()):
            rule = self.rules[index]
            if rule.unless and self._pattern(rule.unless).search(text):
                continue
            match = self._pattern(rule.pattern).search(text)
            groups = match.groupdict() if match else {}
            found.append(Hit(rule, number, tuple((name, word) for name, word in groups.items() if word is not None)))
        return found

    @cached_property
    def _automaton(self) -> Any:
        automaton = re2.Set.SearchSet(_options())
        for rule in self.rules:
            automaton.Add(rule.pattern)
        automaton.Compile()
        return automaton

    def _pattern(self, pattern: str) -> Any:
        if pattern not in self._patterns:
            self._patterns[pattern] = compiled(pattern)
        return self._patterns[pattern]


@cache
def shipped_rules() -> tuple[Rule, ...]:
    folder = files("gpulake.diagnose").joinpath("rules")
    found: list[Rule] = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            found += read_rules(file.read_text(encoding="utf-8"), file.name.removesuffix(".toml"))
    return (*found, *catalogued_rules())


@cache
def shipped() -> Rulebook:
    return Rulebook(shipped_rules())


def with_learned(rules: Iterable[Rule]) -> Rulebook:
    """The shipped rules, and those that people approved."""
    learned = tuple(rules)
    return Rulebook((*shipped_rules(), *learned)) if learned else shipped()


def read_rules(text: str, family: str) -> list[Rule]:
    try:
        entries = tomllib.loads(text).get("rule", [])
        return [_checked(entry, family) for entry in entries]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"rules {family} are not valid TOML: {error}", "correct the line that it names") from error


def _checked(entry: dict[str, Any], family: str) -> Rule:
    try:
        return read_rule(entry, family)
    except (ValueError, TypeError) as error:
        named = entry.get("name", "without a name")
        raise ConfigError(f"rule {named} of {family}: {error}", "see docs/add-a-rule.md") from error
