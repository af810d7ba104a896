"""A proposed rule or filter, and what it is checked against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gpulake.core.diagnosis import UNKNOWN
from gpulake.diagnose.rulebook.book import compiled
from gpulake.diagnose.rulebook.rule import EXPLAINING, Rule

Kind = Literal["rule", "filter"]

# Roles that can hide a failure: their approval needs --allow-silencing.
SILENCING = ("success", "noise", "teardown", "start", "progress")


@dataclass(frozen=True)
class Check:
    check: str
    passed: bool
    says: str = ""  # what is wrong


@dataclass(frozen=True)
class Proof:
    """A line of evidence of a recorded failure."""

    line: str
    reason: str
    incident_id: str
    is_confirmed: bool  # it is the first evidence of an incident that a person confirmed


@dataclass(frozen=True)
class Ground:
    """What a candidate is checked against: the current rules, healthy logs and past failures."""

    rules: tuple[Rule, ...]
    filters: tuple[Rule, ...] = ()
    healthy: tuple[tuple[str, str], ...] = ()  # lines of the lake's healthy logs, each with its log
    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True)
class Candidate:
    rule: Rule
    kind: Kind = "rule"
    is_by_model: bool = False

    @property
    def is_silencing(self) -> bool:
        """Filters are not: they never drop a line that a rule or a marker matches."""
        return self.kind == "rule" and self.rule.role in SILENCING

    def matches(self, line: str) -> bool:
        if not line.isascii():  # RE2 cannot read lone surrogates
            line = line.encode(errors="replace").decode()
        pattern, unless = self.rule.pattern, self.rule.unless
        return bool(compiled(pattern).search(line)) and not (unless and compiled(unless).search(line))


def agreed_recovery(reason: str, rules: Iterable[Rule]) -> str:
    """The recovery that all rules of a reason agree on, or unknown."""
    actions = {rule.recovery for rule in rules if rule.role in EXPLAINING and rule.reason == reason}
    return actions.pop() if len(actions) == 1 else UNKNOWN
