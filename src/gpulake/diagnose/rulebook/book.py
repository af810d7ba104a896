"""The rules in force, and one automaton for all of their patterns."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any

import re2

from gpulake.core.errors import ConfigError
from gpulake.diagnose.logs.automaton import Automaton
from gpulake.diagnose.logs.markers import MARKERS
from gpulake.diagnose.logs.shapes import shape_of
from gpulake.diagnose.rulebook.rule import Hit, Rule, read_rule
from gpulake.diagnose.rulebook.xids import catalogued_rules


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """By RE2, which is linear in the length of the text. Raises ValueError."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise ValueError(f"pattern {pattern!r} does not compile: {reason!r}") from error


class Rulebook:
    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._candidates = lru_cache(maxsize=4096)(self._found)  # lines of a log are of few shapes
        names = [rule.name for rule in rules]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"two rules are named {sorted(twice)[0]!r}", "give each rule a name of its own")

    def hits(self, text: str, number: int = 0, known: Collection[Rule] = ()) -> list[Hit]:
        """Rules that match the line, in the order of the book, but for those known to. Frames are not checked here."""
        line = text.encode("utf-8", "replace")
        found = []
        for rule in self._candidates(shape_of(line)):
            if rule not in known and (match := self._match(rule, line)):
                words = match.groupdict().items() if match.re.groups else ()
                groups = tuple((name, word.decode()) for name, word in words if word is not None)
                found.append(Hit(rule, number, groups))
        return found

    def has_hits(self, text: str) -> bool:
        line = text.encode("utf-8", "replace")
        return any(self._match(rule, line) for rule in self._candidates(shape_of(line)))

    def _found(self, shape: bytes) -> tuple[Rule, ...]:
        """The rules that may match lines of this shape."""
        places = sorted(self.automaton.candidates([shape]).get(shape, ()))
        return tuple(self.rules[place] for place in places if place < len(self.rules))

    def is_matched(self, rule: Rule, text: str) -> bool:
        """Whether it matches the line. Conditions on a traceback are not checked here."""
        return self._match(rule, text.encode("utf-8", "replace")) is not None

    def _match(self, rule: Rule, line: bytes) -> Any | None:
        """In UTF-8 bytes, which saves counting characters."""
        match = compiled(rule.pattern).search(line)
        if match and rule.unless and compiled(rule.unless).search(line):
            return None
        return match

    @cached_property
    def automaton(self) -> Automaton:
        """The patterns of the rules in their order, then those of the markers."""
        rules = [rule.pattern for rule in self.rules]
        return Automaton([*rules, *(marker.pattern for marker in MARKERS)])


@cache
def shipped_rules() -> tuple[Rule, ...]:
    folder = files("gpulake.diagnose.rulebook").joinpath("rules")
    found: list[Rule] = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            found += read_rules(file.read_text(encoding="utf-8"), file.name.removesuffix(".toml"))
    return (*found, *catalogued_rules())


@cache
def shipped() -> Rulebook:
    return Rulebook(shipped_rules())


def with_learned(rules: Iterable[Rule]) -> Rulebook:
    """The shipped and the approved rules."""
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
