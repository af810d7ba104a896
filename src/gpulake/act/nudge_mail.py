"""Mail to users whose jobs hold GPUs without using them, through a sink of the alerts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

from gpulake.act.alerts.alert import Alert
from gpulake.act.messages import Message
from gpulake.act.sinks import SINKS, Setup, Sink
from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.errors import ConfigError, SinkError, choice_hint
from gpulake.core.placeholders import filled

EVENT = "nudge"
# What can stand in an address as it is: anything else could name another person.
_NAME = re.compile(r"[\w.+-]+", re.ASCII)


def send_mails(
    letters: Sequence[Message],
    config: Config,
    environment: Mapping[str, str],
    clock: Clock,
    make: Callable[[Setup], Sink] = lambda setup: SINKS.get(setup.settings.kind)(setup),
) -> tuple[int, list[str]]:
    """How many were sent, and why others were not. Nothing is sent unless [nudges] names a sink and an address."""
    rules, sinks = config.nudges, config.alerts.sinks
    if not rules.mail_sink:
        return 0, []
    if rules.mail_sink not in sinks:
        raise ConfigError(f"mail_sink is {rules.mail_sink!r}", choice_hint(rules.mail_sink, sinks))
    settings, sent, failures = sinks[rules.mail_sink], 0, []
    if settings.kind == "alertmanager":
        raise ConfigError(f"mail_sink {rules.mail_sink!r} is an Alertmanager", "name a sink of kind apprise or webhook")
    for letter in letters:
        words = {"user_id": letter.user_id or "", "cluster_id": letter.cluster_id}
        if not all(_NAME.fullmatch(word) for word in words.values()):
            failures.append(f"user {letter.user_id!r}: the name cannot stand in an address")
            continue
        (to,) = filled([rules.mail_to], words)
        try:
            make(Setup(rules.mail_sink, settings, environment, clock, to)).send(
                _alert(letter, rules.mail_sink, to, clock)
            )
            sent += 1
        except SinkError as error:
            failures.append(f"user {letter.user_id}: {error.message}")
    return sent, failures


def _alert(letter: Message, sink: str, to: str, clock: Clock) -> Alert:
    now = clock.now()
    # The same words to the same person are the same mail: a receiver that deduplicates takes it once.
    key = hashlib.sha256(f"{to}\n{letter.text}".encode()).hexdigest()[:20]
    return Alert(
        alert_id=f"n-{key}",
        changed_at=now,
        state="sending",
        sink=sink,
        event=EVENT,
        kind="idle_gpus",
        cluster_id=letter.cluster_id,
        job_id=letter.job_ids[0] if len(letter.job_ids) == 1 else None,
        subject=to,
        title=letter.subject,
        body=letter.text,
        happened_at=now,
    )
