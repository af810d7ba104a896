"""Settings that decide a lake's numbers belong to the lake, not to the folder where one happens to stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulake.core.config import Config, load, load_layers
from gpulake.core.errors import ConfigError
from gpulake.core.lake_settings import key_of, settings_of, split, value_of, with_setting

ZONE = "[clusters.tiger]\ntime_zone = 'America/New_York'\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def own(tmp_path: Path, text: str) -> Path:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "gpulake.toml").write_text(text)
    return tmp_path / "lake"


def test_the_settings_of_the_lake_hold_wherever_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = own(tmp_path, ZONE)
    monkeypatch.chdir("/")
    assert load({"lake": lake}, {}).clusters["tiger"].time_zone == "America/New_York"
    assert load({}, {"GPULAKE_LAKE": str(lake)}).clusters["tiger"].time_zone == "America/New_York"


def test_flag_beats_environment_beats_lake_beats_file_beats_default(tmp_path: Path) -> None:
    own(tmp_path, "idle_gpu_ratio = 0.2\n")
    (tmp_path / "gpulake.toml").write_text("threads = 3\n")
    loaded = load_layers({"threads": 5}, {"GPULAKE_IDLE_GPU_RATIO": "0.3"})
    assert (loaded.config.threads, loaded.config.idle_gpu_ratio) == (5, 0.3)
    assert [loaded.origin((name,)) for name in ("threads", "idle_gpu_ratio", "currency")] == [
        *("flag", "environment", "default"),
    ]
    loaded = load_layers({}, {})
    assert (loaded.config.threads, loaded.config.idle_gpu_ratio) == (3, 0.2)
    assert [loaded.origin((name,)) for name in ("threads", "idle_gpu_ratio")] == ["gpulake.toml", "lake"]


def test_a_file_that_says_other_than_the_lake_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    own(tmp_path, ZONE)
    (tmp_path / "gpulake.toml").write_text("[clusters.tiger]\ntime_zone = 'UTC'\n")
    with pytest.raises(ConfigError) as raised:
        load({}, {})
    assert raised.value.message == (
        "clusters.tiger.time_zone is 'UTC' in gpulake.toml, and 'America/New_York' in the lake's own settings, "
        "lake/gpulake.toml"
    )
    assert raised.value.hint == (
        "give it to the lake: gpulake config set --from gpulake.toml; or remove it from gpulake.toml"
    )


def test_a_file_that_says_the_same_as_the_lake_is_none(tmp_path: Path) -> None:
    own(tmp_path, ZONE)
    (tmp_path / "gpulake.toml").write_text(f"threads = 2\n{ZONE}")
    assert load({}, {}).threads == 2


def test_a_lake_without_settings_is_read_with_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "gpulake.toml").write_text(ZONE)
    config = load({}, {})
    assert config.clusters["tiger"].time_zone == "America/New_York"
    assert config.unclaimed == {"clusters": {"tiger": {"time_zone": "America/New_York"}}}


@pytest.mark.parametrize(
    "text", ["threads = 2\n", "[nudges]\ncancel_command = ['scancel', '{job_id}']\n", "[judge]\nmodel = 'm'\n"]
)
def test_a_lake_says_nothing_of_the_machine_and_names_no_program(tmp_path: Path, text: str) -> None:
    own(tmp_path, text)
    with pytest.raises(ConfigError, match="is not a setting of a lake"):
        load({}, {})


def test_the_file_of_the_lake_is_not_in_conflict_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own(tmp_path, ZONE))
    assert load({"lake": Path()}, {}).clusters["tiger"].time_zone == "America/New_York"


def test_a_named_file_comes_before_that_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("threads = 2\n")
    (tmp_path / "b.toml").write_text("threads = 3\n")
    assert load({"config": tmp_path / "a.toml"}, {"GPULAKE_CONFIG": str(tmp_path / "b.toml")}).threads == 2
    with pytest.raises(ConfigError, match="no configuration file at") as raised:
        load({"config": tmp_path / "c.toml"}, {})
    assert raised.value.hint == "check the path"


def test_a_program_to_start_stays_with_whoever_runs_it() -> None:
    owned, rest = split({"threads": 2, "nudges": {"least_gpus": 2.0, "cancel_command": ["x"]}})
    assert (owned, rest) == ({"nudges": {"least_gpus": 2.0}}, {"threads": 2, "nudges": {"cancel_command": ["x"]}})


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("", "currency", "EUR", 'currency = "EUR"\n'),
        ("# ours\n", "clusters.tiger.gpus", "8", "# ours\n\n[clusters.tiger]\ngpus = 8\n"),
        (
            "[clusters.tiger]  # big\ntime_zone = 'UTC'  # for now\n\n[gpu_types.h100]\nbusy_watts = 700\n",
            "clusters.tiger.time_zone",
            "Asia/Shanghai",
            '[clusters.tiger]  # big\ntime_zone = "Asia/Shanghai"  # for now\n\n[gpu_types.h100]\nbusy_watts = 700\n',
        ),
        (
            "[clusters.tiger]\ngpus = 8\n\n[clusters.lion]\ngpus = 4\n",
            "clusters.tiger.gpu_type",
            "h100",
            '[clusters.tiger]\ngpus = 8\ngpu_type = "h100"\n\n[clusters.lion]\ngpus = 4\n',
        ),
        (
            '[gpu_types."A 100"]\nbusy_watts = 1\n',
            'gpu_types."A 100".busy_watts',
            "400.5",
            '[gpu_types."A 100"]\nbusy_watts = 400.5\n',
        ),
        ("", "nudges.exclude_users", '["ann", "bob"]', '\n[nudges]\nexclude_users = ["ann", "bob"]\n'),
    ],
)
def test_one_setting_is_changed_and_comments_stay(before: str, key: str, value: str, after: str) -> None:
    assert with_setting(before, key_of(key), value_of(value)).lstrip() == after.lstrip()


def test_what_cannot_be_changed_in_place_is_left_to_an_editor() -> None:
    with pytest.raises(ConfigError, match="cannot be changed in place"):
        with_setting("clusters.tiger.gpus = 8\n", ("clusters", "tiger", "gpus"), 9)


def test_a_key_that_is_none_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as raised:
        key_of("curency")
    assert raised.value.hint == "did you mean 'currency'?"


def test_every_setting_says_what_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows if not row[3].strip()] == []
    named = {row[0].strip("| `") for row in rows}
    facts = ("clusters", "gpu_types")
    assert {key[-1] for key, _ in settings_of(Config()) if key[0] not in facts} <= named
