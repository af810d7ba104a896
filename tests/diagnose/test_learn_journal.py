"""What is learned outlives races, other versions and a broken journal: nothing counts that nobody approved."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from diagnose.learning import GROUND, QUOTA, candidate
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import UsageError
from gpulake.diagnose.learn.definitions import definition_of
from gpulake.diagnose.learn.learning import all_learned, decide, learned, propose
from gpulake.diagnose.learn.proposals import generalised
from gpulake.diagnose.learn.trials import examined, failures
from gpulake.diagnose.rulebook.book import with_learned
from gpulake.lake import Lake
from gpulake.lake.journal import FILES

DRAFT = candidate(generalised(QUOTA), QUOTA, name="learned_quota")
DEFINITION = definition_of(DRAFT.rule)


def row(lake: Lake, **changes: Any) -> None:
    """The last row of the journal again, but for what is changed."""
    lake.append("rule_events", [{**lake.journal("rule_events")[-1], **changes}])


def test_of_two_reviewers_at_once_the_first_one_decides(lake: Lake, clock: FrozenClock) -> None:
    one = propose(lake, clock, DRAFT, "ada")
    decide(lake, clock, one, "rejected", "bob")
    with pytest.raises(UsageError, match="is rejected by bob since you looked at it"):
        decide(lake, clock, one, "approved", "cyd")
    row(lake, state="approved", changed_by="cyd")  # written in the same moment
    assert [known.state for known in all_learned(lake)] == ["rejected"]
    assert learned(lake) == ()


def test_what_is_approved_is_what_was_looked_at(lake: Lake, clock: FrozenClock) -> None:
    seen = propose(lake, clock, DRAFT, "ada")
    decide(lake, clock, seen, "rejected", "bob")
    other = replace(DRAFT, rule=replace(DRAFT.rule, recovery="cordon_node_and_restart"))
    assert propose(lake, clock, other, "eve").rule_id == seen.rule_id
    with pytest.raises(UsageError, match="since you looked at it"):
        decide(lake, clock, seen, "approved", "cyd")


def test_an_approval_cannot_be_played_again(lake: Lake, clock: FrozenClock) -> None:
    approved = decide(lake, clock, propose(lake, clock, DRAFT, "ada"), "approved", "bob")
    again = lake.journal("rule_events")[-1]
    decide(lake, clock, approved, "retired", "cyd")
    lake.append("rule_events", [{**again, "changed_at": "2027-01-01T00:00:00+00:00"}])
    assert learned(lake) == ()


@pytest.mark.parametrize("setting", ["pattern", "unless", "traceback"])
def test_a_pattern_that_this_version_cannot_read_is_left_out_and_said(
    lake: Lake, clock: FrozenClock, setting: str
) -> None:
    one = decide(lake, clock, propose(lake, clock, DRAFT, "ada"), "approved", "bob")
    row(lake, rule_id="other", name="learned_other", definition={**one.definition, setting: "a(?=b)"})
    said: list[str] = []
    assert [rule.name for rule in learned(lake, said.append)] == ["learned_quota"]
    assert len(said) == 1
    assert said[0].startswith("the learned rule learned_other is left out: pattern")
    assert with_learned(learned(lake)).hits(QUOTA)


@pytest.mark.parametrize("checks", ["[", [{"check": "is_new", "passed": True, "took_seconds": 3}], {"a": 1}, [7], None])
def test_checks_of_another_version_do_not_cost_the_rule(lake: Lake, clock: FrozenClock, checks: object) -> None:
    decide(lake, clock, propose(lake, clock, DRAFT, "ada"), "approved", "bob")
    row(lake, rule_id="other", definition={**DEFINITION, "name": "learned_other"}, checks=checks)
    assert [rule.name for rule in learned(lake)] == ["learned_quota", "learned_other"]


def test_lines_that_are_no_rows_are_passed_over(lake: Lake, clock: FrozenClock) -> None:
    one = propose(lake, clock, DRAFT, "ada")
    path = lake.root / FILES["rule_events"]
    path.write_bytes(b'\x00\xff\n[]\n"a"\n{}\n' + path.read_bytes() + b'{"rule_id": "x", "sta')
    for changes in ({"changed_at": "yesterday"}, {"changed_at": "2026-01-02T03:04:05"}, {"definition": "["}):
        lake.append("rule_events", [{**lake.journal("rule_events")[-1], "rule_id": "y", **changes}])
    assert [known.rule_id for known in all_learned(lake)] == [one.rule_id]
    assert decide(lake, clock, one, "approved", "bob").changed_at == datetime.fromisoformat("2026-01-02T03:04:05+00:00")


@pytest.mark.parametrize(
    ("pattern", "line", "wrong"),
    [
        (r"\t{8}", "\t" * 8, "only 0 letters and digits of it are fixed"),
        (r"1{8}\.2", "11111111.2", "it is mostly numbers"),
        ("deadbeefcafe", "deadbeefcafe", "it is mostly numbers"),
        ("(?i)KELVIN exceeded", "\u212aelvin exceeded", "does not match its own line"),
    ],
)
def test_a_pattern_must_hold_where_it_will_be_searched_for(pattern: str, line: str, wrong: str) -> None:
    assert wrong in "; ".join(failures(examined(candidate(pattern, line), GROUND)))
