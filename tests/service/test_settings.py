"""[run] of gpulake.toml: what is wrong in it is said before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpulake.cli import root
from gpulake.core.config import Config, checked
from gpulake.core.errors import ConfigError, GpulakeError, LakeError
from gpulake.service.children import PROGRAM
from gpulake.service.unit import unit


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, *words: str) -> Result:
    (tmp_path / "gpulake.toml").write_text(settings)
    monkeypatch.chdir(tmp_path)
    return CliRunner().invoke(root, ["run", *words])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("", "there is no source to follow in [run]"),
        ("[run.sources.a]\npull = []", "pull of [run.sources.a] is empty"),
        (
            '[run.sources.a]\npull = ["slrum"]',
            "pull of [run.sources.a]: no command named 'slrum'; did you mean 'slurm'?",
        ),
        ('[run.sources.a]\npull = ["prometheus"]', "pull of [run.sources.a]: Missing option '--url'."),
        ('[run.sources.a]\npull = ["slurm", "--help"]', "pull of [run.sources.a]: they ask for help"),
        ("[run.sources.A]\npull = ['slurm']", "a source is named 'A'"),
        ("[run.sources.a]\nevery_seconds = 0", "every_seconds is 0.0 in [run.sources.a]"),
        ("[run]\ndashboard = 'here'", "run.dashboard is 'here'"),
        ("[run]\ndashboard = '127.0.0.1:99999'", "run.dashboard is '127.0.0.1:99999'"),
        ("[run]\nniceness = -1", "run.niceness is -1"),
        ("[run.budgets.biuld]\ncores = 1", "no part of the service is named 'biuld'"),
        ("[run.budgets.build]\ncores = -1", "cores is -1 in [run.budgets.build]"),
        ("[run]\nfolder = []", "unknown setting 'folder' in run in the configuration file"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, message: str
) -> None:
    result = run(tmp_path, monkeypatch, settings)
    assert isinstance(result.exception, ConfigError)
    assert result.exception.message == message
    assert not (tmp_path / "lake").exists()


def test_an_address_of_ipv6_is_taken_apart() -> None:
    assert checked({"run": {"dashboard": "[::1]:9000"}}, "here").run.host_and_port == ("::1", "9000")


def test_the_state_of_a_service_that_never_ran_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(tmp_path, monkeypatch, "", "status")
    assert isinstance(result.exception, LakeError)
    assert result.exception.message == "no gpulake run has worked on lake"


def test_the_last_state_of_one_that_does_not_run_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "service.json").write_text(
        '{"pid": 1, "changed_at": "2026-05-04T10:00:00+00:00", "parts": [{"name": "build", "state": "waiting",'
        ' "runs": 3, "failures": 0, "rows_landed": 0, "covered_until": "", "error": "\\u001b[2J",'
        ' "succeeded_at": "2026-05-04T09:59:00.5+00:00", "next_at": null}]}'
    )
    result = run(tmp_path, monkeypatch, "", "status")
    assert isinstance(result.exception, GpulakeError)
    assert result.exception.message == "it is not running; it last wrote at 2026-05-04T10:00:00"
    assert "2026-05-04 09:59:00" in result.output
    assert "\x1b" not in result.output


def test_the_unit_quotes_what_it_is_given_and_hides_no_home_that_it_needs() -> None:
    config = checked({"run": {"drain_seconds": 7}, "lake": "/srv/gpu lake"}, "here")
    lines = unit(["--lake", "/srv/gpu lake"], config, "gpulake").splitlines()
    command = " ".join(PROGRAM)
    assert f'ExecStart={command} run --lake "/srv/gpu lake"' in lines
    assert 'ReadWritePaths="/srv/gpu lake"' in lines
    assert {"User=gpulake", "TimeoutStopSec=27", "Restart=always"} <= set(lines)
    home = "read-only" if PROGRAM[0].startswith(("/home/", "/root/")) else "yes"
    assert f"ProtectHome={home}" in lines


def test_a_unit_needs_an_absolute_lake_and_a_user_that_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = f'[run]\nfolders = ["{tmp_path}"]\n'
    relative = run(tmp_path, monkeypatch, follow, "unit", "--user", "gpulake")
    assert isinstance(relative.exception, GpulakeError)
    assert relative.exception.message == "the lake of a service is 'lake'"
    with pytest.raises(GpulakeError, match="the user is 'root; rm'"):
        unit([], Config(), "root; rm")
