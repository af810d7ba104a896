"""What a collector is asked to be live with: options, and the variables of OpenTelemetry."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gpulake.cli.collect._options import live_options
from gpulake.collect.live.push import Receiver, find_receiver
from gpulake.collect.live.session import LiveOptions, live
from gpulake.core.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "environment", "url"),
    [
        ("", {}, None),
        ("http://a:4318", {}, "http://a:4318/v1/metrics"),
        ("http://a/base/", {}, "http://a/base/v1/metrics"),
        ("http://a/v1/metrics", {}, "http://a/v1/metrics"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://b"}, "https://b/v1/metrics"),
        ("", {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://b/x"}, "https://b/x"),
        ("http://a", {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://b"}, "http://a/v1/metrics"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://b", "OTEL_SDK_DISABLED": "true"}, None),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://b", "OTEL_METRICS_EXPORTER": "none"}, None),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://b", "OTEL_METRICS_EXPORTER": ""}, "https://b/v1/metrics"),
        (
            "",
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://b", "OTEL_METRICS_EXPORTER": "console, otlp"},
            "https://b/v1/metrics",
        ),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, None),
        ("", {"OTEL_EXPORTER_OTLP_HEADERS": "a=b"}, None),
    ],
)
def test_where_to_is_the_flag_or_the_environment_and_else_nowhere(
    given: str, environment: dict[str, str], url: str | None
) -> None:
    found = find_receiver(given, environment)

    assert (None if found is None else found.url) == url


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a",
        "a:4318",
        "http://",
        "http://a:99999",
        "http://a b",
        "http://[::1",
        "http://u:pw@a",
        "http://u:pw@[::1",
    ],
)
def test_only_http_is_spoken_and_secrets_are_not_part_of_an_address(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_receiver(url, {})

    assert "pw" not in caught.value.message


@pytest.mark.parametrize("headers", ["secret-word", "a b=secret-word", "a=secret-word%0d%0ab", "ä=secret-word"])
def test_headers_that_do_not_parse_are_an_error_that_does_not_repeat_them(headers: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_receiver("http://a", {"OTEL_EXPORTER_OTLP_HEADERS": headers})

    assert "secret-word" not in caught.value.message + caught.value.hint


def test_secrets_do_not_show_when_a_receiver_is_printed() -> None:
    assert "Bearer" not in repr(Receiver("http://a", {"Authorization": "Bearer abc"}))


def test_options_survive_the_way_to_a_background_process() -> None:
    seen: list[LiveOptions] = []

    @click.command()
    @live_options
    def command(live: LiveOptions) -> None:
        seen.append(live)

    given = LiveOptions(":9841", Path("/etc/web.yml"), "otel", "http://a", 5.0, 10, ("node1.example.org", "n1"))
    for arguments in ([], given.arguments()):
        assert CliRunner().invoke(command, arguments).exit_code == 0

    assert seen == [LiveOptions(), given]
    assert LiveOptions().arguments() == []


def test_a_web_configuration_without_a_page_is_a_mistake() -> None:
    with (
        pytest.raises(ConfigError, match="nothing is served"),
        live(LiveOptions(web_config=Path("web.yml")), interval_seconds=1.0, say=print, environment={}),
    ):
        pass
