"""Limits: how often a job may be restarted, and how many nodes of a cluster may be cordoned.

They follow from the audit trail and from progress: a checkpoint newer than the last restart. Confidence never counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpulake.act.audit import MAY_BE_DONE, AuditRow, is_done, last_of_each
from gpulake.act.checkpoints import Checkpoint
from gpulake.act.failures import is_same
from gpulake.core.recovery_settings import Recoveries
from gpulake.core.words import count


@dataclass(frozen=True)
class Budget:
    attempt: int = 1  # which restart of the job the next one would be
    restarts: int = 0  # since the job last made progress
    most_restarts: int = 3
    repeats: int = 0  # of these, for the same failure
    most_repeats: int = 1
    rollbacks: int = 0
    most_rollbacks: int = 2
    has_progress: bool = True  # since the last restart, if there was one

    def spent(self) -> str:
        """Why there is no further restart; empty: there may be one."""
        if self.restarts >= self.most_restarts:
            return (
                f"it was restarted {count(self.restarts, 'time')} since it last made progress, and no more is allowed"
            )
        if self.repeats and self.repeats >= self.most_repeats:
            return "it failed the same way again, with no progress since it was restarted"
        return ""

    def spent_on_rollbacks(self) -> str:
        if self.rollbacks >= self.most_rollbacks:
            return f"it was rolled back {count(self.rollbacks, 'time')}, and no more is allowed"
        return self.spent() if self.restarts >= self.most_restarts else ""


def budget(
    past: Sequence[AuditRow], failure: tuple[str, str | None], has_progress: bool, settings: Recoveries
) -> Budget:
    """From the rows of the job. The same failure has the same reason and began on the same node."""
    restarts = restarts_of(past)
    without_progress: list[AuditRow] = []
    for row in reversed([] if has_progress else restarts):
        without_progress.append(row)
        if row.detail.get("has_progress", True):
            break
    return Budget(
        attempt=len(restarts) + 1,
        restarts=len(without_progress),
        most_restarts=settings.most_restarts,
        repeats=sum((row.detail.get("reason"), row.detail.get("failed_node")) == failure for row in without_progress),
        most_repeats=settings.most_repeats,
        rollbacks=sum(row.step == "rollback" for row in restarts),
        most_rollbacks=settings.most_rollbacks,
        has_progress=has_progress,
    )


def restarts_of(past: Sequence[AuditRow]) -> list[AuditRow]:
    """A rollback is a restart, too. One that failed does not count."""
    return [row for row in last_of_each(past) if row.step in ("restart", "rollback") and row.status in MAY_BE_DONE]


def made_progress(
    last: AuditRow | None, newest: Checkpoint | None, has_checkpoints: bool, ran_seconds: float, settings: Recoveries
) -> bool:
    """Whether the job made progress since its last restart."""
    if last is None:
        return True
    if not has_checkpoints:
        return ran_seconds >= 60 * settings.progress_minutes
    if newest is None or newest.saved_at <= last.stepped_at:
        return False
    before = last.detail.get("checkpoint_step")
    # A checkpoint that is written right after the start is not progress.
    return newest.step is None or not isinstance(before, int) or newest.step > before


@dataclass(frozen=True)
class Breaker:
    """Opens before too much of a cluster is cordoned: that many faulty nodes more often mean a faulty test or rule."""

    cordoned: tuple[str, ...] = ()  # surely
    maybe: tuple[str, ...] = ()  # started, with an unknown result
    most: int = 1
    nodes: int | None = None  # of the cluster
    in_last_hour: int = 0
    most_per_hour: int = 2

    def refuses(self, nodes: Collection[str]) -> str:
        """Why these are not cordoned; empty: they may be."""
        new = set(nodes) - {*self.cordoned, *self.maybe}
        taken = len({*self.cordoned, *self.maybe})
        if not new:
            return ""
        if taken + len(new) > self.most:
            of = f"of {self.nodes:,}" if self.nodes is not None else "of a cluster of unknown size"
            return f"{count(taken + len(new), 'node')} {of} would be cordoned, and {self.most:,} may be"
        if self.in_last_hour + len(new) > self.most_per_hour:
            would = count(self.in_last_hour + len(new), "node")
            return f"{would} would be cordoned within an hour, and {self.most_per_hour:,} may be"
        return ""


def breaker(
    past: Sequence[AuditRow], cluster_id: str | None, nodes: int | None, now: datetime, settings: Recoveries
) -> Breaker:
    """Rows of an unknown cluster count for every cluster, and all rows for an unknown cluster."""
    since = now - timedelta(hours=settings.cordoned_for_hours)
    rows = [
        row
        for row in last_of_each(past)
        if row.step == "cordon"
        and row.node is not None
        and row.status in MAY_BE_DONE
        and row.stepped_at > since
        and is_same(row.cluster_id, cluster_id)
    ]
    returned = {(row.recovery_id, row.node) for row in last_of_each(past) if row.step == "uncordon" and is_done(row)}
    out = [row for row in rows if (row.recovery_id, row.node) not in returned]
    done = {row.node for row in out if is_done(row) and row.node}
    hour_ago = now - timedelta(hours=1)
    return Breaker(
        cordoned=tuple(sorted(done)),
        maybe=tuple(sorted({row.node for row in out if row.node} - done)),
        most=max(1, int(settings.most_cordoned_ratio * nodes)) if nodes else 1,
        nodes=nodes or None,
        in_last_hour=len({row.node for row in rows if row.stepped_at > hour_ago}),
        most_per_hour=settings.most_cordons_per_hour,
    )
