"""The ladder: warn, warn for the last time, cancel; never skipped, never twice, never the wrong job."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.act.commands import Outcome
from gpulake.act.holders import Holder
from gpulake.act.messages import messages
from gpulake.act.nudges import Nudge, carry_out, plan
from gpulake.core.nudge_settings import Nudges
from gpulake.core.types import NudgeRecord
from hand_made import holder, minute

RULES = Nudges(cancel_command=("scancel", "{job_id}"))


class Journal(list[NudgeRecord]):
    """Runs at given minutes, and what each of them did."""

    def __init__(self, rules: Nudges = RULES, outcome: Outcome | None = None) -> None:
        super().__init__()
        self.rules = rules
        self.outcome = outcome or Outcome("done", 0)
        self.cancelled: list[str] = []

    def run(self, *holders: Holder, at: float | None = None) -> list[tuple[str, str | None]]:
        now = max(one.seen_at for one in holders) if at is None else minute(at)
        due = plan(holders, list(self), self.rules, now)
        done = carry_out(due, self.append, self._cancel, "r", lambda: now)
        return [(nudge.holder.job_id, nudge.step) for nudge in done]

    def _cancel(self, one: Holder) -> Outcome:
        self.cancelled.append(one.job_id)
        return self.outcome


def test_first_sight_warns_however_long_it_has_been_and_each_step_waits_its_turn() -> None:
    journal = Journal()
    steps = [journal.run(holder(seen=seen))[0][1] for seen in (600, 601, 644, 645, 646, 659, 660, 661, 900)]
    assert steps == ["warn", None, None, "final", None, None, "cancel", None, None]
    assert journal.cancelled == ["j"]
    assert [(record.step, record.status, record.exit_code) for record in journal] == [
        ("warn", "sent", None),
        ("final", "sent", None),
        ("cancel", "started", None),
        ("cancel", "done", 0),
    ]


def test_the_user_has_time_to_read_even_if_the_lake_catches_up_at_once() -> None:
    journal = Journal()
    assert journal.run(holder(seen=60), at=300) == [("j", "warn")]
    assert journal.run(holder(seen=120), at=301) == [("j", None)]
    assert journal.run(holder(seen=120), at=345) == [("j", "final")]


def test_other_gpus_of_the_same_job_begin_at_the_first_step() -> None:
    journal = Journal()
    journal.run(holder(seen=60))
    journal.run(holder(seen=105))
    assert journal.run(holder(seen=300, since=200)) == [("j", "warn")]


REASONS = {
    "exclude_users": ("ann", "user ann is excluded"),
    "exclude_accounts": ("lab", "account lab is excluded"),
    "exclude_workloads": ("nlp", "workload nlp is excluded"),
    "exclude_groups": ("g", "group g is excluded"),
    "exclude_gpu_types": ("T4", "GPU type T4 is excluded"),
}


@pytest.mark.parametrize("setting", REASONS)
def test_an_excluded_user_is_skipped_with_a_reason(setting: str) -> None:
    value, reason = REASONS[setting]
    rules = Nudges(**{setting: (value,)})  # type: ignore[arg-type]
    assert plan([holder()], [], rules, minute(120)) == (Nudge(holder(), None, reason),)
    assert plan([holder(gpus=0.5)], [], replace(RULES, least_gpus=1.0), minute(120))[0].reason == (
        "holds fewer than 1 GPUs"
    )


def ready(one: Holder) -> list[NudgeRecord]:
    """The journal of a job that has had both warnings."""
    journal = Journal()
    journal.run(replace(one, seen_at=minute(60)))
    journal.run(replace(one, seen_at=minute(105)))
    return list(journal)


@pytest.mark.parametrize(
    ("one", "rules", "now", "reason"),
    [
        (holder(is_at_work=True), RULES, 120, "not cancelled: another of its attempts is at work, or may be"),
        (holder(), Nudges(), 120, "not cancelled: no cancel_command is set"),
        (holder(), RULES, 181, "not cancelled: it was last seen 1 h 1 min ago"),
        (holder("--all"), RULES, 120, "not cancelled: its job_id cannot be handed to a program safely"),
        (holder("1,2"), RULES, 120, "not cancelled: its job_id cannot be handed to a program safely"),
        (holder("a b"), RULES, 120, "not cancelled: its job_id cannot be handed to a program safely"),
        (holder("j\n"), RULES, 120, "not cancelled: its job_id cannot be handed to a program safely"),
        (
            holder(user_id=None),
            Nudges(cancel_command=("x", "{job_id}", "{user_id}")),
            120,
            "not cancelled: its user_id cannot be handed to a program safely",
        ),
        (holder(), replace(RULES, most_cancels_per_run=0), 120, "no more than 0 are cancelled in one run"),
    ],
)
def test_a_cancellation_is_held_back_where_it_could_do_harm(
    one: Holder, rules: Nudges, now: float, reason: str
) -> None:
    assert plan([one], ready(one), rules, minute(now)) == (Nudge(one, None, reason),)


def test_a_cancellation_that_failed_stops_the_run_and_may_be_tried_again() -> None:
    journal = Journal(outcome=Outcome("failed", 3, "no such job"))
    jobs = ("a", "b")
    for seen in (60, 105):
        journal.run(*(holder(job, seen=seen) for job in jobs))
    assert journal.run(*(holder(job, seen=120) for job in jobs)) == [("a", "cancel"), ("b", None)]
    assert journal.cancelled == ["a"]
    assert (journal[-1].status, journal[-1].exit_code, journal[-1].detail) == ("failed", 3, "no such job")
    journal.outcome = Outcome("done", 0)
    assert journal.run(*(holder(job, seen=130) for job in jobs)) == [("a", "cancel"), ("b", "cancel")]
    assert journal.run(*(holder(job, seen=140) for job in jobs)) == [("a", None), ("b", None)]


@pytest.mark.parametrize("last", ["started", "unknown"])
def test_a_cancellation_of_unknown_outcome_is_not_repeated(last: str) -> None:
    records = ready(holder())
    started = replace(records[-1], step="cancel", status="started")
    journal = [*records, started] if last == "started" else [*records, started, replace(started, status="unknown")]
    (nudge,) = plan([holder(seen=500)], journal, RULES, minute(500))
    assert (nudge.step, nudge.reason) == (None, "its cancellation was started at 2025-12-31 17:45 UTC")


def test_a_user_gets_one_message_for_all_of_their_jobs() -> None:
    due = [
        Nudge(holder("a", seen=180, gpus=8.0, cost=48.0), "warn"),
        Nudge(holder("b", seen=180, gpus=0.5, since=30), "final"),
        Nudge(holder("c", seen=180, user_id="bob"), "cancel", outcome=Outcome("done", 0)),
        Nudge(holder("d", seen=180, user_id="cy"), None, "user cy is excluded"),
    ]
    ann, bob = messages(due, RULES, "EUR")
    assert (ann.user_id, ann.job_ids, ann.subject) == (
        "ann",
        ("a", "b"),
        "2 jobs of yours on c: 8.5 GPUs held, and empty",
    )
    assert ann.text == (
        "To ann: these jobs hold GPUs that they have not used since they got them.\n"
        "  job a: first warning\n"
        "    8 GPUs (T4) since 2025-12-31 16:00 UTC, 3 h: 24.0 GPU-hours, 48.0 EUR\n"
        "  job b: last warning\n"
        "    0.5 GPUs (T4) since 2025-12-31 16:30 UTC, 2 h 30 min: 1.2 GPU-hours\n"
        "A first warning is followed by a last one, 45 min later, if nothing changes.\n"
        "After a last warning a job is cancelled, 15 min later, if nothing changes.\n"
        "If a job is done or stuck, end it. If it needs fewer GPUs, or none, ask for fewer."
    )
    assert bob.job_ids == ("c",)
    assert "  job c: cancelled\n" in bob.text
    assert "cancelled" not in messages(due[:2], Nudges(), "EUR")[0].text


RUNS = st.lists(
    st.tuples(
        st.floats(0, 90),  # minutes since the last run
        st.lists(st.integers(0, 5), unique=True),  # the jobs that are seen empty
        st.sampled_from([Outcome("done", 0), Outcome("done", 0), Outcome("failed", 1), Outcome("unknown")]),
    ),
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=cases(150))
@given(RUNS, st.integers(0, 3))
def test_whatever_is_seen_when_the_ladder_holds(runs: list[tuple[float, list[int], Outcome]], cap: int) -> None:
    rules = replace(RULES, most_cancels_per_run=cap, exclude_users=("vip",))
    journal = Journal(rules)
    now = 60.0
    for wait, jobs, outcome in runs:
        now += wait
        seen = [holder(str(job), seen=now, user_id="vip" if job == 5 else "ann") for job in jobs]
        if not seen:
            continue
        journal.outcome = outcome
        before = len(journal)
        cancelled = len(journal.cancelled)
        journal.run(*seen)
        assert len(journal.cancelled) - cancelled <= cap
        assert {record.job_id for record in journal[before:]} <= {one.job_id for one in seen}
        if outcome.status == "done" and len(journal.cancelled) - cancelled < max(cap, 1):
            # The same time again: nothing is due. What the cap held back is due in another run.
            after = len(journal)
            journal.run(*seen)
            assert len(journal) == after
    by_job: dict[str, list[NudgeRecord]] = defaultdict(list)
    for record in journal:
        by_job[record.job_id].append(record)
    assert "5" not in by_job
    for records in by_job.values():
        steps = [record.step for record in records]
        assert steps == sorted(steps, key=["warn", "final", "cancel"].index)
        assert steps[:2] == ["warn", "final"][: len(steps)]
        assert steps.count("warn") == 1
        assert steps.count("final") <= 1
        # A cancellation that was done, or may have been, is the last.
        ends = [record.status for record in records if record.step == "cancel" and record.status != "started"]
        assert all(status == "failed" for status in ends[:-1])
        waits = [later.seen_at - earlier.seen_at for earlier, later in pairwise(records)]
        assert all(wait >= timedelta(minutes=least) for wait, least in zip(waits, (45, 15), strict=False))
