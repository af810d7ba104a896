"""Time is an argument: code that needs it takes a Clock, tests pass a frozen one."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from functools import cache
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

AREA = re.compile(
    r"(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)/[\w/+-]+\Z", re.ASCII
)
LATEST_SECOND = 4_102_444_800  # the start of the year 2100: no clock of a cluster shows more


class Clock(Protocol):
    def now(self) -> datetime:
        """What the wall clock shows. It may be set, forwards or backwards."""
        ...

    def elapsed(self) -> float:
        """Seconds since the machine was booted, with those asleep. It cannot be set."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class FrozenClock:
    def __init__(self, at: datetime, elapsed: float = 0.0) -> None:
        self.at = at
        self.elapsed_seconds = elapsed

    def now(self) -> datetime:
        return self.at

    def elapsed(self) -> float:
        return self.elapsed_seconds


def midnight(day: object) -> datetime | None:
    """The begin of a day in UTC; None: it is no date."""
    try:
        return datetime.combine(date.fromisoformat(str(day)), time_of_day(), UTC)
    except ValueError:
        return None


def is_time_zone(name: str) -> bool:
    """A zone of an area is found by its file; for other names all zones have to be listed."""
    if AREA.match(name):
        try:
            return ZoneInfo(name).key == name
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return False
    return name == "UTC" or name in _time_zones()


@cache
def _time_zones() -> frozenset[str]:
    """To list them takes a walk through all of their files."""
    return frozenset(available_timezones())
