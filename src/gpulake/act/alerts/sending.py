"""Sends the outbox: sink by sink, in the order of the queue, within each sink's rate limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from gpulake.act.alerts.alert import TABLE, TEST, Alert, Outbox, State, alert_id, summary_id
from gpulake.act.alerts.pacing import Bucket, wait_after
from gpulake.act.alerts.wording import REPEAT, summary
from gpulake.act.sinks import SINKS, Setup, Sink
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import Clock
from gpulake.core.errors import GpulakeError, SinkError, UsageError, choice_hint

LOCK = "alerts"
MOST_IN_SUMMARY = 500


class Journal(Protocol):
    """The methods of Lake that the outbox needs."""

    def journal(self, table: str) -> list[dict[str, Any]]: ...

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None: ...

    def alone(self, work: str) -> AbstractContextManager[None]: ...


@dataclass
class Drained:
    """The result of one pass over the outbox."""

    sent: int = 0
    summaries: int = 0
    dropped: int = 0
    waiting: int = 0
    failures: dict[str, str] = field(default_factory=dict)  # by sink: why
    next_at: datetime | None = None  # when the next alert is due

    def until(self, at: datetime) -> None:
        self.next_at = at if self.next_at is None else min(self.next_at, at)


@dataclass(frozen=True)
class Sending:
    lake: Journal
    settings: Alerts
    clock: Clock
    environment: Mapping[str, str]
    make: Callable[[Setup], Sink] = field(default=lambda setup: SINKS.get(setup.settings.kind)(setup))

    def drain(self) -> Drained:
        """One process at a time: two would send twice."""
        drained = Drained()
        with self.lake.alone(LOCK):
            outbox = Outbox(self.lake.journal(TABLE))
            for name, sink in self.settings.sinks.items():
                _SinkQueue(self, name, sink, outbox, drained).drain()
            drained.waiting = len(outbox.waiting())
            for alert in outbox.waiting():
                if alert.sink not in self.settings.sinks:
                    drained.failures[alert.sink] = (
                        f"sink {alert.sink}: it is not in the settings, and alerts are waiting for it"
                    )
        return drained

    def test(self, name: str) -> Alert:
        """Sends one test alert, without retries."""
        sink = self.settings.sinks.get(name)
        if sink is None:
            known = self.settings.sinks
            hint = choice_hint(name, known) if known else "describe one in gpulake.toml: [alerts.sinks.NAME]"
            raise UsageError(f"no sink named {name!r}", hint)
        now = self.clock.now()
        alert = Alert(
            *(alert_id("", TEST, now.isoformat(), name), now, "sending", name, TEST),
            severity="info",
            kind=TEST,
            title="[test] gpulake can reach you",
            body="This is a test: gpulake alerts test\nNothing is wrong, and nothing is to be done.",
            happened_at=now,
            tries=1,
        )
        setup = Setup(name, sink, self.environment, self.clock)
        error = deliver(lambda: self.make(setup), setup, alert)
        state: State = "sent" if error is None else "dropped"
        ended = alert.at(self.clock.now(), state, reason="" if error is None else error.message)
        self.lake.append(TABLE, [ended.row()])
        if error is not None:
            raise error
        return ended


@dataclass
class _SinkQueue:
    """The alerts that wait for one sink."""

    sending: Sending
    name: str
    sink: SinkSettings
    outbox: Outbox
    drained: Drained
    plug: Sink | None = None

    def drain(self) -> None:
        waiting = self.outbox.waiting(self.name)
        bucket = Bucket(self.sink, self.outbox.sent_at(self.name))
        while waiting:
            now = self.sending.clock.now()
            head = waiting[0]
            if head.next_try_at is not None and head.next_try_at > now:
                self.drained.until(head.next_try_at)
                return
            if not bucket.is_unlimited and bucket.tokens(now) < 1:
                self.drained.until(bucket.next_at(now))
                return
            batch = _batch(waiting, bucket, now)
            if head.summary_id and self.outbox.has_sent(head.summary_id):
                # A crash interrupted the writing of these rows: the summary was sent.
                self._write(batch, "sent")
                waiting = waiting[len(batch) :]
                continue
            error = self._send(batch)
            if error is None:
                bucket.take(self.sending.clock.now())
            elif not error.is_final:
                return
            waiting = waiting[len(batch) :]

    def _send(self, batch: Sequence[Alert]) -> SinkError | None:
        is_in_doubt = batch[0].state == "sending"
        name = batch[0].summary_id or (summary_id(batch) if len(batch) > 1 else "")
        tried = [replace(alert, summary_id=name, tries=alert.tries + 1, next_try_at=None) for alert in batch]
        begun = self._write(tried, "sending", reason="")
        setup = Setup(self.name, self.sink, self.sending.environment, self.sending.clock)
        error = deliver(lambda: self._built(setup), setup, summary(begun) if name else begun[0], is_in_doubt)
        if error is None:
            self._write(begun, "sent")
            self.drained.sent += len(begun)
            self.drained.summaries += bool(name)
        else:
            self._failed(begun, error)
        return error

    def _built(self, setup: Setup) -> Sink:
        if self.plug is None:
            self.plug = self.sending.make(setup)
        return self.plug

    def _failed(self, begun: Sequence[Alert], error: SinkError) -> None:
        settings, now = self.sending.settings, self.sending.clock.now()
        self.drained.failures[self.name] = error.message
        if error.is_final:
            self._drop(begun, f"refused: {error.message}")
            return
        limit = timedelta(hours=settings.give_up_after_hours)
        over = [alert for alert in begun if now - (alert.happened_at or now) > limit]
        self._drop(over, f"given up after {begun[0].tries} tries: {error.message}")
        kept = [alert for alert in begun if alert not in over]
        if kept:
            next_at = now + wait_after(settings, kept[0].alert_id, kept[0].tries, error.retry_after_seconds)
            self._write(kept, "failed", reason=error.message, next_try_at=next_at)
            self.drained.until(next_at)
        else:
            self.drained.until(now + timedelta(seconds=settings.first_wait_seconds))

    def _drop(self, alerts: Sequence[Alert], reason: str) -> None:
        self._write(alerts, "dropped", reason=reason)
        self.drained.dropped += len(alerts)

    def _write(self, alerts: Sequence[Alert], state: State, **values: Any) -> list[Alert]:
        """The rows are on the disk when this returns."""
        now = self.sending.clock.now()
        after = [alert.at(now, state, **values) for alert in alerts]
        self.sending.lake.append(TABLE, [alert.row() for alert in after])
        for alert in after:
            self.outbox.take(alert)
        return after


def _batch(waiting: Sequence[Alert], bucket: Bucket, now: datetime) -> Sequence[Alert]:
    """The next alert; with the last token, all that wait, as a summary. A summary is retried as the same summary."""
    head = waiting[0]
    if head.summary_id:
        count = next((place for place, one in enumerate(waiting) if one.summary_id != head.summary_id), len(waiting))
        return waiting[:count]
    if head.tries or bucket.is_unlimited or len(waiting) <= bucket.tokens(now) or bucket.tokens(now) >= 2:
        return waiting[:1]
    fresh = next((place for place, one in enumerate(waiting) if one.tries or one.summary_id), len(waiting))
    return waiting[: min(fresh, MOST_IN_SUMMARY)]


def deliver(build: Callable[[], Sink], setup: Setup, alert: Alert, is_in_doubt: bool = False) -> SinkError | None:
    """Sends an alert; returns why it failed."""
    try:
        sink = build()
        if is_in_doubt and not sink.deduplicates:
            alert = replace(alert, body=f"{alert.body}\n{REPEAT}")
        sink.send(alert)
    except SinkError as error:
        return error
    except GpulakeError as error:
        return setup.failure(error.message, hint=error.hint)
    except Exception as error:  # noqa: BLE001 - a broken plug must not block other sinks, nor print secrets
        return setup.failure(f"it broke: {type(error).__name__}")
    return None
