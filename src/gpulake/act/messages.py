"""Messages to users: one for all of a user's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from gpulake.act.nudges import Nudge
from gpulake.core.nudge_settings import Nudges
from gpulake.core.words import NO_NAME, amount, count, label, span

MOST_ID = 40
STEPS = {"warn": "first warning", "final": "last warning", "cancel": "cancelled"}


@dataclass(frozen=True)
class Message:
    cluster_id: str
    user_id: str | None
    job_ids: tuple[str, ...]
    subject: str
    text: str


def messages(nudges: Sequence[Nudge], rules: Nudges, currency: str) -> list[Message]:
    """One for each user of a cluster with a step that is due, in that order."""
    users: dict[tuple[str, str | None], list[Nudge]] = {}
    for nudge in nudges:
        if nudge.step:
            users.setdefault((nudge.holder.cluster_id, nudge.holder.user_id), []).append(nudge)
    return [_message(cluster, user, due, rules, currency) for (cluster, user), due in users.items()]


def _message(cluster: str, user: str | None, due: Sequence[Nudge], rules: Nudges, currency: str) -> Message:
    gpus = _gpus(sum(nudge.holder.gpus for nudge in due))
    subject = f"{count(len(due), 'job')} of yours on {label(cluster)}: {gpus} held, and empty"
    name = label(user, MOST_ID) if user is not None else NO_NAME
    lines = [
        f"To {name}: these jobs hold GPUs that they have not used since they got them.",
        *(line for nudge in due for line in _job(nudge, currency)),
        *_consequences({nudge.step for nudge in due}, rules),
        "If a job is done or stuck, end it. If it needs fewer GPUs, or none, ask for fewer.",
    ]
    return Message(cluster, user, tuple(nudge.holder.job_id for nudge in due), subject, "\n".join(lines))


def _job(nudge: Nudge, currency: str) -> list[str]:
    holder = nudge.holder
    since = holder.since.astimezone(ZoneInfo(holder.time_zone))
    money = "" if holder.cost is None else f", {amount(holder.cost)} {currency}"
    step = STEPS[nudge.step or ""]
    if nudge.outcome and nudge.outcome.status != "done":
        step = "could not be cancelled"
    return [
        f"  job {label(holder.job_id, MOST_ID)}: {step}",
        f"    {_gpus(holder.gpus)} ({label(', '.join(holder.gpu_types), MOST_ID)}) since {since:%Y-%m-%d %H:%M} "
        f"{holder.time_zone}, {span(60 * holder.minutes)}: {amount(holder.gpu_hours)} GPU-hours{money}",
    ]


def _consequences(steps: set[str | None], rules: Nudges) -> list[str]:
    final = span(60 * (rules.final_after_minutes - rules.warn_after_minutes))
    cancel = span(60 * (rules.cancel_after_minutes - rules.final_after_minutes))
    lines = []
    if "warn" in steps:
        lines.append(f"A first warning is followed by a last one, {final} later, if nothing changes.")
    # Only announced where it can be done.
    if steps & {"warn", "final"} and rules.cancel_command:
        lines.append(f"After a last warning a job is cancelled, {cancel} later, if nothing changes.")
    return lines


def _gpus(number: float) -> str:
    return "1 GPU" if number == 1 else f"{round(number, 3):g} GPUs"
