"""Settings: flag over environment over file over default; a mistake names the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulake.core import kafka_access as kafka
from gpulake.core.config import Config, load
from gpulake.core.errors import ConfigError
from gpulake.core.nudge_settings import Nudges
from gpulake.pull import prometheus, receiver


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_any_word_the_defaults_hold() -> None:
    assert load({}, {}) == Config()


def test_flag_beats_environment_beats_file(tmp_path: Path) -> None:
    (tmp_path / "gpulake.toml").write_text('lake = "from_file"\nthreads = 1\nkeep_builds = 5\n')
    environment = {"GPULAKE_THREADS": "2", "GPULAKE_LAKE": "from_environment"}
    assert load({"lake": Path("from_flag")}, environment) == Config(lake=Path("from_flag"), threads=2, keep_builds=5)


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    assert load({"lake": None}, {"GPULAKE_LAKE": "there"}) == Config(lake=Path("there"))


def test_a_relative_lake_lies_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "mine.toml").write_text('lake = "data"\n')
    assert load({}, {"GPULAKE_CONFIG": str(tmp_path / "etc" / "mine.toml")}).lake == tmp_path / "etc" / "data"


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("lak = 1\n", "unknown setting 'lak' in the configuration file", "did you mean 'lake'?"),
        ('threads = "many"\n', "threads is 'many' in the configuration file", "give a int"),
        ("threads = true\n", "threads is True in the configuration file", "give a int"),
        ("threads = -1\n", "threads is -1", "use 0 for every core, or a number up to 1024"),
        ('memory_limit = "lots"\n', "memory_limit is 'lots'", "write it like 400MB or 2GB"),
        ("keep_builds = 0\n", "keep_builds is 0", "keep at least 1: the build that readers use"),
        ("poor_coverage_ratio = 2.0\n", "poor_coverage_ratio is 2.0", "use a share from 0 to 1"),
        ("hot_gpu_celsius = 353.0\n", "hot_gpu_celsius is 353.0", "give a temperature, such as 80"),
        ("telemetry_cluster = 'Tiger'\n", "telemetry_cluster is 'Tiger'", "name it in lower case"),
        (
            'reference_time_zone = "Mars/Base"\n',
            "no time zone named 'Mars/Base'",
            "use a name such as UTC or Asia/Shanghai",
        ),
        (
            "[nudges]\nwarn_after = 5\n",
            "unknown setting 'warn_after' in nudges in the configuration file",
            "did you mean 'warn_after_minutes'?",
        ),
        (
            "[nudges]\nfinal_after_minutes = 30\n",
            "nudges warn, warn finally and cancel after 60, 30, 120 minutes",
            "give three numbers, each above the last",
        ),
        (
            '[nudges]\ncancel_command = "scancel {job_id}"\n',
            "nudges.cancel_command is 'scancel {job_id}' in the configuration file",
            "give a list of texts",
        ),
        (
            '[nudges]\ncancel_command = ["scancel", "{jobid}"]\n',
            "cancel_command has the placeholder {jobid}",
            "did you mean 'job_id'?",
        ),
        (
            '[nudges]\ncancel_command = ["scancel", "--all"]\n',
            "cancel_command ['scancel', '--all'] names no job",
            "pass {job_id} to it",
        ),
        (
            '[nudges]\ncancel_command = ["{job_id}", "{job_id}"]\n',
            "cancel_command begins with '{job_id}'",
            "name a program first, then its arguments",
        ),
        (
            "nudges = 3\n",
            "nudges is 3 in the configuration file",
            "write a table in gpulake.toml: [nudges]",
        ),
    ],
    ids=[
        *("unknown", "text", "flag", "negative", "memory", "no builds", "share", "heat", "cluster", "zone"),
        *("nudge", "ladder", "shell", "placeholder", "no job", "program", "no table"),
    ],
)
def test_a_wrong_setting_says_the_way_out(tmp_path: Path, content: str, message: str, hint: str) -> None:
    (tmp_path / "gpulake.toml").write_text(content)
    with pytest.raises(ConfigError) as raised:
        load({}, {})
    assert (raised.value.message, raised.value.hint) == (message, hint)


def test_a_file_that_is_not_toml_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gpulake.toml").write_text("lake = \n")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load({}, {})


def test_a_named_file_must_be_there() -> None:
    with pytest.raises(ConfigError, match=r"no configuration file at nowhere\.toml"):
        load({}, {"GPULAKE_CONFIG": "nowhere.toml"})


def test_the_ladder_is_a_table_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "gpulake.toml").write_text(
        '[nudges]\nwarn_after_minutes = 15\nexclude_users = ["ann"]\ncancel_command = ["scancel", "{job_id}"]\n'
    )
    assert load({}, {}).nudges == Nudges(
        warn_after_minutes=15.0, exclude_users=("ann",), cancel_command=("scancel", "{job_id}")
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("threads = inf", "threads is inf in the configuration file"),
        ("hot_gpu_celsius = nan", "hot_gpu_celsius is nan in the configuration file"),
        ("missed_busy_hours = inf", "missed_busy_hours is inf in the configuration file"),
        ("[gpu_types.A100]\nprice_per_hour = inf", "gpu_types.A100.price_per_hour is inf in the configuration file"),
        ("[nudges]\nleast_gpus = -inf", "nudges.least_gpus is -inf in the configuration file"),
        ("lake = " + "[" * 5_000 + "]" * 5_000, "gpulake.toml is nested too deeply"),
    ],
)
def test_what_is_not_finite_or_nested_too_deeply_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "gpulake.toml").write_text(content)
    with pytest.raises(ConfigError) as caught:
        load({}, {})
    assert caught.value.message == message
    assert caught.value.hint


def test_logins_of_live_sources_are_in_the_environment_and_are_no_settings() -> None:
    known = {kafka.PREFIX + word for word in kafka.SECRETS}
    known |= {f"{prometheus.PREFIX}_{word}" for word in ("TOKEN", "USER", "PASSWORD")} | {receiver.TOKEN}
    assert load({}, dict.fromkeys(known, "secret")) == load({}, {})
    for typo in ("GPULAKE_KAFKA_PASSWRD", "GPULAKE_RECEIVER_TOKENS"):
        with pytest.raises(ConfigError, match="unknown setting"):
            load({}, {typo: "secret"})
