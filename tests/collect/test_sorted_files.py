"""Files that are sorted in bounded memory and are there whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.collect.cctf import files
from gpulake.collect.cctf.files import SortedFile, locked, write_json


def number_of(line: str) -> tuple[int]:
    return (int(line),)


@settings(max_examples=cases(80))
@given(numbers=st.lists(st.integers(0, 50), max_size=60), window_lines=st.integers(0, 4))
def test_lines_in_any_order_come_out_sorted(numbers: list[int], window_lines: int, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("sorted") / "numbers"
    file = SortedFile(path, number_of, window_lines=window_lines)
    for number in numbers:
        file.add((number,), str(number))
    assert not path.exists()
    file.finish()
    assert [int(line) for line in path.read_text().splitlines()] == sorted(numbers)
    assert [found.name for found in path.parent.iterdir()] == ["numbers"]


def test_more_runs_than_can_be_open_are_merged_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FAN_IN", 2)
    file = SortedFile(tmp_path / "numbers", number_of, window_lines=0)
    for number in range(9, 0, -1):
        file.add_sorted((number,), (number,), [str(number)])
    assert list(file.drain()) == [str(number) for number in range(1, 10)]
    assert list(tmp_path.iterdir()) == []


def test_what_a_crash_left_is_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".x.tmp").write_text("another program's")
    files.temporary(tmp_path / "numbers").write_text("half a li")
    with locked(tmp_path):
        write_json(tmp_path / "a.json", {"ä": None})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.tmp", "a.json"]
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n  "ä": null\n}\n'
