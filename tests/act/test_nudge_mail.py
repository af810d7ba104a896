"""Mail to users whose jobs hold GPUs without using them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpulake.act.messages import Message
from gpulake.act.nudge_mail import send_mails
from gpulake.act.sinks.apprise import addressed
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import ConfigError
from gpulake.core.nudge_settings import Nudges
from receiving import Receiver, listening_receiver

LETTERS = [
    Message("tiger", user, ("7",), "1 job of yours on tiger", f"To {user}: end it") for user in ("ann", "b?to=x")
]
RULES = Nudges(mail_sink="mail", mail_to="{user_id}@example.org")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening_receiver() as own:
        yield own


def test_each_user_is_sent_their_message_once(receiver: Receiver, config: Config, clock: FrozenClock) -> None:
    sinks = {"mail": SinkSettings(kind="webhook", url=receiver.url)}
    given = replace(config, nudges=RULES, alerts=Alerts(sinks=sinks))
    for _ in range(2):
        sent, failures = send_mails(LETTERS, given, {}, clock)
        assert (sent, failures) == (1, ["user 'b?to=x': the name cannot stand in an address"])
    (key,) = receiver.taken
    document = receiver.requests[0].document
    assert (document["id"], document["event"], document["title"], document["body"]) == (
        key,
        "nudge",
        "1 job of yours on tiger",
        "To ann: end it",
    )
    assert document["incident"]["subject"] == "ann@example.org"


def test_a_sink_that_refuses_is_named(receiver: Receiver, config: Config, clock: FrozenClock) -> None:
    receiver.answer = (500, {}, b"no")
    sinks = {"mail": SinkSettings(kind="webhook", url=receiver.url)}
    given = replace(config, nudges=RULES, alerts=Alerts(sinks=sinks))
    assert send_mails(LETTERS[:1], given, {}, clock) == (0, ["user ann: sink mail: status 500, no"])


def test_nothing_is_sent_unless_it_is_set(config: Config, clock: FrozenClock) -> None:
    assert send_mails(LETTERS, config, {}, clock) == (0, [])
    with pytest.raises(ConfigError, match="mail_sink is 'mail'"):
        send_mails(LETTERS, replace(config, nudges=RULES), {}, clock)
    with pytest.raises(ConfigError, match="need each other"):
        Nudges(mail_sink="mail")
    with pytest.raises(ConfigError, match="mail_to is 'all@"):
        Nudges(mail_sink="mail", mail_to="all@example.org")


def test_the_mail_servers_address_names_the_person() -> None:
    assert (
        addressed("mailtos://u:p@smtp.example.org", "ann@example.org")
        == "mailtos://u:p@smtp.example.org?to=ann%40example.org"
    )
    assert addressed("mailtos://u:p@h/?format=text", "a@b.c") == "mailtos://u:p@h/?format=text&to=a%40b.c"
    assert addressed("slack://a/b/c", "") == "slack://a/b/c"
