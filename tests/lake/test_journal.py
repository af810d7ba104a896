"""The journal keeps what was acknowledged, and says which of its lines are not as they were written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.errors import LakeBusyError, LakeError
from gpulake.lake import Lake
from gpulake.lake.journal import DamagedLine

ROWS = [{"recovery_id": name, "status": "done", "detail": {"node": "n1"}} for name in ("a", "b", "c")]


@pytest.fixture
def lake(config: Config) -> Lake:
    lake = Lake(config).create()
    lake.append("recoveries", ROWS)
    return lake


@pytest.fixture
def path(lake: Lake) -> Path:
    return lake.root / "recoveries.jsonl"


def changed(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new, 1))


def test_rows_come_back_as_they_were_written_and_sql_reads_them_too(lake: Lake, path: Path) -> None:
    assert lake.journal("recoveries") == ROWS
    assert rows_of(lake, "SELECT recovery_id, status FROM recoveries ORDER BY ALL") == [
        {"recovery_id": name, "status": "done"} for name in ("a", "b", "c")
    ]
    first = json.loads(path.read_bytes().splitlines()[0])
    assert first == {**ROWS[0], "crc32": "9f8c73e3"}
    assert lake.journals.damaged_lines() == []


def test_a_flipped_byte_that_is_still_json_is_found_and_is_no_row(lake: Lake, path: Path) -> None:
    changed(path, b'"recovery_id": "b", "status": "done"', b'"recovery_id": "b", "status": "dole"')
    assert lake.journal("recoveries") == [ROWS[0], ROWS[2]]
    reason = "its checksum does not match"
    assert lake.journals.damaged_lines() == [DamagedLine("recoveries", path, 2, reason, is_cut=False)]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"crc32"', b'"crc33"', "it is no row of this table"),
        (b'"status"', b'\\status"', "its checksum does not match"),
        (b'"crc32": "', b'"crc32": \\', "it is no JSON"),
        (b"}\n", b"}}\n", "it is no JSON"),
    ],
)
def test_a_flipped_byte_anywhere_in_a_line_is_found(
    lake: Lake, path: Path, old: bytes, new: bytes, reason: str
) -> None:
    changed(path, old, new)
    assert lake.journals.damaged_lines() == [DamagedLine("recoveries", path, 1, reason, is_cut=False)]


def test_every_flipped_bit_of_a_line_is_found(lake: Lake, path: Path) -> None:
    whole = path.read_bytes()
    for place in range(whole.index(b"\n")):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            assert 1 <= len(lake.journals.damaged_lines()) <= 2, (place, bit)


@pytest.mark.parametrize("rest", [b'{"recovery_id": "d", "sta', b"\0" * 40, b'{"recovery_id": "d"' + b"\0" * 40])
def test_what_a_crash_left_of_a_line_costs_only_itself(lake: Lake, path: Path, rest: bytes) -> None:
    with path.open("ab") as journal:
        journal.write(rest)
    lake.append("recoveries", [ROWS[0]])
    assert lake.journal("recoveries", is_strict=True) == [*ROWS, ROWS[0]]
    assert lake.journals.damaged_lines() == [DamagedLine("recoveries", path, 4, "it was cut short", is_cut=True)]


def test_lines_of_before_have_no_checksum_and_are_rows_all_the_same(lake: Lake, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert lake.journal("recoveries", is_strict=True) == ROWS
    assert lake.journals.damaged_lines() == []


def test_where_a_row_passed_over_may_do_harm_a_damaged_line_is_an_error(lake: Lake, path: Path) -> None:
    changed(path, b'"b"', b'"x"')
    with pytest.raises(LakeError, match=r"line 2 of .*recoveries.jsonl: its checksum does not match"):
        lake.journal("recoveries", is_strict=True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failing_sync_is_an_error_with_a_way_out(lake: Lake, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(LakeBusyError, match="writing the journal") as caught:
        lake.append("recoveries", ROWS)
    assert "run the command again" in caught.value.hint
