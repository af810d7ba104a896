"""When the next alert may be sent: a token bucket for each sink, and exponential backoff after failures."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta

from gpulake.core.alert_settings import Alerts, SinkSettings

# Default rate limits: people read what Apprise sends; programs need none.
LIMITS = {"apprise": 20}


class Bucket:
    """Holds up to `burst` tokens and gains some each minute; each message takes one."""

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
        # A clock that was set back adds no tokens.
        minutes = max((now - self._at).total_seconds(), 0.0) / 60
        return min(self._burst, self._tokens + minutes * self._per_minute)

    def take(self, now: datetime) -> None:
        # Never below zero: more may have been sent under other settings.
        self._tokens = max(self.tokens(now) - 1.0, 0.0)
        self._at = now

    def next_at(self, now: datetime) -> datetime:
        """The time at which a token is available."""
        lacking = max(1.0 - self.tokens(now), 0.0)
        return now + timedelta(minutes=lacking / self._per_minute) if self._per_minute else now


def wait_after(settings: Alerts, alert: str, tries: int, retry_after_seconds: float | None = None) -> timedelta:
    """Exponential backoff with an upper bound and 50% jitter; the jitter is the same for the same try."""
    longest = min(settings.first_wait_seconds * 2.0 ** min(tries - 1, 60), settings.most_wait_seconds)
    jitter = random.Random(f"{alert}:{tries}").random()
    seconds = longest * (0.5 + 0.5 * jitter)
    if retry_after_seconds is not None:
        seconds = max(seconds, min(retry_after_seconds, settings.most_wait_seconds))
    return timedelta(seconds=seconds)
