"""Who may read the lake's files: the owner, unless a setting or the folder's own mode says otherwise."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpulake.act.commands import run
from gpulake.core.config import Config
from gpulake.core.errors import ConfigError
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.lake.access import as_private_as
from gpulake.show.health import check_all
from gpulake.synth import TraceSummary


@pytest.fixture(autouse=True)
def _as_most_people_have_it() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> tuple[set[int], set[int]]:
    """Of folders and of files."""
    every = [folder, *folder.rglob("*")]
    return {mode(path) for path in every if path.is_dir()}, {mode(path) for path in every if path.is_file()}


def used(config: Config, trace: Path, tmp_path: Path) -> None:
    """Everything that writes: landing, a build, a diagnosis, incidents, runs."""
    log = tmp_path / "a.log"
    log.write_text("step 1\nKeyError: 'x'\n")
    flow = Flow(config)
    flow.refresh([trace], tmp_path / "report.html")
    flow.diagnose(DiagnosisRequest(log))


@pytest.mark.slow
def test_a_lake_is_its_owners(config: Config, trace: tuple[Path, TraceSummary], tmp_path: Path) -> None:
    used(config, trace[0], tmp_path)
    assert modes(config.lake) == ({0o700}, {0o600})
    # What is not the lake's is as the user has it.
    assert mode(tmp_path / "report.html") == 0o644
    assert os.umask(0o022) == 0o022


@pytest.mark.parametrize(("access", "folders", "files"), [("group", 0o2770, 0o660), ("everyone", 0o755, 0o644)])
def test_a_lake_may_be_shared(config: Config, tmp_path: Path, access: str, folders: int, files: int) -> None:
    config = replace(config, lake_access=access)
    log = tmp_path / "a.log"
    log.write_text("KeyError: 'x'\n")
    Lake(config).create()
    Flow(config).diagnose(DiagnosisRequest(log))
    assert mode(config.lake) == folders
    assert {mode(path) for path in config.lake.iterdir() if path.is_file()} == {files}


def test_a_lake_that_was_made_before_stays_as_open_as_it_is(config: Config, tmp_path: Path) -> None:
    lake = Lake(config).create()
    lake.root.chmod(0o755)
    log = tmp_path / "a.log"
    log.write_text("KeyError: 'x'\n")
    Flow(config).diagnose(DiagnosisRequest(log))
    assert mode(lake.root / "diagnoses.jsonl") == 0o644
    [check] = [check for check in check_all(config) if check.name == "access"]
    assert (check.status, check.detail) == ("warn", f"{lake.root} is open to more than its owner: 0755")
    assert check.hint == f"chmod -R go= {lake.root}; or set lake_access"
    [check] = [check for check in check_all(replace(config, lake_access="everyone")) if check.name == "access"]
    assert (check.status, check.detail) == ("ok", "everyone")


def test_an_empty_folder_that_was_there_becomes_private(config: Config) -> None:
    config.lake.mkdir(mode=0o755)
    Lake(config).create()
    assert mode(config.lake) == 0o700


def test_no_other_access_is_known() -> None:
    with pytest.raises(ConfigError, match="lake_access is 'world'"):
        Config(lake_access="world")


def test_programs_that_are_started_meanwhile_have_the_users_umask(lake: Lake) -> None:
    show = "import os; print(oct(os.umask(0)))"
    with as_private_as(lake.root):
        assert run([sys.executable, "-c", show]).detail == "0o22"


def test_spilled_rows_are_nobody_elses(lake: Lake) -> None:
    with lake.reading() as reader:
        [row] = reader.query("SELECT current_setting('temp_directory') AS folder").to_pylist()
        assert mode(Path(row["folder"])) == 0o700
    assert not Path(row["folder"]).exists()


def test_a_reader_without_write_access_gets_a_note_that_nothing_was_recorded(lake: Lake, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("step 1\nKeyError: 'x'\n")
    # A lock that cannot be opened stands for a folder that cannot be written to: nothing stops root from that.
    (lake.root / ".incidents.lock").mkdir()
    answer = Flow(lake.config).diagnose(DiagnosisRequest(log))
    assert (answer.diagnosis.reason, answer.diagnosis.incident_id) == ("KeyError", "")
    where = lake.root / ".incidents.lock"
    refusal = f"locking the incidents of {lake.root}: [Errno 21] Is a directory: '{where}'"
    assert answer.notes == (f"The diagnosis was not recorded: {refusal}.",)
    assert lake.journal("diagnoses") == []
