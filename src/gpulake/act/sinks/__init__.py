"""One file a sink: it sends one alert, or raises why it could not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gpulake.act.alerts.alert import Alert
from gpulake.core.addresses import check_scheme
from gpulake.core.alert_settings import SinkSettings
from gpulake.core.clock import Clock
from gpulake.core.errors import ConfigError, SinkError
from gpulake.core.registry import Registry
from gpulake.core.words import label

MASK = "***"
MOST_WORDS = 300
_PARTS = re.compile(r"[/:@?&=#,;\s]+")
_LEAST_SECRET = 4  # shorter pieces of an address are words such as "api", and no secrets


class Sink(Protocol):
    @property
    def deduplicates(self) -> bool:
        """The receiver deduplicates, so that sending an alert again does no harm."""
        ...

    def send(self, alert: Alert) -> None:
        """Returns when the receiver has accepted it; else SinkError, which names the sink."""
        ...


@dataclass(frozen=True)
class Setup:
    """What a sink is built from."""

    name: str
    settings: SinkSettings
    environment: Mapping[str, str]
    clock: Clock
    recipient: str = ""  # the address of one person, in place of those that the sink's own address names

    def secret(self, variable: str) -> str:
        value = self.environment.get(variable, "").strip()
        if not value:
            raise self.failure(f"the environment variable {variable} is not set", hint=f"export {variable}")
        return value

    def address(self) -> str:
        """The address: from the settings, or from the variable that they name."""
        settings = self.settings
        url = self.secret(settings.url_variable) if settings.url_variable else settings.url
        if not url:
            raise self.failure("it has no address", hint=f"set url or url_variable in [alerts.sinks.{self.name}]")
        try:
            check_scheme("the url of a sink", url, "alerts", settings.allow_plain_http)
        except (ConfigError, ValueError) as error:
            reason = error if isinstance(error, ConfigError) else ConfigError("its address is none")
            raise self.failure(reason.message, hint=reason.hint) from None
        return url

    def secrets(self) -> tuple[str, ...]:
        """The values of secret variables, whole and in parts: no message shows them."""
        held = [self.environment.get(name, "").strip() for name in self.settings.variables]
        return tuple(piece for value in held if value for piece in (value, *_PARTS.split(value)))

    def failure(
        self, message: str, hint: str = "", is_final: bool = False, retry_after_seconds: float | None = None
    ) -> SinkError:
        words = label(masked(message, self.secrets()), MOST_WORDS)
        return SinkError(f"sink {self.name}: {words}", hint, is_final, retry_after_seconds)


SINKS: Registry[Callable[[Setup], Sink]] = Registry("kind of sink", "gpulake.act.sinks")


def masked(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted({secret for secret in secrets if len(secret) >= _LEAST_SECRET}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text
