"""Which findings become incidents, and who is notified: `[incidents]` and `[alerts]` in gpulake.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gpulake.core.addresses import check_scheme, check_url
from gpulake.core.errors import ConfigError, choice_hint, require, require_name
from gpulake.core.kinds import FACTS, SEVERITIES
from gpulake.core.placeholders import placeholders

# Placeholders of a template.
WORDS = (
    *("what", "event", "severity", "kind", "headline", "cause", "reason", "evidence", "remedy", "subject"),
    *("cluster_id", "node", "job_id", "incident_id", "state", "opened_at", "first_cause", "times_seen", "note"),
    *("command", "link"),
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


@dataclass(frozen=True)
class Incidents:
    """How findings become incidents: `[incidents]` in gpulake.toml."""

    # An incident that is not seen for so long is resolved; what is seen again within it is the same incident.
    resolve_after_hours: float = 2.0
    # No incident is made of these.
    ignored_kinds: tuple[str, ...] = FACTS
    critical_kinds: tuple[str, ...] = ()  # instead of the kind's default severity
    info_kinds: tuple[str, ...] = ()  # these are only for information

    def __post_init__(self) -> None:
        is_time = 0 < self.resolve_after_hours < float("inf")
        require(is_time, f"resolve_after_hours is {self.resolve_after_hours}", "use a number above 0")


@dataclass(frozen=True)
class SinkSettings:
    """Where alerts go, and which: `[alerts.sinks.<name>]` in gpulake.toml. Secrets are in variables that it names."""

    kind: str = ""  # apprise, webhook, alertmanager or a plug's
    url: str = ""  # only where it holds no secret
    url_variable: str = ""  # the environment variable that holds the address
    secret_variable: str = ""  # the one that holds the key that signs a webhook's requests
    token_variable: str = ""  # the one that holds a bearer token
    severities: tuple[str, ...] = ()  # only these; empty: all
    kinds: tuple[str, ...] = ()  # only kinds like these patterns, such as gpu_*
    clusters: tuple[str, ...] = ()  # only clusters like these patterns
    events: tuple[str, ...] = EVENTS  # of an incident that are sent
    most_per_minute: int = -1  # more go into one summary; 0: no limit; -1: 20 for apprise, else no limit
    burst: int = 10  # alerts that may be sent at once
    timeout_seconds: float = 10.0  # for one request
    allow_plain_http: bool = False  # to other hosts, over a trusted network
    title: str = ""  # overrides that of [alerts]
    body: str = ""  # overrides that of [alerts]
    firing_days: float = 30.0  # after which Alertmanager drops an incident that was not resolved

    def __post_init__(self) -> None:
        for name, given, known in (("severities", self.severities, SEVERITIES), ("events", self.events, EVENTS)):
            for word in given:
                require(word in known, f"{name} of a sink has {word!r}", choice_hint(word, known))
        for name in ("url_variable", "secret_variable", "token_variable"):
            # The value is not shown: it may be the secret itself.
            is_name = _VARIABLE.fullmatch(getattr(self, name) or "none") is not None
            require(is_name, f"{name} is no name of an environment variable", "put the secret into one, and name it")
        for name in ("timeout_seconds", "firing_days"):
            value = getattr(self, name)
            require(0 < value <= 3600, f"{name} of a sink is {value}", "use a number above 0, up to 3600")
        require(self.burst >= 1, f"burst of a sink is {self.burst}", "use 1 or more")
        self._check_address()
        check_template("title", self.title)
        check_template("body", self.body)

    def _check_address(self) -> None:
        is_one = not (self.url and self.url_variable)
        require(is_one, "url and url_variable of a sink are both given", "leave one of them out")
        is_shown = self.kind == "apprise" and bool(self.url)
        require(not is_shown, "url of a sink of kind apprise holds its secret", "put it into url_variable's variable")
        is_grouped = self.kind == "alertmanager" and self.most_per_minute > 0
        require(not is_grouped, "most_per_minute is given for Alertmanager", "leave it out: it groups alerts by itself")
        if self.url:
            example = "https://hooks.example.org/gpulake"
            check_url("the url of a sink", self.url, example, "put it into url_variable's variable")
            check_scheme("the url of a sink", self.url, "alerts", self.allow_plain_http)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(name for name in (self.url_variable, self.secret_variable, self.token_variable) if name)


@dataclass(frozen=True)
class Alerts:
    """How people are notified: `[alerts]` in gpulake.toml. Without a sink no alert is made."""

    sinks: Mapping[str, SinkSettings] = field(
        default_factory=dict, metadata={"of": SinkSettings, "example": "kind = 'webhook'"}
    )
    title: str = TITLE  # template of a message's first line
    body: str = BODY  # template of its text
    link: str = ""  # such as https://lake.example.org/incident?incident={incident_id}
    most_stale_hours: float = 24.0  # an event longer ago than this is not sent
    give_up_after_hours: float = 24.0  # an alert that a sink does not accept in this time is dropped
    first_wait_seconds: float = 5.0  # before the second try; doubled for each further one
    most_wait_seconds: float = 300.0  # between two tries
    is_sent_at_once: bool = True  # at the end of a refresh; false: only by gpulake alerts send

    def __post_init__(self) -> None:
        for name in ("most_stale_hours", "give_up_after_hours", "first_wait_seconds", "most_wait_seconds"):
            value = getattr(self, name)
            require(0 < value < float("inf"), f"alerts.{name} is {value}", "use a number above 0")
        for name in self.sinks:
            require_name("a sink", name)
        check_template("title", self.title)
        check_template("body", self.body)
        is_address = not self.link or urlsplit(self.link).scheme in ("http", "https")
        is_right = is_address and set(placeholders([self.link])) <= {"incident_id"}
        hint = "give an address; its only placeholder is {incident_id}"
        require(is_right, f"alerts.link is {self.link!r}", hint)

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for sink in self.sinks.values() for name in sink.variables)


def check_template(name: str, template: str) -> None:
    for placeholder in placeholders([template]):
        if placeholder not in WORDS:
            raise ConfigError(f"{name} has the placeholder {{{placeholder}}}", choice_hint(placeholder, WORDS))
