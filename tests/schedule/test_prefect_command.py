"""gpulake prefect as a user types it, where no server is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpulake.cli.prefect import command
from gpulake.core.errors import UsageError

WITHOUT_PREFECT = "import sys; sys.modules['prefect'] = None; "


def call(*arguments: str) -> None:
    CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)


def test_without_prefect_the_way_to_get_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prefect", None)
    for arguments in (("run", "data_raw"), ("serve", "--path", "data_raw")):
        with pytest.raises(UsageError) as caught:
            call(*arguments)
        assert (caught.value.message, caught.value.hint) == (
            "Prefect is not installed",
            "in an environment of its own: pip install 'gpulake[prefect]'",
        )


def test_one_schedule_at_a_time() -> None:
    with pytest.raises(UsageError, match="--cron and --every were both given"):
        call("serve", "--path", "data_raw", "--cron", "0 6 * * *", "--every", "60")


@pytest.mark.parametrize("name", ["", " ", "a/b", "50%", "<b>"])
def test_a_name_that_prefect_refuses_is_refused_at_once(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a deployment"):
        call("serve", "--path", "data_raw", "--name", name)


@pytest.mark.parametrize("arguments", [["--help"], ["prefect", "--help"], ["refresh", "--help"]])
def test_no_help_imports_prefect(arguments: list[str]) -> None:
    code = WITHOUT_PREFECT + f"sys.argv[1:] = {arguments}; from gpulake.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_steps_themselves_do_not_import_prefect(tmp_path: Path) -> None:
    code = WITHOUT_PREFECT + "import gpulake.flow, gpulake.schedule.markdown, gpulake.cli.prefect"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_analytics_are_off_before_prefect_is_there() -> None:
    code = (
        "import os, sys; import gpulake.schedule; assert 'prefect' not in sys.modules; "
        "print(os.environ['PREFECT_SERVER_ANALYTICS_ENABLED'], os.environ['DO_NOT_TRACK'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["false", "1"]
