"""What was learned: proposed, reviewed, used, retired; and what became of an incident."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import rows_of
from diagnose.learning import AT, QUOTA, candidate, record
from examples import each
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import UsageError
from gpulake.core.ids import the_one
from gpulake.core.incidents import (
    STATES,
    TRANSITIONS,
    Event,
    Incident,
    changed,
    confirmed,
    corrected,
    histories,
)
from gpulake.diagnose.learn.candidates import Proof, agreed_recovery
from gpulake.diagnose.learn.definitions import as_toml, definition_of, rule_of
from gpulake.diagnose.learn.drafts import filter_draft, name_for, rule_draft
from gpulake.diagnose.learn.ground import Recurring, past, recurring
from gpulake.diagnose.learn.learning import Learned, all_learned, decide, ground_of, learned, learned_filters, propose
from gpulake.diagnose.learn.proposals import generalised, whole_line
from gpulake.diagnose.learn.proposing import Proposal, propose_filters, propose_for_incident, shareable
from gpulake.diagnose.rulebook.book import read_rules, shipped_rules, with_learned
from gpulake.diagnose.rulebook.rule import Rule
from gpulake.flow.incidents import change, read_incident
from gpulake.lake import Lake

DRAFT = candidate(generalised(QUOTA), QUOTA, name="learned_quota")


def test_a_candidate_counts_only_once_it_is_approved_and_no_more_once_it_is_retired(
    lake: Lake, clock: FrozenClock
) -> None:
    one = propose(lake, clock, DRAFT, "ada", "d1", "seen twice")
    assert (one.state, one.proposed_by, one.diagnosis_id, one.note) == ("candidate", "ada", "d1", "seen twice")
    assert all(check.passed for check in one.checks)
    assert learned(lake) == ()
    approved = decide(lake, clock, one, "approved", "bob", "fine")
    assert (approved.state, approved.proposed_by, approved.changed_by) == ("approved", "ada", "bob")
    assert learned(lake) == (replace(DRAFT.rule, family="learned"),)
    assert [hit.rule.name for hit in with_learned(learned(lake)).hits(QUOTA)] == ["learned_quota"]
    retired = decide(lake, clock, approved, "retired", "cyd")
    assert learned(lake) == ()
    assert all_learned(lake) == [replace(retired, rule=replace(DRAFT.rule, family="learned"))]
    history = rows_of(lake, "SELECT state, changed_by, name, kind FROM rule_events ORDER BY changed_at")
    assert history == [
        {"state": "candidate", "changed_by": "ada", "name": "learned_quota", "kind": "rule"},
        {"state": "approved", "changed_by": "bob", "name": "learned_quota", "kind": "rule"},
        {"state": "retired", "changed_by": "cyd", "name": "learned_quota", "kind": "rule"},
    ]
    assert rows_of(lake, "SELECT state, changed_by FROM learned_rules") == [{"state": "retired", "changed_by": "cyd"}]


def test_a_clock_that_was_set_back_does_not_undo_a_decision(lake: Lake, clock: FrozenClock) -> None:
    one = propose(lake, clock, DRAFT, "ada")
    decide(lake, FrozenClock(clock.now() - timedelta(days=1)), one, "approved", "bob")
    assert [known.state for known in all_learned(lake)] == ["approved"]


def test_states_follow_one_another(lake: Lake, clock: FrozenClock) -> None:
    one = propose(lake, clock, DRAFT, "ada")
    with pytest.raises(UsageError, match="cannot become retired"):
        decide(lake, clock, one, "retired", "bob")
    rejected = decide(lake, clock, one, "rejected", "bob")
    with pytest.raises(UsageError, match="cannot become approved"):
        decide(lake, clock, rejected, "approved", "bob")


def test_what_was_rejected_may_be_proposed_again_by_a_person_but_not_by_a_model(lake: Lake, clock: FrozenClock) -> None:
    one = propose(lake, clock, DRAFT, "model:m")
    with pytest.raises(UsageError, match="is candidate already"):
        propose(lake, clock, DRAFT, "ada")
    decide(lake, clock, one, "rejected", "bob")
    with pytest.raises(UsageError, match="was rejected by bob"):
        propose(lake, clock, DRAFT, "model:m")
    assert propose(lake, clock, DRAFT, "ada").state == "candidate"


def test_a_model_cannot_approve(lake: Lake, clock: FrozenClock) -> None:
    with pytest.raises(UsageError, match="a model cannot approve"):
        decide(lake, clock, propose(lake, clock, DRAFT, "model:m"), "approved", "model:m")


def test_what_can_silence_needs_to_be_allowed(lake: Lake, clock: FrozenClock) -> None:
    line = "all shards are written, good bye"
    one = propose(lake, clock, candidate(line, line, role="success"), "ada")
    with pytest.raises(UsageError, match="can make a failed job look healthy"):
        decide(lake, clock, one, "approved", "bob")
    assert decide(lake, clock, one, "approved", "bob", allow_silencing=True).state == "approved"


def test_at_approval_the_checks_run_against_the_rules_and_the_past_of_then(lake: Lake, clock: FrozenClock) -> None:
    one = propose(lake, clock, DRAFT, "ada")
    record(lake, "fine", "healthy", "NotAFailure", templates=(QUOTA,))
    with pytest.raises(UsageError, match="matches a line of a healthy log"):
        decide(lake, clock, one, "approved", "bob")
    assert [known.state for known in all_learned(lake)] == ["candidate"]


def test_two_of_a_kind_are_not_both_approved(lake: Lake, clock: FrozenClock) -> None:
    wider = candidate("quota of volume .* is used", QUOTA, name="learned_wider")
    first, second = propose(lake, clock, DRAFT, "ada"), propose(lake, clock, wider, "ada")
    with pytest.raises(UsageError, match="a rule named learned_quota is there already"):
        propose(lake, clock, candidate("quota of volume", QUOTA, name="learned_quota"), "ada")
    decide(lake, clock, first, "approved", "bob")
    with pytest.raises(UsageError, match="rule learned_quota matches all of its lines already"):
        decide(lake, clock, second, "approved", "bob")


def test_what_this_version_cannot_read_is_skipped_and_said(lake: Lake, clock: FrozenClock) -> None:
    decide(lake, clock, propose(lake, clock, DRAFT, "ada"), "approved", "bob")
    good = definition_of(DRAFT.rule)
    broken = [
        {**good, "name": "newer", "window_seconds": 5},
        {**good, "name": "older", "pattern": "(?=a)"},
        {**good, "name": "typed", "matches": "not a list"},
        {**good, "name": shipped_rules()[0].name},
    ]
    for number, definition in enumerate(broken):
        row = {"rule_id": f"r{number}", "changed_at": AT, "changed_by": "x", "kind": "rule", "state": "approved"}
        lake.append("rule_events", [{**row, "name": definition["name"], "definition": definition, "checks": []}])
    lake.append("rule_events", [{"rule_id": "cut"}, {"rule_id": "odd", "changed_at": "never", "definition": 5}])
    said: list[str] = []
    assert [rule.name for rule in learned(lake, said.append)] == ["learned_quota"]
    assert [message.split(" is left out: ")[1].split(";")[0] for message in said] == [
        "unknown key 'window_seconds'",
        "pattern '(?=a)' does not compile: b'invalid perl operator: (?='",
        "matches is not a list of texts",
        "another rule has its name",
    ]


def test_a_filter_is_kept_apart_from_rules(lake: Lake, clock: FrozenClock) -> None:
    line = "loaded shard 17 of 512"
    decide(lake, clock, propose(lake, clock, filter_draft(line, source="s"), "ada"), "approved", "bob")
    assert learned(lake) == ()
    assert [(rule.pattern, rule.role) for rule in learned_filters(lake)] == [(whole_line(line), "noise")]


def test_what_recurs_in_healthy_logs_becomes_a_candidate_filter(lake: Lake, clock: FrozenClock) -> None:
    routine, odd = "loaded shard 17 of 512", "retrying after an error in shard 3"
    for number in range(3):
        record(lake, f"fine{number}", "healthy", "NotAFailure", templates=(routine, odd))
    record(lake, "bad", templates=("only once seen in all these logs",))
    assert recurring(lake, 3) == [Recurring(routine, 3, 21), Recurring(odd, 3, 21)]
    made, refused = propose_filters(lake, clock, 3, "ada")
    assert [(one.name, one.state, one.kind) for one in made] == [
        ("learned_routine_loaded_shard_of", "candidate", "filter")
    ]
    assert [line for line, _ in refused] == [odd]
    assert propose_filters(lake, clock, 4, "ada") == ([], [])


def test_the_past_is_what_people_say_it_is(lake: Lake, clock: FrozenClock) -> None:
    record(lake, "fine", "healthy", "NotAFailure", templates=("a healthy line",))
    record(lake, "bad", evidence=("first", "second"), templates=("a failing line",))
    record(lake, "alarm", evidence=("third",), templates=("a line of a false alarm",))
    change(lake, clock, "correct", "alarm", "ada", reason="NotAFailure")
    change(lake, clock, "correct", "bad", "ada", reason="DiskFull")
    healthy, proofs = past(lake)
    assert healthy == (("a healthy line", "/logs/fine.log"), ("a line of a false alarm", "/logs/alarm.log"))
    assert proofs == (Proof("first", "DiskFull", "bad", True), Proof("second", "DiskFull", "bad", False))


def proposed_for(lake: Lake, clock: FrozenClock, incident_id: str, evidence: int) -> Learned:
    case = read_incident(lake, incident_id)
    return propose_for_incident(lake, clock, case.incident, case.diagnosis, evidence, Proposal("ada"))


def test_a_confirmed_incident_becomes_a_candidate(lake: Lake, clock: FrozenClock) -> None:
    record(lake, "abc", evidence=(f"[rank1]: {QUOTA}", "other"))
    with pytest.raises(UsageError, match="incident abc is not confirmed"):
        proposed_for(lake, clock, "abc", 1)
    said = {"reason": "DiskFull", "cause": "volume {scratch} was full", "remedy": "Delete what is old."}
    change(lake, clock, "correct", "abc", "bob", **said)
    with pytest.raises(UsageError, match="has 2 lines of evidence"):
        proposed_for(lake, clock, "abc", 3)
    one = proposed_for(lake, clock, "abc", 1)
    assert (one.proposed_by, one.diagnosis_id) == ("ada", "d-abc")
    assert one.definition | {"recovery": ""} == {
        "name": "learned_quota_of_volume_scratch_is_used",
        "pattern": r"quota of volume scratch[\d.,]+ is used up after [\d.,]+ GiB",
        "role": "cause",
        "matches": [f"[rank1]: {QUOTA}"],
        "reason": "DiskFull",
        "cause": "volume (scratch) was full",
        "remedy": "Delete what is old.",
        "recovery": "",
        "source": "incident abc, confirmed by bob on 2026-01-02",
    }
    assert one.candidate.rule.recovery == agreed_recovery("DiskFull", shipped_rules())


def test_a_models_diagnosis_becomes_a_models_candidate(lake: Lake, clock: FrozenClock) -> None:
    record(lake, "abc", reason="DiskFull", evidence=(QUOTA,), method="model")
    one = proposed_for(lake, clock, "abc", 1)
    assert (one.proposed_by, one.note, one.candidate.is_by_model) == ("model:diagnosis", "asked for by ada.", True)


def test_a_draft_takes_the_rest_from_rules_of_its_reason_and_stands_above_those_that_disagree() -> None:
    known = Rule(
        "k", "a wide pattern", "cause", ("x",), reason="DiskFull", cause="{a} b", remedy="Do this.", strength=60
    )
    wide = Rule("w", "quota of", "cause", ("x",), reason="OSError", strength=70)
    person = rule_draft(QUOTA, "DiskFull", (known, wide), source="s").rule
    model = rule_draft(QUOTA, "DiskFull", (known, wide), source="s", is_by_model=True).rule
    assert (person.remedy, person.strength, model.strength) == ("Do this.", 75, 50)
    assert person.cause == "quota of volume scratch… is used up after … GiB"
    with pytest.raises(UsageError, match="no rule of NodeFailure says what to do"):
        rule_draft(QUOTA, "NodeFailure", (known,), source="s")
    with pytest.raises(UsageError, match="not one line"):
        rule_draft("a\nb", "DiskFull", (known,), source="s")


def test_what_is_shared_names_no_place(lake: Lake, clock: FrozenClock) -> None:
    line = "cannot write /home/ada/run_7/x.pt on node secret-12: the quota is used up"
    other = "no more room below /home/ada/run_7 for shards"
    for one in (
        candidate(generalised(line), line, name="learned_a"),
        candidate("no more room below /home/ada/run_7", other, name="learned_b"),
    ):
        decide(lake, clock, propose(lake, clock, one, "ada"), "approved", "bob")
    said: list[str] = []
    shared = shareable(lake, said.append)
    assert [rule["name"] for rule in shared] == ["learned_a"]
    assert "ada" not in json.dumps(shared)
    assert "secret" not in json.dumps(shared)
    assert said == ["learned_b is skipped: its pattern contains names that should not be shared"]


@given(words=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3))
def test_a_rule_written_as_toml_reads_back(words: list[str]) -> None:
    pattern, example, cause = words
    rule = Rule("a_rule", pattern, "clue", (example, "x\\d'"), cause=cause, family="f", strength=0)
    assert read_rules(as_toml([definition_of(rule)], "Rules"), "f") == [rule]
    assert rule_of(json.loads(json.dumps(definition_of(rule))), "f") == rule


def test_an_id_is_named_by_its_beginning_or_the_nearest_are_reported() -> None:
    known = ["3f2a11", "3f2b22", "9c0000"]
    assert the_one("9", known, "incident", "how") == "9c0000"
    assert the_one("3f2a11", known, "incident", "how") == "3f2a11"
    for given_id, hint in (("3f2", "choose from: 3f2a11, 3f2b22"), ("3f2c11", "3f2a11"), ("zz", "list them with: how")):
        with pytest.raises(UsageError) as error:
            the_one(given_id, known, "incident", "how")
        assert hint in error.value.hint
    with pytest.raises(UsageError):
        the_one("", known, "incident", "how")


def test_a_name_is_made_of_words_and_taken_once() -> None:
    assert name_for("Quota of `volume` 7", ()) == "learned_quota_of_volume"
    assert name_for("Quota", ["learned_quota", "learned_quota_2"]) == "learned_quota_3"
    assert name_for("№ 5", ()) == "learned"


OPEN = Incident("i1", AT, "opened", "gpulake", reason="OSError", category="script", cause="c", remedy="r", opened_at=AT)


def test_a_person_confirms_or_corrects() -> None:
    later = AT + timedelta(hours=1)
    yes = confirmed(OPEN, "ada", later, "sure")
    assert yes == replace(
        OPEN, event="confirmed", changed_by="ada", changed_at=later, note="sure", is_confirmed=True, revision=2
    )
    no = corrected(yes, "bob", later, reason="DiskFull")
    assert (no.reason, no.category, no.cause, no.remedy, no.is_confirmed) == (
        "DiskFull",
        "infrastructure",
        "DiskFull",
        "",
        True,
    )
    same = corrected(OPEN, "bob", later, reason="OSError", remedy="better")
    assert (same.cause, same.remedy) == ("c", "better")
    with pytest.raises(UsageError, match="no reason that could be confirmed"):
        confirmed(replace(OPEN, reason="unknown"), "ada", later)
    for reason in ("unknown", "DiskFul"):
        with pytest.raises(UsageError, match="no reason named"):
            corrected(OPEN, "ada", later, reason=reason)


def test_what_a_person_said_outlives_later_diagnoses() -> None:
    yes = corrected(OPEN, "ada", AT, reason="DiskFull", cause="full")
    again = changed(yes, "updated", "gpulake", AT, reason="OSError", cause="x", diagnosis_id="d2", is_confirmed=False)
    assert (again.reason, again.cause, again.diagnosis_id, again.is_confirmed) == ("DiskFull", "full", "d2", True)
    assert changed(OPEN, "updated", "gpulake", AT, reason="DiskFull").reason == "DiskFull"


@each("event", TRANSITIONS)
def test_every_event_leads_somewhere_or_says_why_not(event: Event) -> None:
    for state in STATES:
        incident = replace(OPEN, state=state)
        if state in TRANSITIONS[event].comes_from:
            after = changed(incident, event, "ada", AT)
            assert after.state == (TRANSITIONS[event].leads_to or state)
        else:
            with pytest.raises(UsageError, match=f"is {state}"):
                changed(incident, event, "ada", AT)


def test_an_incident_reads_back_as_it_was_written(lake: Lake) -> None:
    record(lake, "abc", reason="OSError")
    change(lake, FrozenClock(AT - timedelta(days=9)), "confirm", "ab", "ada")
    lake.append(
        "incident_events", [{"incident_id": None, "note": "cut"}, {"event": "opened", "changed_at": "2026-01-02"}]
    )
    found = histories(lake.journal("incident_events"))
    assert {name: [one.event for one in events] for name, events in found.items()} == {"abc": ["opened", "confirmed"]}
    standing = rows_of(lake, "SELECT is_confirmed, changed_by, state FROM incidents")
    assert standing == [{"is_confirmed": True, "changed_by": "ada", "state": "open"}]
    assert ground_of(lake).rules == shipped_rules()
