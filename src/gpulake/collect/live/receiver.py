"""The OTLP receiver: from a flag or OpenTelemetry's variables. Secrets come from variables only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from gpulake.core.errors import ConfigError

PATH = "/v1/metrics"
TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Receiver:
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they may be secret
    ca_file: str = ""
    timeout_seconds: float = TIMEOUT_SECONDS

    @property
    def host(self) -> str:
        """For messages: a path may contain a token."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def find_receiver(given: str, environment: Mapping[str, str]) -> Receiver | None:
    """The configured receiver; None: nothing is pushed."""
    whole = environment.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "")
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if given:
        url, origin = _with_path(given), "--otlp"
    elif _is_off(environment):
        return None
    elif whole:
        url, origin = whole, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
    elif base:
        url, origin = _with_path(base), "OTEL_EXPORTER_OTLP_ENDPOINT"
    else:
        return None
    _check(url, origin)
    return Receiver(
        url=url,
        headers=_headers(environment),
        ca_file=environment.get("OTEL_EXPORTER_OTLP_CERTIFICATE", ""),
        timeout_seconds=_timeout(environment),
    )


def _is_off(environment: Mapping[str, str]) -> bool:
    """Whether the variables, which apply to every program on this host, exclude our metrics."""
    protocol = environment.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporters = (environment.get("OTEL_METRICS_EXPORTER") or "otlp").replace(" ", "").split(",")
    return is_disabled or "otlp" not in exporters or protocol == "grpc"


def _with_path(url: str) -> str:
    return url if url.rstrip("/").endswith(PATH) else url.rstrip("/") + PATH


def _check(url: str, origin: str) -> None:
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise ConfigError(f"{origin} has a user or password in it", "put credentials into OTEL_EXPORTER_OTLP_HEADERS")
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{origin} is {url!r}", "use http://HOST:4318 or https://HOST")


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    name = "OTEL_EXPORTER_OTLP_METRICS_HEADERS"
    if not environment.get(name):
        name = "OTEL_EXPORTER_OTLP_HEADERS"
    found = {}
    for part in environment.get(name, "").split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        key, value = key.strip(), unquote(value.strip())
        if not equals or not key.replace("-", "").replace("_", "").isalnum() or not f"{key}{value}".isascii():
            raise ConfigError(f"{name} does not parse", "use key=value, with commas between")  # and is not repeated
        if not value.isprintable():
            raise ConfigError(f"the value of {key} in {name} has control characters", "leave them out")
        found[key] = value
    return found


def _timeout(environment: Mapping[str, str]) -> float:
    name = "OTEL_EXPORTER_OTLP_TIMEOUT"
    text = environment.get(name, "")
    if not text:
        return TIMEOUT_SECONDS
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"{name} is {text!r}", "use milliseconds, such as 10000")
    return int(text) / 1000
