"""[incidents] and [alerts] of gpulake.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulake.core.alert_settings import Alerts, Incidents, SinkSettings
from gpulake.core.config import load
from gpulake.core.errors import ConfigError

SECRET = "https://hooks.example.org/T0/hunter2"


def loaded(folder: Path, text: str, **environment: str) -> Any:
    path = folder / "gpulake.toml"
    path.write_text(text)
    return load({}, {"GPULAKE_CONFIG": str(path), **environment})


def test_sinks_are_tables_of_alerts(tmp_path: Path) -> None:
    text = """
        [incidents]
        resolve_after_hours = 0.5
        [alerts]
        most_stale_hours = 2
        [alerts.sinks.ops]
        kind = "apprise"
        url_variable = "GPULAKE_SLACK_URL"
        severities = ["critical"]
        [alerts.sinks.am]
        kind = "alertmanager"
        url = "http://127.0.0.1:9093"
    """
    config = loaded(tmp_path, text, GPULAKE_SLACK_URL=SECRET)
    assert config.incidents == Incidents(resolve_after_hours=0.5)
    assert config.alerts == Alerts(
        most_stale_hours=2.0,
        sinks={
            "ops": SinkSettings(kind="apprise", url_variable="GPULAKE_SLACK_URL", severities=("critical",)),
            "am": SinkSettings(kind="alertmanager", url="http://127.0.0.1:9093"),
        },
    )
    assert config.alerts.variables == {"GPULAKE_SLACK_URL"}


def test_a_variable_that_no_sink_names_is_no_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown setting 'slack_url' in the environment"):
        loaded(tmp_path, "", GPULAKE_SLACK_URL=SECRET)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[alerts]\nsinks = 3", "alerts.sinks is 3"),
        ("[alerts.sinks]\nops = 3", "alerts.sinks is"),
        ("[alerts.sinks.ops]\nkinnd = 'x'", "unknown setting 'kinnd' in alerts.sinks.ops"),
        ("[alerts.sinks.Ops]\nkind = 'x'", "a sink is named 'Ops'"),
        ("[alerts]\nbody = '{passwort}'", r"body has the placeholder \{passwort\}"),
        ("[alerts]\nlink = 'javascript:x'", "alerts.link is"),
        ("[alerts]\nlink = 'https://x/{node}'", "alerts.link is"),
        ("[alerts]\ngive_up_after_hours = 0", "alerts.give_up_after_hours is 0.0"),
        ("[incidents]\nresolve_after_hours = -1", "resolve_after_hours is -1.0"),
        ("[alerts.sinks.ops]\nseverities = ['bad']", "severities of a sink has 'bad'"),
        ("[alerts.sinks.ops]\nevents = ['closed']", "events of a sink has 'closed'"),
        ("[alerts.sinks.ops]\nburst = 0", "burst of a sink is 0"),
        ("[alerts.sinks.ops]\ntimeout_seconds = 0", "timeout_seconds of a sink is 0"),
        ("[alerts.sinks.ops]\ntitle = '{x}'", r"title has the placeholder \{x\}"),
        ("[alerts.sinks.ops]\nkind='alertmanager'\nmost_per_minute = 5", "most_per_minute is given for Alertmanager"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(tmp_path, text)


@pytest.mark.parametrize(
    "values",
    [
        {"url_variable": SECRET},
        {"secret_variable": "hunter2 hunter2"},
        {"kind": "apprise", "url": SECRET},
        {"url": "https://ada:hunter2@hooks.example.org/"},
        {"url": "https://hooks.example.org/?token=hunter2"},
        {"url": "ftp://hunter2"},
        {"url": "https://[hunter2"},
        {"url": "hunter2"},
        {"url": "http://hooks.example.org/hunter2"},
        {"url": SECRET, "url_variable": "X"},
    ],
)
def test_a_secret_in_the_settings_is_refused_and_not_shown(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        SinkSettings(**values)
    assert "hunter2" not in caught.value.message + caught.value.hint
