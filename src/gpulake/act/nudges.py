"""The escalation: a warning, a final warning, a cancellation. No step is skipped or taken twice; each has a delay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from gpulake.act.commands import MOST_SECONDS, SAFE, Outcome, run
from gpulake.act.holders import Holder
from gpulake.core.gpu_models import matching
from gpulake.core.nudge_settings import Nudges
from gpulake.core.placeholders import filled
from gpulake.core.types import NudgeRecord
from gpulake.core.words import span

Step = Literal["warn", "final", "cancel"]


@dataclass(frozen=True)
class Nudge:
    """What is due for a job: a step, or the reason why there is none."""

    holder: Holder
    step: Step | None
    reason: str = ""
    outcome: Outcome | None = None  # of a cancellation that was carried out


Cancel = Callable[[Holder], Outcome]
Record = Callable[[NudgeRecord], None]


def plan(holders: Iterable[Holder], journal: Sequence[NudgeRecord], rules: Nudges, now: datetime) -> tuple[Nudge, ...]:
    """What is due at this time, most GPU-hours first."""
    past: dict[tuple[str, str], list[NudgeRecord]] = {}
    for record in journal:
        past.setdefault((record.cluster_id, record.job_id), []).append(record)
    ordered = sorted(holders, key=lambda holder: (-holder.gpu_hours, holder.cluster_id, holder.job_id))
    due = [_due(holder, past.get((holder.cluster_id, holder.job_id), []), rules, now) for holder in ordered]
    cancels = [nudge for nudge in due if nudge.step == "cancel"]
    over = {id(nudge) for nudge in cancels[rules.most_cancels_per_run :]}
    why = f"no more than {rules.most_cancels_per_run} are cancelled in one run"
    return tuple(Nudge(nudge.holder, None, why) if id(nudge) in over else nudge for nudge in due)


def _due(holder: Holder, past: Sequence[NudgeRecord], rules: Nudges, now: datetime) -> Nudge:
    cancels = [record for record in past if record.step == "cancel"]
    outcomes = Counter(record.status for record in cancels)
    # A cancellation that was started and has no result may have been done.
    if outcomes["started"] > outcomes["failed"]:
        return Nudge(holder, None, f"its cancellation was started at {cancels[-1].nudged_at:%Y-%m-%d %H:%M} UTC")
    if reason := _excluded(holder, rules):
        return Nudge(holder, None, reason)
    # Warnings about GPUs that the job held before do not count.
    warned = {record.step: record for record in reversed(past) if record.seen_at >= holder.since}
    if "warn" not in warned:
        return Nudge(holder, "warn")
    if "final" not in warned:
        minutes = rules.final_after_minutes - rules.warn_after_minutes
        return _after(warned["warn"], minutes, holder, "final", now)
    nudge = _after(warned["final"], rules.cancel_after_minutes - rules.final_after_minutes, holder, "cancel", now)
    if nudge.step == "cancel" and (reason := _held_back(holder, rules, now)):
        return Nudge(holder, None, reason)
    return nudge


def _after(last: NudgeRecord, minutes: float, holder: Holder, step: Step, now: datetime) -> Nudge:
    """The GPUs must have been seen empty for that long since, and the user must have had that long to read it."""
    waited = min(holder.seen_at - last.seen_at, now - last.nudged_at)
    if waited >= timedelta(minutes=minutes):
        return Nudge(holder, step)
    word = {"warn": "warned", "final": "warned for the last time"}[last.step]
    ago = span(max(waited.total_seconds(), 0.0))
    return Nudge(holder, None, f"{word} {ago} ago; the next step is {span(60 * minutes)} after that")


def _excluded(holder: Holder, rules: Nudges) -> str:
    if holder.gpus < rules.least_gpus:
        return f"holds fewer than {rules.least_gpus:g} GPUs"
    for what, value, excluded in (
        ("user", holder.user_id, rules.exclude_users),
        ("account", holder.account_id, rules.exclude_accounts),
        ("workload", holder.workload, rules.exclude_workloads),
        ("group", holder.group_id, rules.exclude_groups),
    ):
        if value in excluded:
            return f"{what} {value} is excluded"
    excluded_types = dict.fromkeys(rules.exclude_gpu_types, True)
    kinds = [kind for kind in holder.gpu_types if matching(kind, excluded_types)]
    return f"GPU type {kinds[0]} is excluded" if kinds else ""


def _held_back(holder: Holder, rules: Nudges, now: datetime) -> str:
    """Why a job that could be cancelled is not."""
    if holder.is_at_work:
        return "not cancelled: another of its attempts is at work, or may be"
    if not rules.cancel_command:
        return "not cancelled: no cancel_command is set"
    stale = now - holder.seen_at
    if stale > timedelta(minutes=rules.most_stale_minutes):
        return f"not cancelled: it was last seen {span(stale.total_seconds())} ago"
    for name, value in words_of(holder).items():
        if any(f"{{{name}}}" in part for part in rules.cancel_command) and not SAFE.fullmatch(value):
            return f"not cancelled: its {name} cannot be handed to a program safely"
    return ""


def words_of(holder: Holder) -> Mapping[str, str]:
    """The values of the placeholders of cancel_command."""
    return {"job_id": holder.job_id, "user_id": holder.user_id or "", "cluster_id": holder.cluster_id}


def cancel(command: Sequence[str], holder: Holder, most_seconds: float = MOST_SECONDS) -> Outcome:
    return run(filled(command, words_of(holder)), most_seconds)


def carry_out(
    nudges: Sequence[Nudge], record: Record, cancel: Cancel, run_id: str, now: Callable[[], datetime]
) -> tuple[Nudge, ...]:
    """Takes the steps, each recorded before it is taken. After a failure no further job is cancelled."""
    taken: list[Nudge] = []
    is_stopped = False
    for nudge in nudges:
        if nudge.step == "cancel" and is_stopped:
            taken.append(Nudge(nudge.holder, None, "not cancelled: the cancellation before it did not go well"))
            continue
        if nudge.step == "cancel":
            started = _entry(nudge, run_id, now(), "started")
            record(started)
            outcome = cancel(nudge.holder)
            ended = replace(started, nudged_at=now(), status=outcome.status, exit_code=outcome.exit_code)
            record(replace(ended, detail=outcome.detail))
            is_stopped = outcome.status != "done"
            taken.append(replace(nudge, outcome=outcome))
            continue
        if nudge.step:
            record(_entry(nudge, run_id, now(), "sent"))
        taken.append(nudge)
    return tuple(taken)


def _entry(nudge: Nudge, run_id: str, now: datetime, status: Literal["sent", "started"]) -> NudgeRecord:
    holder = nudge.holder
    assert nudge.step is not None
    return NudgeRecord(
        seen_at=holder.seen_at,
        nudged_at=now,
        run_id=run_id,
        cluster_id=holder.cluster_id,
        job_id=holder.job_id,
        user_id=holder.user_id,
        step=nudge.step,
        status=status,
        gpus=holder.gpus,
        gpu_hours=holder.gpu_hours,
    )


def summary(nudges: Iterable[Nudge]) -> dict[str, int]:
    counts = Counter[str](nudge.step or "left alone" for nudge in nudges)
    return {step: counts[step] for step in ("warn", "final", "cancel", "left alone")}
