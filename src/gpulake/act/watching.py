"""What an unattended recovery does next, and the brakes on it: a kill switch, quiet hours, so many jobs an hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from gpulake.act.audit import AuditRow
from gpulake.act.execution import Rescue
from gpulake.core.incidents import FAILURE, Incident
from gpulake.core.recovery_settings import Recoveries
from gpulake.core.words import count

STOP_FILE = "STOP_RECOVERIES"  # in the lake
RETRY = timedelta(minutes=5)  # doubled for each further try
MOST_TRIES = 3


def stopped(root: Path, settings: Recoveries) -> str:
    """Why no step may be taken; empty: steps may be taken. A file that cannot be looked for may be there."""
    for path in (root / STOP_FILE, *([Path(settings.stop_file)] if settings.stop_file else [])):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"recoveries are stopped: {path} cannot be looked for ({error.strerror})"
        return f"recoveries are stopped: {path} exists"
    return ""


def held_back(rows: Iterable[AuditRow], now: datetime, settings: Recoveries) -> str:
    """Why no further job is recovered for now; empty: there may be one."""
    hour_ago = now - timedelta(hours=1)
    begun = {row.recovery_id for row in rows if row.step in ("restart", "rollback") and row.stepped_at > hour_ago}
    if len(begun) < settings.most_per_hour:
        return ""
    return f"{count(len(begun), 'job')} were restarted within an hour, and {settings.most_per_hour:,} may be"


@dataclass
class Watching:
    """Incidents that are due. What was decided holds until the incident changes, as when a person corrects it."""

    since: datetime  # earlier incidents are left to people
    _next_at: dict[tuple[str, datetime], datetime | None] = field(default_factory=dict)  # None: never
    _tries: dict[str, int] = field(default_factory=dict)

    def due(self, standing: Mapping[str, Incident], now: datetime) -> list[Incident]:
        """The oldest first."""
        found = []
        for one in standing.values():
            is_ours = one.kind == FAILURE and one.state != "resolved" and _opened(one) >= self.since
            next_at = self._next_at.get(_key(one), now)
            if is_ours and next_at is not None and next_at <= now:
                found.append(one)
        return sorted(found, key=_opened)

    def leave(self, incident: Incident) -> None:
        self._next_at[_key(incident)] = None

    def note(self, incident: Incident, rescue: Rescue, now: datetime, is_executed: bool) -> None:
        """When it is looked at again: what failed or was refused may be possible later."""
        statuses = {taken.status for taken in rescue.steps}
        next_at: datetime | None = None
        if not is_executed or rescue.done_at or "unknown" in statuses:
            pass
        elif "failed" in statuses:
            tries = self._tries[incident.incident_id] = self._tries.get(incident.incident_id, 0) + 1
            next_at = now + RETRY * 2 ** (tries - 1) if tries < MOST_TRIES else None
        elif "refused" in statuses:
            next_at = now + RETRY
        elif None in statuses:  # stopped before this step
            next_at = now
        self._next_at[_key(incident)] = next_at


def summary(rescue: Rescue, is_executed: bool) -> str:
    """One line."""
    steps: Sequence[str] = [
        f"{taken.step.step}{f' {taken.step.node}' if taken.step.node else ''}"
        + (f" {taken.status or 'not taken'}" if is_executed else " planned")
        + (f" ({taken.detail})" if taken.detail else "")
        for taken in rescue.steps
    ]
    return "; ".join(steps) or f"nothing to do: {rescue.plan.why}"


def _opened(incident: Incident) -> datetime:
    return incident.opened_at or incident.changed_at


def _key(incident: Incident) -> tuple[str, datetime]:
    return incident.incident_id, incident.changed_at
