"""Settings of the judge: a language model that is asked where rules do not suffice. Off unless it has an address."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from gpulake.core.errors import ConfigError

KEY_VARIABLE = "GPULAKE_JUDGE_API_KEY"  # secrets come from the environment alone


@dataclass(frozen=True)
class Judge:
    """An endpoint that speaks OpenAI's chat protocol: `[judge]` in gpulake.toml."""

    base_url: str = ""  # such as http://127.0.0.1:8080/v1; empty: nobody is asked
    model: str = ""  # as the endpoint names it
    timeout_seconds: float = 60.0  # for the whole of a question, tries and all
    retries: int = 1
    temperature: float = 0.0
    most_lines: int = 200  # of the log, in the question
    most_characters: int = 24_000  # of the log, in the question
    most_answer_tokens: int = 1_200
    allow_plain_http: bool = False  # to hosts other than this one, over a network that is trusted

    def __post_init__(self) -> None:
        if not (0 < self.timeout_seconds <= 3600):
            raise ConfigError(f"judge.timeout_seconds is {self.timeout_seconds}", "use up to 3600 seconds")
        if not 0 <= self.retries <= 5:
            raise ConfigError(f"judge.retries is {self.retries}", "use 0 to 5")
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= 2):
            raise ConfigError(f"judge.temperature is {self.temperature}", "use 0 to 2; 0 answers alike each time")
        for name in ("most_lines", "most_characters", "most_answer_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"judge.{name} is {getattr(self, name)}", "use a number above 0")
        if self.base_url:
            self._check_address()

    @property
    def is_on(self) -> bool:
        return bool(self.base_url)

    @property
    def is_local(self) -> bool:
        """The endpoint is on this machine, so that nothing leaves it."""
        host = urlsplit(self.base_url).hostname or ""
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def _check_address(self) -> None:
        parts = _split(self.base_url)
        # The address itself is not shown where it may hold a password.
        if parts.username is not None or parts.password is not None:
            raise ConfigError("judge.base_url holds a user or a password", f"put the key into {KEY_VARIABLE}")
        if parts.scheme not in ("http", "https") or not parts.hostname or not self.base_url.isprintable():
            raise ConfigError(f"judge.base_url is {self.base_url!r}", "write it like http://127.0.0.1:8080/v1")
        if parts.query or parts.fragment:
            raise ConfigError("judge.base_url has a query", f"give the path alone, and the key in {KEY_VARIABLE}")
        if parts.scheme == "http" and not self.is_local and not self.allow_plain_http:
            raise ConfigError(
                f"judge.base_url {self.base_url} would send logs in the clear",
                "use https, or set judge.allow_plain_http = true for a network that you trust",
            )
        if not self.model:
            raise ConfigError("judge.model is not set", "name the model as the endpoint does")


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        raise ConfigError("judge.base_url is no address", "write it like http://127.0.0.1:8080/v1") from error
    return parts
