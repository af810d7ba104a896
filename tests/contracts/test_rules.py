"""What holds for every rule and every filter, with no test written for it."""

from __future__ import annotations

import random
import re

import pytest

from examples import each
from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN
from gpulake.diagnose.logs.automaton import any_of
from gpulake.diagnose.logs.filters import shipped_filters
from gpulake.diagnose.logs.markers import MARKERS
from gpulake.diagnose.logs.prefilter import relaxed
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.logs.shapes import DIGITS, HEX_DIGITS, shape_of
from gpulake.diagnose.rulebook.book import compiled, shipped
from gpulake.diagnose.rulebook.rule import EXPLAINING, Rule

RULES = shipped().rules
FILTERS = shipped_filters().filters
# A log says that there was a SIGKILL; that the kernel did not send it is seen in the node's memory alone. A spike is
# seen in many lines.
TOLD_BY_TELEMETRY = {"ProcessKilled", "LossSpike"}
each_rule = each("rule", RULES, name=lambda rule: rule.name)
each_filter = each("routine", FILTERS, name=lambda routine: routine.name)


@each_rule
def test_a_rule_matches_its_examples_and_nothing_that_it_ignores(rule: Rule) -> None:
    assert rule.matches
    assert [line for line in rule.matches if not shipped().is_matched(rule, line)] == []
    assert [line for line in rule.ignores if shipped().is_matched(rule, line)] == []


@each_rule
def test_a_rule_compiles_and_its_words_are_groups_of_its_pattern(rule: Rule) -> None:
    for pattern in filter(None, (rule.pattern, rule.unless, rule.traceback)):
        compiled(pattern)
    words = set(re.findall(r"\{(\w+)\}", rule.cause + rule.remedy))
    assert words <= set(compiled(rule.pattern).groupindex)


@pytest.mark.slow
@each_rule
def test_a_rule_is_found_by_the_first_look(rule: Rule) -> None:
    chance = random.Random(rule.name)
    lines = [line for line in rule.matches if "\n" not in line]
    lines += [re.sub(r"\d+", lambda _: str(chance.randrange(10 ** chance.randrange(1, 9))), line) for line in lines * 5]
    for line in filter(lambda line: shipped().is_matched(rule, line), lines):
        assert any_of([relaxed(rule.pattern)]).search(line.encode())
        for dropped in (DIGITS, HEX_DIGITS):
            assert any_of([relaxed(rule.pattern, dropped)]).search(shape_of(line.encode(), dropped))


@each_rule
def test_a_rule_does_not_make_every_line_worth_a_closer_look(rule: Rule) -> None:
    assert any_of([relaxed(rule.pattern, DIGITS)]).search(b"") is None


@each_rule
def test_no_other_rule_steals_the_examples_of_a_cause(rule: Rule) -> None:
    if rule.role != "cause":
        return
    for line in rule.matches:
        # What needs a traceback as well says nothing of a line alone.
        rivals = [
            hit.rule
            for hit in shipped().hits(line)
            if hit.rule.role in EXPLAINING and (hit.rule is rule or not hit.rule.needs_frames)
        ]
        winner = max(rivals, key=lambda rival: (rival.strength, -RULES.index(rival)))
        assert (winner.name, winner.reason) == (rule.name, rule.reason) or winner.reason == rule.reason, line


@each_rule
def test_a_scan_keeps_the_examples_of_a_rule(rule: Rule) -> None:
    lines = [line for line in rule.matches if "\n" not in line and "\r" not in line]
    log = "\n".join(["quiet"] * 700 + lines + ["quiet"] * 700).encode()
    kept = [line for line in scan("log", [log], shipped()).lines if 700 < line.number <= 700 + len(lines)]
    assert len(kept) == len(lines)
    assert all(line.is_hit for line in kept)


def test_every_reason_is_reached_by_a_rule() -> None:
    reached = {rule.reason for rule in RULES if rule.role in EXPLAINING}
    assert set(CATEGORY_OF) - {NOT_A_FAILURE, UNKNOWN} - reached <= TOLD_BY_TELEMETRY


@each_filter
def test_a_filter_matches_its_examples_and_nothing_that_it_ignores(routine: Rule) -> None:
    pattern = compiled(routine.pattern)
    assert routine.matches
    assert [line for line in routine.matches if not pattern.search(line)] == []
    assert [line for line in routine.ignores if pattern.search(line)] == []


@each_filter
def test_the_examples_of_a_filter_tell_of_no_trouble(routine: Rule) -> None:
    reported = [line for line in routine.matches if any(compiled(marker.pattern).search(line) for marker in MARKERS)]
    assert reported == []
