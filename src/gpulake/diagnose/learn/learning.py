"""Learned rules and filters: candidates, approved, rejected and retired ones. Only approved ones are used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from gpulake.core.clock import Clock
from gpulake.core.errors import UsageError
from gpulake.core.rows import json_rows
from gpulake.core.words import label
from gpulake.diagnose.learn.candidates import Candidate, Check, Ground, Kind
from gpulake.diagnose.learn.definitions import definition_of, rule_of
from gpulake.diagnose.learn.ground import past
from gpulake.diagnose.learn.trials import examined, failures
from gpulake.diagnose.rulebook.book import compiled, shipped_rules
from gpulake.diagnose.rulebook.rule import Rule

if TYPE_CHECKING:
    from gpulake.lake import Lake

State = Literal["candidate", "approved", "rejected", "retired"]
STATES: tuple[str, ...] = get_args(State)
# The states that each may follow; the empty one: not proposed yet.
FOLLOWS: dict[State, tuple[str, ...]] = {
    "candidate": ("", "rejected", "retired"),
    "approved": ("candidate",),
    "rejected": ("candidate",),
    "retired": ("approved",),
}
MODEL = "model:"  # the prefix of a model's name as a proposer


@dataclass(frozen=True)
class Learned:
    """The current state of a rule or filter, with its origin and who decided."""

    rule_id: str
    kind: Kind
    state: State
    name: str
    definition: dict[str, Any]
    checks: tuple[Check, ...]
    proposed_by: str
    proposed_at: datetime
    changed_by: str  # who set this state
    changed_at: datetime
    diagnosis_id: str
    note: str
    rule: Rule | None = None  # None: this version cannot read it
    trouble: str = ""  # why not

    @property
    def candidate(self) -> Candidate:
        if self.rule is None:
            raise UsageError(f"rule {self.name} cannot be read: {self.trouble}", "propose it anew, or reject it")
        return Candidate(self.rule, self.kind, self.proposed_by.startswith(MODEL))


def no_message(message: str) -> None:
    """Drops the message."""


def all_learned(lake: Lake) -> list[Learned]:
    """Their current states, oldest first."""
    found: dict[str, Learned] = {}
    for row in sorted(lake.journal("rule_events"), key=lambda row: str(row.get("changed_at"))):
        try:
            read = _read(row)
        except (KeyError, ValueError, TypeError, AttributeError):
            continue  # a foreign or truncated row
        before = found.get(read.rule_id)
        if before and before.state not in FOLLOWS[read.state]:
            continue  # of two decisions at once the first counts
        if before and read.state != "candidate":
            read = replace(read, proposed_by=before.proposed_by, proposed_at=before.proposed_at)
        found[read.rule_id] = read
    return list(found.values())


def learned(lake: Lake, say: Callable[[str], None] = no_message) -> tuple[Rule, ...]:
    """The approved rules; unusable ones are skipped with a message."""
    return _usable(all_learned(lake), "rule", say)


def learned_filters(lake: Lake, say: Callable[[str], None] = no_message) -> tuple[Rule, ...]:
    """The approved filters: rules of role noise, of which only the pattern is used."""
    return _usable(all_learned(lake), "filter", say)


def ground_of(lake: Lake) -> Ground:
    """The current rules, and the healthy and failed logs of the lake."""
    known = all_learned(lake)
    healthy, proofs = past(lake)
    rules = (*shipped_rules(), *_usable(known, "rule", no_message))
    return Ground(rules, _usable(known, "filter", no_message), healthy, proofs)


def propose(lake: Lake, clock: Clock, candidate: Candidate, by: str, diagnosis_id: str = "", note: str = "") -> Learned:
    """Makes it a candidate if it passes every check. It is not used before a person approves it."""
    candidate = replace(candidate, is_by_model=by.startswith(MODEL))
    rule_id = id_of(candidate)
    others = {known.rule_id: known for known in all_learned(lake)}
    before = others.pop(rule_id, None)
    if before and before.state in ("candidate", "approved"):
        raise UsageError(f"{before.name} is {before.state} already, as {rule_id}", "see: gpulake rules review")
    if before and candidate.is_by_model:
        raise UsageError(
            f"{before.name} was {before.state} by {label(before.changed_by, 80)}", "a person may propose it again"
        )
    rule, now = candidate.rule, clock.now()
    if any(other.name == rule.name and other.state in ("candidate", "approved") for other in others.values()):
        raise UsageError(f"a rule named {label(rule.name, 80)} is there already", "give it another one with --name")
    checks = _passed(candidate, ground_of(lake))
    return _kept(
        lake,
        Learned(
            rule_id=rule_id,
            kind=candidate.kind,
            state="candidate",
            name=rule.name,
            definition=definition_of(rule),
            checks=checks,
            proposed_by=by,
            proposed_at=now,
            changed_by=by,
            changed_at=now,
            diagnosis_id=diagnosis_id,
            note=note,
            rule=rule,
        ),
    )


def decide(
    lake: Lake, clock: Clock, one: Learned, state: State, by: str, note: str = "", allow_silencing: bool = False
) -> Learned:
    """Approves, rejects or retires a rule. At approval every check runs again, with the current rules."""
    now = next((known for known in all_learned(lake) if known.rule_id == one.rule_id), None)
    if now is None or (now.state, now.changed_at, now.definition) != (one.state, one.changed_at, one.definition):
        became = f"is {now.state} by {label(now.changed_by, 80)}" if now else "is gone"
        raise UsageError(f"{one.name} {became} since you looked at it", "look again: gpulake rules review")
    if one.state not in FOLLOWS[state]:
        raise UsageError(f"{one.name} is {one.state}: it cannot become {state}", f"only: {' or '.join(FOLLOWS[state])}")
    checks = one.checks
    if state == "approved":
        if by.startswith(MODEL):
            raise UsageError("a model cannot approve a rule", "let a person review it")
        if one.candidate.is_silencing and not allow_silencing:
            raise UsageError(
                f"{one.name} has the role {one.candidate.rule.role}: it can make a failed job look healthy",
                "if that is meant, approve it with --allow-silencing",
            )
        checks = _passed(one.candidate, ground_of(lake))
    at = max(clock.now(), one.changed_at)  # a clock that was set back must not undo a decision
    return _kept(lake, replace(one, state=state, changed_by=by, changed_at=at, note=note, checks=checks))


def id_of(candidate: Candidate) -> str:
    """The same rule proposed again has the same id."""
    rule = candidate.rule
    parts = (candidate.kind, rule.pattern, rule.unless, rule.traceback, rule.role, rule.reason)
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:12]


def _passed(candidate: Candidate, ground: Ground) -> tuple[Check, ...]:
    checks = examined(candidate, ground)
    if wrong := failures(checks):
        raise UsageError(f"{label(candidate.rule.name, 80)} is refused: {'; '.join(wrong)}", "see docs/learn.md")
    return checks


def _kept(lake: Lake, one: Learned) -> Learned:
    columns = ("rule_id", "changed_at", "changed_by", "kind", "state", "name", "definition", "diagnosis_id", "note")
    row = {column: getattr(one, column) for column in columns}
    lake.append("rule_events", [{**row, "checks": [asdict(check) for check in one.checks]}])
    return one


def _read(row: dict[str, Any]) -> Learned:
    definition = row["definition"]
    definition = json.loads(definition) if isinstance(definition, str) else definition
    if row["kind"] not in get_args(Kind) or row["state"] not in STATES or not isinstance(definition, dict):
        raise ValueError("unknown kind, state or definition")
    changed_at = datetime.fromisoformat(row["changed_at"])
    if changed_at.tzinfo is None:
        raise ValueError("a time without a zone")
    rule, trouble = None, ""
    try:
        rule = rule_of(definition)
        for pattern in (rule.pattern, rule.unless, rule.traceback):
            compiled(pattern)
    except (ValueError, TypeError) as error:
        rule, trouble = None, label(error, 300)
    return Learned(
        rule_id=str(row["rule_id"]),
        kind=cast("Kind", row["kind"]),
        state=cast("State", row["state"]),
        name=str(row["name"]),
        definition=definition,
        checks=_checks(row.get("checks")),
        proposed_by=str(row["changed_by"]),
        proposed_at=changed_at,
        changed_by=str(row["changed_by"]),
        changed_at=changed_at,
        diagnosis_id=str(row.get("diagnosis_id") or ""),
        note=str(row.get("note") or ""),
        rule=rule,
        trouble=trouble,
    )


def _checks(value: Any) -> tuple[Check, ...]:
    """As far as they can be read: checks written by another version must not invalidate the rule."""
    checks = json_rows(value)
    return tuple(Check(str(one.get("check")), one.get("passed") is True, str(one.get("says") or "")) for one in checks)


def _usable(known: Iterable[Learned], kind: Kind, say: Callable[[str], None]) -> tuple[Rule, ...]:
    taken = {rule.name for rule in shipped_rules()} if kind == "rule" else set()
    found: list[Rule] = []
    for one in known:
        if one.kind != kind or one.state != "approved":
            continue
        if one.rule is None:
            say(f"the learned {kind} {label(one.name, 80)} is left out: {one.trouble}")
        elif one.rule.name in taken:
            say(f"the learned {kind} {label(one.name, 80)} is left out: another rule has its name")
        else:
            taken.add(one.rule.name)
            found.append(one.rule)
    return tuple(found)
