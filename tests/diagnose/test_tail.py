from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpulake.core.errors import InputError
from gpulake.diagnose.logs import tail as tail_module
from gpulake.diagnose.logs.tail import Tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def tail(log: Path) -> Iterator[Tail]:
    with closing(Tail(log)) as found:
        yield found


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_what_is_new_is_read_once_and_by_whole_lines(log: Path, tail: Tail) -> None:
    assert tail.read() == b""
    append(log, "one\ntw")
    assert tail.read() == b"one\n"
    append(log, "o\n")
    assert (tail.read(), tail.read()) == (b"two\n", b"")


def test_a_line_to_which_nothing_is_added_is_read_without_its_end(log: Path, tail: Tail) -> None:
    append(log, "one\nKill")
    assert [tail.read() for _ in range(3)] == [b"one\n", b"Kill", b""]
    append(log, "ed\nmore\n")
    assert tail.read() == b"ed\nmore\n"


def test_a_line_that_still_grows_is_waited_for(log: Path, tail: Tail) -> None:
    for text in ("1%", "2%", "3%"):
        append(log, text)
        assert tail.read() == b""
    assert tail.read() == b"1%2%3%"


def test_what_was_written_before_a_log_was_moved_away_is_not_lost(log: Path, tail: Tail) -> None:
    append(log, "one\n")
    tail.read()
    append(log, "the end\n")
    log.rename(log.with_suffix(".1"))
    assert not tail.is_replaced
    append(log, "anew\n")
    assert tail.is_replaced
    assert tail.read() == b"the end\n"
    tail.reopen()
    assert tail.read() == b"anew\n"
    assert not tail.is_replaced


def test_a_log_that_was_cut_is_read_from_its_beginning(log: Path, tail: Tail) -> None:
    append(log, "a long line\n")
    tail.read()
    log.write_text("short\n")
    assert (tail.read(), tail.is_replaced) == (b"", True)
    tail.reopen()
    assert tail.read() == b"short\n"


def test_a_large_log_is_read_in_portions(log: Path, tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "MOST_BYTES", 8)
    append(log, "one\ntwo\nthree\nwithout any end")
    found = []
    while content := tail.read():
        found.append(content)
    assert found == [b"one\ntwo\n", b"three\n", b"without "]
    assert (tail.is_behind, tail.read()) == (False, b"any end")


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(InputError, match=r"cannot read .*folder"):
        Tail(folder).read()
