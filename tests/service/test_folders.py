"""Files in watched folders: when they are complete, and that each state of one is taken once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpulake.service import folders as room
from gpulake.service.folders import Folders


def test_a_file_is_ready_once_it_has_not_changed_between_two_looks(tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    file.write_text("half")
    folders = Folders([tmp_path])
    assert folders.ready() == []
    file.write_text("half and half")
    assert folders.ready() == []
    assert folders.ready() == [file]


def test_a_taken_file_is_ready_again_only_after_a_change(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1")
    folders = Folders([tmp_path])
    folders.ready()
    folders.take(folders.ready())
    assert folders.ready() == []
    file.write_text("12")
    folders.ready()
    assert folders.ready() == [file]


def test_a_file_that_was_not_taken_stays_ready(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1")
    folders = Folders([tmp_path])
    folders.ready()
    assert [folders.ready(), folders.ready()] == [[file], [file]]


def test_hidden_and_unfinished_names_and_what_is_no_file_are_left_alone(tmp_path: Path) -> None:
    inner = tmp_path / "deep" / "er"
    inner.mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    for name in (".a.csv", "b.csv.part", "c.tmp", "d.csv~", ".hidden/e.csv", "deep/er/f.csv"):
        (tmp_path / name).write_text("1")
    os.mkfifo(tmp_path / "pipe")
    folders = Folders([tmp_path])
    folders.ready()
    assert folders.ready() == [inner / "f.csv"]


def test_no_more_files_at_once_than_a_command_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / name).write_text(name)
    folders = Folders([tmp_path])
    folders.ready()
    folders.take(first := folders.ready())
    assert [path.name for path in (*first, *folders.ready())] == ["a", "b", "c"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    folders = Folders([tmp_path, tmp_path / "away"])
    assert folders.missing == [tmp_path / "away"]
    assert folders.ready() == []
