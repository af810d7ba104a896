"""The day of a time of day, for logs without dates that run over midnight and whose clock may be set."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from gpulake.core.errors import UsageError

DAY_SECONDS = 86_400
SET_BACK_SECONDS = 3_600  # a clock that goes back by more has passed midnight
_TIME = re.compile(r"(\d{1,2})[:.](\d{2})[:.](\d{2})")


def zone(name: str) -> tzinfo:
    """`UTC`, `+08:00`, or a name such as Europe/Berlin."""
    if name.upper() in ("", "UTC", "Z", "GMT"):
        return UTC
    try:
        if name[0] in "+-":
            return timezone(datetime.strptime(name, "%z").utcoffset() or timedelta())
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        hint = "write UTC, +08:00, or a name such as Europe/Berlin"
        raise UsageError(f"no time zone named {name!r}", hint) from error


def second_of_day(words: list[str]) -> tuple[int, int] | None:
    """The time at the start of a line as a second of the day, and its number of words: two on a 12-hour clock."""
    found = _TIME.fullmatch(words[0]) if words else None
    if found is None:
        return None
    hour, minute, second = (int(part) for part in found.groups())
    half = words[1].upper() if len(words) > 1 else ""
    taken = 1
    if half in ("AM", "PM"):
        if not 1 <= hour <= 12:
            return None
        hour, taken = hour % 12 + (12 if half == "PM" else 0), 2
    if hour > 23 or minute > 59 or second > 60:
        return None
    return hour * 3600 + minute * 60 + min(second, 59), taken


def dates(text: str) -> list[date]:
    """The possible meanings of a date, likeliest first: year first, month first as in the C locale, or day first."""
    numbers = re.fullmatch(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})\.?", text)
    if numbers is None:
        return []
    first, separator, second, third = int(numbers[1]), numbers[2], int(numbers[3]), int(numbers[4])
    if len(numbers[1]) == 4:
        return _days([(first, second, third)])
    year = third if len(numbers[4]) == 4 else 2000 + third
    meanings = [(year, first, second), (year, second, first)]
    return _days(meanings[::-1] if separator == "." else meanings)


def _days(meanings: Iterable[tuple[int, int, int]]) -> list[date]:
    found = []
    for meaning in meanings:
        try:
            found.append(date(*meaning))
        except ValueError:
            continue
    return found


def step_days(before: int, now: int) -> int:
    """The number of days between two consecutive times of day in a log."""
    grown = now - before
    if grown < -SET_BACK_SECONDS:
        return 1
    # Just over midnight, and set back before it.
    return -1 if grown > DAY_SECONDS - SET_BACK_SECONDS else 0


@dataclass
class DayClock:
    """Converts times of day to milliseconds of the epoch, in the order of the log."""

    day: date  # of the first of them
    zone: tzinfo
    _before: int | None = None
    _before_ms: int = 0

    def set_day(self, day: date) -> None:
        self.day = day
        self._before = None

    def ms(self, second: int) -> int | None:
        """None: out of the range of the calendar."""
        if self._before is not None:
            try:
                self.day += timedelta(days=step_days(self._before, second))
            except OverflowError:
                return None
        self._before = second
        moment = local_ms(self.day, second, self.zone)
        if moment is not None and moment < self._before_ms:
            # The repeated hour at the end of summer time.
            again = local_ms(self.day, second, self.zone, fold=1)
            moment = again if again is not None and again >= self._before_ms else moment
        self._before_ms = moment if moment is not None else self._before_ms
        return moment


def local_ms(day: date, second: int, where: tzinfo, fold: int = 0) -> int | None:
    hour, rest = divmod(second, 3600)
    local = datetime(day.year, day.month, day.day, hour, rest // 60, rest % 60, tzinfo=where, fold=fold)
    try:
        return int(local.timestamp()) * 1000
    except (OverflowError, ValueError):
        return None


def first_day(seconds: Iterable[int], *, near_ms: int | None, end_ms: int, where: tzinfo) -> date | None:
    """The day of the first of these times of day: the one nearest to a known moment, or else such that the last is no
    later than the end."""
    first = last = None
    days = 0
    for second in seconds:
        if last is not None:
            days += step_days(last, second)
        first, last = second if first is None else first, second
        if first is not None and near_ms is not None:
            break
    if first is None or last is None:
        return None
    anchor = datetime.fromtimestamp((end_ms if near_ms is None else near_ms) / 1000, where).date()
    around = [anchor + timedelta(days=step) for step in (-1, 0, 1)]
    if near_ms is not None:
        return min(around, key=lambda day: abs((local_ms(day, first, where) or 0) - near_ms))
    ends = [day for day in around if (local_ms(day, last, where) or 0) <= end_ms + 60_000]
    return (ends[-1] if ends else anchor) - timedelta(days=days)
