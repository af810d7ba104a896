"""A run folder in which somebody left links: nothing behind them is read, written or locked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpulake.cli import root
from gpulake.collect import control
from gpulake.collect.rundir import RunDir, prepare
from gpulake.collect.tracing.appending import append_synced
from gpulake.core.errors import GpulakeError, UsageError

ARGUMENTS = ("--run-id", "r1", "--node-id", "n1", "--interval", "100ms", "--sources", "host")
FILES = ("status.json", "collector.lock", "collector.log", "node_meta.new", "run_meta.new", "run_meta.json")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text('{"precious": 1}')
    return path


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDir]:
    run = RunDir(tmp_path / "runs" / "r1" / "n1")
    run.path.mkdir(parents=True)
    yield run
    # A collector that nothing kept from starting ends here.
    with suppress(GpulakeError):
        control.stop(run)


def collect(verb: str, run: RunDir, *more: str) -> Result:
    return CliRunner().invoke(root, ["collect", verb, "--dir", str(run.path.parents[1]), *ARGUMENTS, *more])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_hard", [False, True])
def test_a_link_in_the_folder_is_not_followed(run: RunDir, victim: Path, name: str, is_hard: bool) -> None:
    link = run.path / name
    if is_hard:
        link.hardlink_to(victim)
    else:
        link.symlink_to(victim)
    for verb in ("run", "start"):
        answer = collect(verb, run, *(["--duration", "100ms"] if verb == "run" else []))
        if answer.exception:
            assert isinstance(answer.exception, GpulakeError), answer.output
            expected = "has another name, too" if is_hard else "is a symbolic link, which a collector does not follow"
            assert expected in answer.exception.message
        if not link.is_symlink():
            control.stop(run)
        assert victim.read_text() == '{"precious": 1}'
    if name == "run_meta.json" and not is_hard:
        assert "precious" not in link.read_text()


@pytest.mark.parametrize("which", ["segments", "n1", "r1"])
def test_a_folder_that_is_a_link_is_refused(run: RunDir, tmp_path: Path, which: str) -> None:
    other = tmp_path / "other"
    (other / "n1").mkdir(parents=True)
    place = {"segments": run.segments, "n1": run.path, "r1": run.path.parent}[which]
    if place.exists():
        place.rename(tmp_path / "moved")
    place.symlink_to(other)
    answer = collect("run", run, "--duration", "100ms")
    assert isinstance(answer.exception, UsageError)
    assert answer.exception.message == f"{place} is a symbolic link, which a collector does not follow"
    assert [path.name for path in other.rglob("*")] == ["n1"]


def test_a_folder_to_which_everybody_may_write_is_refused(run: RunDir) -> None:
    run.path.chmod(0o777)
    with pytest.raises(UsageError, match="everybody may write to"):
        prepare(run)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(run: RunDir) -> None:
    os.chown(run.path, 12345, 12345)
    with pytest.raises(UsageError, match=r"is of another user, who could replace its files \(uid 12345\)"):
        prepare(run)


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(run: RunDir) -> None:
    os.mkfifo(run.lock)
    answer = collect("run", run, "--duration", "100ms")
    assert isinstance(answer.exception, GpulakeError)


def test_an_adapter_appends_to_no_link(run: RunDir, victim: Path) -> None:
    path = run.events("exec", 1)
    path.symlink_to(victim)
    with pytest.raises(OSError, match="is a symbolic link"):
        append_synced(path, [{"a": 1}])
    assert victim.read_text() == '{"precious": 1}'
