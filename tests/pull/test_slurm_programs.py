"""`gpulake pull slurm` where Slurm's programs are missing, refuse, hang or print something else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import PullError, UsageError
from gpulake.flow import Flow
from gpulake.pull.slurm import SlurmPull

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def pull(tmp_path: Path, **options: object) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.clock = FrozenClock(NOW)
    flow.pull(SlurmPull(cluster="tiger", **options), NOW - timedelta(hours=1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'Slurm accounting storage is disabled' >&2; exit 1", "sacct ended with 1: Slurm accounting storage is"),
        (
            "printf 'sacct: error: no host\\n\\nsacct: fatal: gave up\\n' >&2; exit 1",
            "1: sacct: error: no host; sacct: fatal: gave up",
        ),
        ("echo 'JobID|State'; kill -9 $$", "sacct ended with -9: nothing"),
        ("exec sleep 60", "sacct did not end within 0.2 seconds"),
        ("echo hello", "sacct printed no header"),
    ],
    ids=["refused", "several lines", "killed", "hangs", "another"],
)
def test_a_program_that_fails_is_an_error_with_what_it_said(tmp_path: Path, script: str, message: str) -> None:
    program(tmp_path, "sacct", script)
    with pytest.raises(PullError, match=message):
        pull(tmp_path, bin_folder=tmp_path, timeout_seconds=0.2)


def test_a_program_that_is_not_there_or_may_not_be_run_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(PullError, match=r"cannot run .*sacct: No such file or directory") as missing:
        pull(tmp_path, bin_folder=tmp_path)
    assert "--from FOLDER" in (missing.value.hint or "")
    (tmp_path / "sacct").write_text("")
    (tmp_path / "sacct").chmod(0o644)
    with pytest.raises(PullError, match=r"cannot run .*sacct: Permission denied"):
        pull(tmp_path, bin_folder=tmp_path)


def test_a_folder_without_saved_output_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    with pytest.raises(UsageError, match="nothing in"):
        pull(tmp_path, saved=tmp_path / "saved")
