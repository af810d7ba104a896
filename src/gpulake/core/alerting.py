"""Which findings become incidents, and who is told of them: `[incidents]` and `[alerts]` in gpulake.toml."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gpulake.core.errors import ConfigError, choice_hint
from gpulake.core.kinds import FACTS, SEVERITIES
from gpulake.core.placeholders import placeholders

# What a template may speak of.
WORDS = (
    *(
        "what",
        "event",
        "severity",
        "kind",
        "headline",
        "cause",
        "reason",
        "evidence",
        "remedy",
        "subject",
        "cluster_id",
    ),
    *("node", "job_id", "incident_id", "state", "opened_at", "first_cause", "times_seen", "note", "command", "link"),
)
TITLE = "[{what}] {headline}"
BODY = """\
{headline}
Reason: {reason}
First: {first_cause}
Evidence: {evidence}
What to do: {remedy}
Cluster: {cluster_id}
Node: {node}
Job: {job_id}
Subject: {subject}
Note: {note}
Incident {incident_id}, {state}, opened {opened_at}
Look further: {command}
{link}"""
EVENTS = ("opened", "worsened", "reopened", "outlasted", "resolved")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)


@dataclass(frozen=True)
class Incidents:
    """How findings become incidents: `[incidents]` in gpulake.toml."""

    # What is not seen for as long is over; what is seen again within it is the same incident.
    resolve_after_hours: float = 2.0
    # No incident is made of these.
    ignored_kinds: tuple[str, ...] = FACTS
    critical_kinds: tuple[str, ...] = ()  # instead of the kind's default severity
    info_kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.resolve_after_hours < float("inf"):
            raise ConfigError(f"resolve_after_hours is {self.resolve_after_hours}", "use a number above 0")


@dataclass(frozen=True)
class SinkSettings:
    """Where alerts go, and which: `[alerts.sinks.<name>]` in gpulake.toml. Secrets are in variables that it names."""

    kind: str = ""  # apprise, webhook, alertmanager or that of a plug
    url: str = ""  # where it is no secret
    url_variable: str = ""  # the environment variable that holds the address
    secret_variable: str = ""  # the one that holds the key which signs what a webhook is sent
    token_variable: str = ""  # the one that holds a bearer token
    severities: tuple[str, ...] = ()  # only these; none named: all of them
    kinds: tuple[str, ...] = ()  # only kinds like these patterns, such as gpu_*
    clusters: tuple[str, ...] = ()  # only clusters like these patterns
    events: tuple[str, ...] = EVENTS
    most_per_minute: int = -1  # more are told in one summary; 0: no limit; below: 20 for apprise, else none
    burst: int = 10  # that may come at once
    timeout_seconds: float = 10.0
    allow_plain_http: bool = False  # to hosts other than this one, over a network that is trusted
    title: str = ""  # instead of that of [alerts]
    body: str = ""
    firing_days: float = 30.0  # after which Alertmanager forgets an incident of which it heard no end

    def __post_init__(self) -> None:
        for name, given, known in (("severities", self.severities, SEVERITIES), ("events", self.events, EVENTS)):
            for word in given:
                _check(word in known, f"{name} of a sink has {word!r}", choice_hint(word, known))
        for name in ("url_variable", "secret_variable", "token_variable"):
            # What was given may be the secret itself: it is not shown.
            is_name = _VARIABLE.fullmatch(getattr(self, name) or "none") is not None
            _check(is_name, f"{name} is no name of an environment variable", "put the secret into one, and name it")
        for name in ("timeout_seconds", "firing_days"):
            value = getattr(self, name)
            _check(0 < value <= 3600, f"{name} of a sink is {value}", "use a number above 0, up to 3600")
        _check(self.burst >= 1, f"burst of a sink is {self.burst}", "use 1 or more")
        self._check_address()
        check_template("title", self.title)
        check_template("body", self.body)

    def _check_address(self) -> None:
        is_one = not (self.url and self.url_variable)
        _check(is_one, "url and url_variable of a sink are both given", "leave one of them out")
        is_shown = self.kind == "apprise" and bool(self.url)
        _check(not is_shown, "url of a sink of kind apprise holds its secret", "put it into url_variable's variable")
        is_grouped = self.kind == "alertmanager" and self.most_per_minute > 0
        _check(not is_grouped, "most_per_minute is given for Alertmanager", "leave it out: it groups alerts by itself")
        if self.url:
            check_address(self.url, self.allow_plain_http)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(name for name in (self.url_variable, self.secret_variable, self.token_variable) if name)


@dataclass(frozen=True)
class Alerts:
    """How people are told: `[alerts]` in gpulake.toml. Nobody is, where there is no sink."""

    sinks: Mapping[str, SinkSettings] = field(
        default_factory=dict, metadata={"of": SinkSettings, "example": "kind = 'webhook'"}
    )
    title: str = TITLE
    body: str = BODY
    link: str = ""  # such as https://lake.example.org/incident?incident={incident_id}
    most_stale_hours: float = 24.0  # nobody is told of what was over, or happened, longer ago
    give_up_after_hours: float = 24.0  # of trying: what a sink does not take in this time is dropped
    first_wait_seconds: float = 5.0  # before the second try; the next waits are twice as long each
    most_wait_seconds: float = 300.0
    is_sent_at_once: bool = True  # at the end of a refresh; false: by gpulake alerts send alone

    def __post_init__(self) -> None:
        for name in ("most_stale_hours", "give_up_after_hours", "first_wait_seconds", "most_wait_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"alerts.{name} is {getattr(self, name)}", "use a number above 0")
        for name in self.sinks:
            if not _NAME.fullmatch(name):
                raise ConfigError(f"a sink is named {name!r}", "use small letters, digits, - and _")
        check_template("title", self.title)
        check_template("body", self.body)
        only = set(placeholders([self.link])) <= {"incident_id"}
        if not only or (self.link and urlsplit(self.link).scheme not in ("http", "https")):
            raise ConfigError(f"alerts.link is {self.link!r}", "give an address; its only placeholder is {incident_id}")

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for sink in self.sinks.values() for name in sink.variables)


def _check(is_right: bool, message: str, hint: str) -> None:
    if not is_right:
        raise ConfigError(message, hint)


def check_template(name: str, template: str) -> None:
    for placeholder in placeholders([template]):
        if placeholder not in WORDS:
            raise ConfigError(f"{name} has the placeholder {{{placeholder}}}", choice_hint(placeholder, WORDS))


def check_address(url: str, is_plain_allowed: bool = False) -> None:
    """An address that may be shown, and that nobody can listen to. What is wrong with it is said without showing it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ConfigError("the url of a sink is no address", _HOW) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        raise ConfigError("the url of a sink is no address", _HOW)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError("the url of a sink holds more than a host and a path", "put it into url_variable's variable")
    check_scheme(url, is_plain_allowed)


def check_scheme(url: str, is_plain_allowed: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_plain_allowed and not is_loopback(parts.hostname or ""):
        raise ConfigError(
            "the url of a sink would send alerts in the clear",
            "use https, or set allow_plain_http = true for a network that you trust",
        )


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_HOW = "write it like https://hooks.example.org/gpulake"
