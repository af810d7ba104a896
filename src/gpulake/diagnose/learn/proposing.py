"""Rules and filters that people propose, and what each would change in recent logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpulake.core.clock import Clock
from gpulake.core.errors import UsageError
from gpulake.core.ids import the_one
from gpulake.core.incidents import Incident
from gpulake.diagnose.learn.candidates import Candidate, Check, Ground
from gpulake.diagnose.learn.definitions import LEARNED, definition_of
from gpulake.diagnose.learn.drafts import filter_draft, rule_draft
from gpulake.diagnose.learn.ground import quotes, recent, recurring
from gpulake.diagnose.learn.learning import MODEL, Learned, all_learned, ground_of, learned, no_message, propose
from gpulake.diagnose.learn.proposals import masked
from gpulake.diagnose.learn.trials import examined
from gpulake.diagnose.rulebook.book import Rulebook, compiled, shipped_rules
from gpulake.diagnose.rulebook.rule import EXPLAINING, Rule
from gpulake.lake import Lake

RECENT_LOGS = 50


@dataclass(frozen=True)
class Proposal:
    """What the proposer says about a rule; the rest is derived from the line."""

    by: str
    reason: str = ""  # of a line; an incident has one already
    cause: str = ""
    remedy: str = ""
    note: str = ""
    more: dict[str, Any] = field(default_factory=dict)  # role, recovery, pattern, keep, name


@dataclass(frozen=True)
class Effect:
    """A line of a recent log that a candidate would match, and its present explanation."""

    text: str
    lines: int
    log: str
    now: str  # the rule that explains it now, with its reason, or empty

    @property
    def sign(self) -> str:
        return "~" if self.now else "+"


def is_there(lake: Lake) -> bool:
    """Whether there is a lake: shipped rules need none."""
    return lake.root.exists() and lake.open() is lake


def rules_in_force(lake: Lake, say: Callable[[str], None] = no_message) -> tuple[Rule, ...]:
    return (*shipped_rules(), *(learned(lake, say) if is_there(lake) else ()))


def ground_in_force(lake: Lake) -> Ground:
    return ground_of(lake) if is_there(lake) else Ground(shipped_rules())


def everything_learned(lake: Lake) -> list[Learned]:
    return all_learned(lake) if is_there(lake) else []


def the_learned(lake: Lake, given: str) -> Learned:
    """By name, id or an unambiguous prefix. Of several of the same name the approved one, else the newest."""
    known = everything_learned(lake)
    meant = the_one(
        given,
        {word for one in known for word in (one.rule_id, one.name)},
        "learned rule",
        "gpulake rules list --learned",
    )
    found = [one for one in known if meant in (one.rule_id, one.name)]
    return max(found, key=lambda one: (one.state == "approved", one.state == "candidate", one.changed_at))


def propose_for_incident(
    lake: Lake, clock: Clock, incident: Incident, diagnosis: Mapping[str, Any], evidence: int, proposal: Proposal
) -> Learned:
    """From the line that proved an incident which a person confirmed, or which a model diagnosed."""
    is_by_model = not incident.is_confirmed
    if is_by_model and diagnosis.get("method") != "model":
        raise UsageError(
            f"incident {incident.incident_id} is not confirmed",
            f"confirm or correct it first: gpulake incidents confirm {incident.incident_id}",
        )
    lines = quotes(diagnosis.get("evidence"))
    if not 1 <= evidence <= len(lines):
        raise UsageError(
            f"incident {incident.incident_id} has {len(lines)} lines of evidence",
            "name a line yourself with --line TEXT",
        )
    decided = "diagnosed by a model" if is_by_model else f"confirmed by {incident.changed_by}"
    candidate = rule_draft(
        lines[evidence - 1],
        incident.reason,
        rules_in_force(lake),
        _names(lake),
        cause=proposal.cause or incident.cause,
        remedy=proposal.remedy or incident.remedy,
        source=f"incident {incident.incident_id}, {decided} on {incident.changed_at:%Y-%m-%d}",
        is_by_model=is_by_model,
        **proposal.more,
    )
    by, note = (
        (f"{MODEL}diagnosis", f"asked for by {proposal.by}. {proposal.note}")
        if is_by_model
        else (proposal.by, proposal.note)
    )
    return propose(lake, clock, candidate, by, incident.diagnosis_id, note.strip())


def propose_line(lake: Lake, clock: Clock, line: str, proposal: Proposal) -> Learned:
    """From a line that a person names."""
    source = f"{proposal.by} on {clock.now():%Y-%m-%d}"
    known = rules_in_force(lake.create())
    candidate = rule_draft(
        line,
        proposal.reason,
        known,
        _names(lake),
        cause=proposal.cause,
        remedy=proposal.remedy,
        source=source,
        **proposal.more,
    )
    return propose(lake, clock, candidate, proposal.by, "", proposal.note)


def propose_filter(lake: Lake, clock: Clock, line: str, proposal: Proposal) -> Learned:
    source = f"{proposal.by} on {clock.now():%Y-%m-%d}"
    candidate = filter_draft(line, _names(lake.create()), source=source, **proposal.more)
    return propose(lake, clock, candidate, proposal.by, "", proposal.note)


def propose_filters(lake: Lake, clock: Clock, least_logs: int, by: str) -> tuple[list[Learned], list[tuple[str, str]]]:
    """From templates that recur in healthy logs: what became a candidate, and what did not, with the reason."""
    made: list[Learned] = []
    refused: list[tuple[str, str]] = []
    for one in recurring(lake.open(), least_logs):
        source = f"recurs in {one.logs} healthy logs, {one.lines:,} lines"
        try:
            made.append(propose(lake, clock, filter_draft(one.example, _names(lake), source=source), by))
        except UsageError as error:
            refused.append((one.example, error.message))
    return made, refused


def import_rules(
    lake: Lake, clock: Clock, rules: Sequence[Rule], by: str, note: str
) -> tuple[list[Learned], list[tuple[str, str]]]:
    """What became a candidate, and what did not, with the reason."""
    made: list[Learned] = []
    refused: list[tuple[str, str]] = []
    lake.create()
    for rule in rules:
        try:
            made.append(propose(lake, clock, Candidate(replace(rule, family=LEARNED)), by, note=note))
        except UsageError as error:
            refused.append((rule.name, error.message))
    return made, refused


def effects(lake: Lake, candidate: Candidate) -> list[Effect]:
    """The lines of the newest logs that it would match."""
    book = Rulebook(rules_in_force(lake))
    found = []
    for seen in recent(lake, RECENT_LOGS):
        text = seen.text.encode(errors="replace").decode()
        if candidate.matches(text):
            hits = [hit.rule for hit in book.hits(text) if hit.rule.role in EXPLAINING]
            now = f"{hits[0].name}, {hits[0].reason}" if hits else ""
            found.append(Effect(text, seen.lines, seen.log, now))
    return found


def _names(lake: Lake) -> Sequence[str]:
    return [*(rule.name for rule in shipped_rules()), *(one.name for one in all_learned(lake))]


def examined_together(lake: Lake, rules: Sequence[Rule]) -> list[tuple[Rule, tuple[Check, ...]]]:
    """Checks the rules of a file, also against each other. A rule of a shipped file replaces the shipped one."""
    ground = ground_in_force(lake)
    tried = {(rule.name, rule.family) for rule in rules}
    others = [rule for rule in ground.rules if (rule.name, rule.family) not in tried]
    sound = [rule for rule in rules if _is_sound(rule)]
    return [
        (rule, examined(Candidate(rule), replace(ground, rules=(*others, *(one for one in sound if one is not rule)))))
        for rule in rules
    ]


def _is_sound(rule: Rule) -> bool:
    try:
        return all(map(compiled, filter(None, (rule.pattern, rule.unless))))
    except ValueError:
        return False


def shareable(lake: Lake, say: Callable[[str], None] = no_message) -> list[dict[str, Any]]:
    """Approved rules without names of people and machines. A rule whose pattern needs one is skipped with a warning."""
    found = []
    for rule in learned(lake, say):
        shared = replace(
            rule,
            matches=tuple(map(masked, rule.matches)),
            ignores=tuple(map(masked, rule.ignores)),
            cause=masked(rule.cause),
            remedy=masked(rule.remedy),
            source="learned and approved elsewhere",
        )
        known = Candidate(shared)
        if all(map(known.matches, shared.matches)) and not any(map(known.matches, shared.ignores)):
            found.append(definition_of(shared))
        else:
            say(f"{rule.name} is skipped: its pattern contains names that should not be shared")
    return found
