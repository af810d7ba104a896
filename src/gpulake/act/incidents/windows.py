"""Maintenance windows: incidents within one are recorded, and no alert is sent."""

from __future__ import annotations

import fnmatch
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from gpulake.core.clock import is_time_zone
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.incidents import FAILURE, Incident
from gpulake.core.rows import as_row, from_row

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_ANY = "*"


@dataclass(frozen=True)
class Window:
    """The columns of maintenance_window_events, in the order of the table."""

    window_id: str
    changed_at: datetime
    changed_by: str
    is_removed: bool = False
    cluster: str = _ANY
    node: str = _ANY
    kind: str = _ANY
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    weekdays: str = ""
    hours: str = ""
    time_zone: str = "UTC"
    note: str = ""

    def row(self) -> dict[str, Any]:
        return as_row(self)

    @property
    def is_weekly(self) -> bool:
        return bool(self.weekdays or self.hours)

    def is_for(self, incident: Incident) -> bool:
        """A pattern other than * matches nothing that has no such name."""
        named = ((self.cluster, incident.cluster_id), (self.node, incident.node), (self.kind, incident.kind))
        return all(
            pattern == _ANY or (name is not None and fnmatch.fnmatchcase(name, pattern)) for pattern, name in named
        )

    def covers(self, at: datetime) -> bool:
        if self.starts_at is not None and at < self.starts_at:
            return False
        if self.ends_at is not None and at >= self.ends_at:
            return False
        return not self.is_weekly or self._recurs_at(at)

    def _recurs_at(self, at: datetime) -> bool:
        """In its time zone. Hours over midnight belong to the day on which they begin."""
        local = at.astimezone(ZoneInfo(self.time_zone))
        days = self.weekdays.split(",") if self.weekdays else DAYS
        if not self.hours:
            return DAYS[local.weekday()] in days
        begin, end = hours_of(self.hours)
        now = local.time().replace(tzinfo=None)
        if begin < end:
            return begin <= now < end and DAYS[local.weekday()] in days
        day_before = DAYS[(local - timedelta(days=1)).weekday()]
        return (now >= begin and DAYS[local.weekday()] in days) or (now < end and day_before in days)


def hours_of(text: str) -> tuple[time, time]:
    found = _HOURS.fullmatch(text)
    if found is None or found[1] + found[2] == found[3] + found[4]:
        raise UsageError(f"{text!r} are no hours", "write them like 22:00-06:00")
    first, second, third, fourth = map(int, found.groups())
    return time(first, second), time(third, fourth)


def added(changed_by: str, at: datetime, **values: Any) -> Window:
    """A new window, checked."""
    window = Window(f"w-{uuid.uuid4().hex[:8]}", at, changed_by, **values)
    for day in window.weekdays.split(",") if window.weekdays else ():
        if day not in DAYS:
            raise UsageError(f"no weekday {day!r}", choice_hint(day, DAYS))
    if window.hours:
        hours_of(window.hours)
    if not is_time_zone(window.time_zone):
        raise UsageError(f"no time zone named {window.time_zone!r}", "use a name such as UTC or Asia/Shanghai")
    if window.ends_at is None and not window.is_weekly:
        raise UsageError(
            "the window has no end", "give --until or --for; or --weekdays and --hours for one that recurs"
        )
    if window.ends_at is not None and window.ends_at <= max(window.starts_at or at, at):
        raise UsageError(f"the window ends at {window.ends_at:%Y-%m-%d %H:%M} UTC", "let it end later than it begins")
    return window


def removed(window: Window, changed_by: str, at: datetime) -> Window:
    if window.is_removed:
        raise UsageError(f"window {window.window_id} was removed", "list the others: gpulake incidents windows list")
    return replace(window, is_removed=True, changed_by=changed_by, changed_at=max(at, window.changed_at))


def windows(rows: Iterable[Mapping[str, Any]]) -> dict[str, Window]:
    """As they stand, removed ones too. Rows that are no window are skipped."""
    read = (from_row(Window, row) for row in rows)
    return {window.window_id: window for window in read if window is not None}


def covering(every: Iterable[Window], incident: Incident, at: datetime) -> Window | None:
    """The window that suppresses an incident: it is active, or covers all the time in which the incident was seen."""
    matching = [window for window in every if not window.is_removed and window.is_for(incident)]
    for window in matching:
        if window.covers(at):
            return window
    # A job may have run for days before it died in the window.
    began = incident.last_seen_at if incident.kind == FAILURE else incident.began_at
    seen = [moment for moment in (began, incident.last_seen_at) if moment is not None]
    return next((window for window in matching if seen and all(map(window.covers, seen))), None)
