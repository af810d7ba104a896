"""How soon the next one: a token bucket for each sink, and ever longer waits after failures."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta

from gpulake.core.alert_settings import Alerts, SinkSettings

# People read these; programs can take what comes.
LIMITS = {"apprise": 20}


class Bucket:
    """It holds up to `burst` tokens and gains so many a minute; each message takes one."""

    def __init__(self, settings: SinkSettings, sent_at: Iterable[datetime]) -> None:
        given = settings.most_per_minute
        self._per_minute = given if given >= 0 else LIMITS.get(settings.kind, 0)
        self._burst = float(settings.burst)
        self._tokens = self._burst
        self._at: datetime | None = None
        for at in sent_at:
            self.take(at)

    @property
    def is_unlimited(self) -> bool:
        return self._per_minute == 0

    def tokens(self, now: datetime) -> float:
        if self._at is None:
            return self._tokens
        # A clock that was set back gains nothing.
        minutes = max((now - self._at).total_seconds(), 0.0) / 60
        return min(self._burst, self._tokens + minutes * self._per_minute)

    def take(self, now: datetime) -> None:
        # Of what was sent under other settings there may be more than these allow: no debt is made of it.
        self._tokens = max(self.tokens(now) - 1.0, 0.0)
        self._at = now

    def next_at(self, now: datetime) -> datetime:
        """When there is a token, at the latest."""
        lacking = max(1.0 - self.tokens(now), 0.0)
        return now + timedelta(minutes=lacking / self._per_minute) if self._per_minute else now


def wait_after(settings: Alerts, alert: str, tries: int, wish_seconds: float | None = None) -> timedelta:
    """Twice as long each time, up to a bound, less up to a half by lot: the lot is the same for the same try."""
    longest = min(settings.first_wait_seconds * 2.0 ** min(tries - 1, 60), settings.most_wait_seconds)
    lot = random.Random(f"{alert}:{tries}").random()
    seconds = longest * (0.5 + 0.5 * lot)
    if wish_seconds is not None:
        seconds = max(seconds, min(wish_seconds, settings.most_wait_seconds))
    return timedelta(seconds=seconds)
