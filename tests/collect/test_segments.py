"""Segments lose only what was hit, acknowledge only what is synced, and give no row twice."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.collect.segments import (
    Block,
    Damage,
    NoRoomError,
    SegmentWriter,
    last_positions,
    read_blocks_once,
    read_segments,
)

HEADER = {"node_id": "n1", "boot_id": "b1"}


def block(tick: int, *, first: int | None = None, text: str = "") -> Block:
    """A tick of a counting source: its numbers from `first` up to the tick, after one row of another source."""
    first = tick - 1 if first is None else first
    numbers = [[number, text] for number in range(first, tick)]
    return Block(
        tick=tick,
        now_ms=1_000_000 + tick,
        elapsed_ms=tick,
        rows={"event": [["other"], *numbers]},
        before={"counter": first},
        after={"counter": tick},
        parts={"counter": {"event": [1, len(numbers)]}},
    )


def written(folder: Path, ticks: range, **options: int) -> SegmentWriter:
    writer = SegmentWriter(folder, HEADER, **options)
    for tick in ticks:
        writer.append(block(tick))
    writer.close()
    return writer


def ticks_in(folder: Path) -> list[int]:
    return [found.tick for segment in read_segments(folder) for found in segment.blocks]


def numbers_in(folder: Path) -> list[int]:
    return [row[0] for _, found in read_blocks_once(folder) for row in found.rows["event"] if row != ["other"]]


def damage_in(folder: Path) -> list[Damage]:
    return [damage for segment in read_segments(folder) for damage in segment.damage]


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{",
        b"[" * 100_000,
        b"\xff",
        b"{}\t{}",
        b'{"tick": 1}',
        b'{"tick": 1, "now_ms": 1, "elapsed_ms": "1", "before": {}, "after": {}, "parts": {}}\t{}',
        b'{"tick": 1, "now_ms": 1, "elapsed_ms": 1, "before": {"a": []}, "after": {}, "parts": {}}\t{}',
        b'{"tick": 1, "now_ms": 1, "elapsed_ms": 1, "before": {}, "after": {}, "parts": {"a": {"b": [1]}}}\t{}',
        b'{"tick": 1, "now_ms": 1, "elapsed_ms": 1, "before": {}, "after": {}, "parts": {}}\t{"a": 1}',
    ],
)
def test_a_line_whose_checksum_is_right_may_still_be_no_block(tmp_path: Path, text: bytes) -> None:
    written(tmp_path, range(1, 3))
    (path,) = tmp_path.glob("*.seg")
    with path.open("ab") as file:
        file.write(b"%08x %s\n" % (zlib.crc32(text), text))
    assert (ticks_in(tmp_path), numbers_in(tmp_path)) == ([1, 2], [0, 1])
    assert [damage.reason for damage in damage_in(tmp_path)] == ["it is not what a collector writes"]


def test_what_is_written_is_read_back_with_its_header(tmp_path: Path) -> None:
    written(tmp_path, range(1, 3))
    (segment,) = read_segments(tmp_path)
    assert segment.blocks == (block(1), block(2))
    assert segment.header == HEADER | {"format": "gpulake-segment", "version": 1, "session": 1, "segment": 1}
    assert segment.damage == ()
    assert list(read_blocks_once(tmp_path)) == [(segment.header, block(1)), (segment.header, block(2))]


def test_hostile_text_stays_in_its_row(tmp_path: Path) -> None:
    text = 'line\nbreak\ttab "quote" \u2028 \udcff end'
    writer = SegmentWriter(tmp_path, HEADER)
    writer.append(block(1, text=text))
    writer.append(block(2))
    writer.close()
    (segment,) = read_segments(tmp_path)
    assert segment.blocks == (block(1, text=text.replace("\udcff", "?")), block(2))


def test_sessions_and_segments_keep_their_order_beyond_six_digits(tmp_path: Path) -> None:
    for name in ("999999-000001", "1000000-000002", "1000000-000010", "stray-file", "12-3"):
        (tmp_path / f"{name}.seg").write_bytes(b"")
    written(tmp_path, range(1, 2))
    assert (tmp_path / "1000001-000001.seg").stat().st_size > 0
    assert ticks_in(tmp_path) == [1]


def test_a_full_segment_is_followed_by_the_next(tmp_path: Path) -> None:
    writer = written(tmp_path, range(1, 40), segment_bytes=2_000)
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    assert all(path.stat().st_size <= 2_000 for path in files)
    assert ticks_in(tmp_path) == list(range(1, 40))
    assert writer.acknowledged_tick == 39
    assert writer.used_bytes == sum(path.stat().st_size for path in files)


def test_a_block_larger_than_a_segment_has_one_for_itself(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, HEADER, segment_bytes=100)
    for tick in (1, 2):
        writer.append(block(tick, text="x" * 500))
    writer.close()
    assert [len(segment.blocks) for segment in read_segments(tmp_path)] == [1, 1]


@settings(max_examples=cases(60))
@given(st.data())
def test_killed_at_any_byte_it_keeps_what_came_before_and_goes_on(data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        ends = []
        writer = SegmentWriter(folder, HEADER)
        path = folder / "000001-000001.seg"
        for tick in range(1, 6):
            writer.append(block(tick))
            ends.append(path.stat().st_size)
        writer.close()
        cut = data.draw(st.integers(0, ends[-1]))
        os.truncate(path, cut)
        whole = sum(end <= cut for end in ends)
        assert ticks_in(folder) == list(range(1, whole + 1))
        assert all(damage.is_torn_tail for damage in damage_in(folder))
        position = last_positions(folder, "b1").get("counter", 0)
        assert position == whole
        again = SegmentWriter(folder, HEADER)
        for tick in range(position + 1, 9):
            again.append(block(tick))
        again.close()
        assert numbers_in(folder) == list(range(8))


@settings(max_examples=cases(150))
@given(st.data())
def test_a_flipped_bit_costs_only_the_line_that_it_hits(data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, range(1, 6))
        path = folder / "000001-000001.seg"
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= 1 << data.draw(st.integers(0, 7))
        hit = path.read_bytes()[:at].count(b"\n") // 2 - 1  # two lines a block, after two headers
        path.write_bytes(content)
        reported: list[Damage] = []
        found = [block.tick for _, block in read_blocks_once(folder, report=reported.append)]
        assert set(range(1, 6)) - set(found) <= {hit, hit + 1}
        assert len(found) >= 4
        assert found == sorted(found)
        assert reported or found == [1, 2, 3, 4, 5]


def test_a_flipped_newline_costs_one_block(tmp_path: Path) -> None:
    written(tmp_path, range(1, 6))
    path = tmp_path / "000001-000001.seg"
    content = path.read_bytes()
    for at in [at for at, byte in enumerate(content) if byte == ord("\n")]:
        path.write_bytes(content[:at] + b"x" + content[at + 1 :])
        assert len(ticks_in(tmp_path)) >= 4


def test_a_segment_that_lost_both_headers_takes_that_of_its_session(tmp_path: Path) -> None:
    written(tmp_path, range(1, 40), segment_bytes=2_000)
    path = tmp_path / "000001-000002.seg"
    path.write_bytes(path.read_bytes().replace(b'"boot_id"', b'"bo0t_id"'))
    found = list(read_blocks_once(tmp_path))
    assert [block.tick for _, block in found] == list(range(1, 40))
    assert {header["boot_id"] for header, _ in found} == {"b1"}


def test_blocks_without_any_header_are_reported(tmp_path: Path) -> None:
    written(tmp_path, range(1, 2))
    path = tmp_path / "000001-000001.seg"
    path.write_bytes(path.read_bytes().replace(b'"boot_id"', b'"bo0t_id"'))
    reported: list[Damage] = []
    assert list(read_blocks_once(tmp_path, report=reported.append)) == []
    assert [damage.reason for damage in reported] == [
        "its checksum does not match",
        "its checksum does not match",
        "tick 1 belongs to no header",
    ]


def test_a_segment_of_a_newer_version_is_reported_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulake.collect.segments.VERSION", 2)
    written(tmp_path, range(1, 3))
    monkeypatch.undo()
    assert ticks_in(tmp_path) == []
    assert [damage.reason for damage in damage_in(tmp_path)] == ["it is of a newer gpulake"]


def test_the_rows_of_a_source_that_went_back_count_once(tmp_path: Path) -> None:
    """A block could not be acknowledged and yet stayed on the disk: the source yielded its numbers again."""
    writer = SegmentWriter(tmp_path, HEADER)
    for tick, first in ((1, 0), (2, 1), (3, 2), (6, 1), (7, 6)):  # at tick 6 it went back to where it was before tick 2
        writer.append(block(tick, first=first))
    writer.close()
    assert numbers_in(tmp_path) == list(range(7))
    cut = [found for _, found in read_blocks_once(tmp_path)]
    assert [found.tick for found in cut] == [1, 2, 3, 6, 7]
    assert cut[1].rows == {"event": [["other"]]}
    assert cut[1].parts == {}


def test_what_is_cut_leaves_the_parts_of_others_where_they_are(tmp_path: Path) -> None:
    rows = {"event": [["a1"], ["a2"], ["b1"], ["c"]]}
    parts = {"a": {"event": [0, 2]}, "b": {"event": [2, 1]}}
    writer = SegmentWriter(tmp_path, HEADER)
    writer.append(Block(1, 1, 1, rows, {"a": 0, "b": 0}, {"a": 2, "b": 1}, parts))
    writer.append(
        Block(2, 2, 2, {"event": [["a1"], ["a2"]]}, {"a": 0, "b": 1}, {"a": 2, "b": 1}, {"a": {"event": [0, 2]}})
    )
    writer.close()
    first, _ = (found for _, found in read_blocks_once(tmp_path))
    assert first.rows == {"event": [["b1"], ["c"]]}
    assert first.parts == {"b": {"event": [0, 1]}}


def test_positions_are_of_one_boot(tmp_path: Path) -> None:
    written(tmp_path, range(1, 4))
    assert last_positions(tmp_path, "b1") == {"counter": 3}
    assert last_positions(tmp_path, "b2") == {}
    writer = SegmentWriter(tmp_path, HEADER | {"boot_id": "b2"})
    for tick in (1, 2):
        writer.append(block(tick))
    writer.close()
    assert last_positions(tmp_path, "b2") == {"counter": 2}
    assert numbers_in(tmp_path) == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("cap", range(1_000, 1_800, 40))
def test_the_cap_holds_to_the_byte_and_leaves_no_files_behind(tmp_path: Path, cap: int) -> None:
    writer = SegmentWriter(tmp_path, HEADER, segment_bytes=700, cap_bytes=cap)
    lost = []
    for tick in range(1, 60):
        try:
            writer.append(block(tick))
        except NoRoomError as error:
            lost.append(error.lost_from)
    writer.close()
    files = list(tmp_path.iterdir())
    kept = ticks_in(tmp_path)
    assert sorted(kept + lost) == list(range(1, 60))
    assert sum(path.stat().st_size for path in files) == writer.used_bytes <= cap
    assert all(segment.blocks for segment in read_segments(tmp_path))
    # The cap is of the run: the next session has no more.
    with pytest.raises(NoRoomError, match=f"the cap of {cap} bytes is reached"):
        SegmentWriter(tmp_path, HEADER, cap_bytes=cap).append(block(60))
    assert list(tmp_path.iterdir()) == files


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
        signal.signal(signal.SIGXFSZ, handler)


@settings(max_examples=cases(40))
@given(st.integers(0, 3_000))
def test_a_write_that_fails_at_any_byte_leaves_whole_lines(size: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        writer = SegmentWriter(folder, HEADER)
        kept, lost = [], []
        with files_no_larger_than(size):
            for tick in range(1, 12):
                try:
                    writer.append(block(tick))
                    writer.sync()
                    kept.append(tick)
                except NoRoomError:
                    lost.append(tick)
        assert len(list(folder.iterdir())) <= 1
        writer.append(block(12))
        writer.close()
        assert ticks_in(folder) == [*kept, 12]
        assert damage_in(folder) == []
        assert sorted(kept + lost) == list(range(1, 12))


def test_what_could_not_be_synced_is_not_acknowledged_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SegmentWriter(tmp_path, HEADER)
    writer.append(block(1))
    writer.sync()
    for tick in (2, 3):
        writer.append(block(tick))

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(NoRoomError, match="Input/output error") as lost:
        writer.sync()
    assert lost.value.lost_from == 2
    monkeypatch.undo()
    assert writer.acknowledged_tick == 1
    writer.append(block(4))
    assert writer.acknowledged_tick == 1
    writer.close()
    assert writer.acknowledged_tick == 4
    assert ticks_in(tmp_path) == [1, 4]
    assert writer.used_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_a_sync_that_fails_at_the_change_of_files_names_all_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SegmentWriter(tmp_path, HEADER, segment_bytes=900)
    monkeypatch.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))

    def write_all() -> None:
        for tick in range(1, 20):
            writer.append(block(tick))

    with pytest.raises(NoRoomError) as lost:
        write_all()
    assert lost.value.lost_from == 1
    assert list(tmp_path.iterdir()) == []


def test_an_older_file_is_never_written_again(tmp_path: Path) -> None:
    written(tmp_path, range(1, 4))
    path = tmp_path / "000001-000001.seg"
    before = path.read_bytes()
    written(tmp_path, range(1, 4))
    assert path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000001-000001.seg", "000002-000001.seg"]


def test_what_is_written_to_a_deleted_file_is_lost_and_the_next_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "segments"
    writer = SegmentWriter(folder, HEADER)
    writer.append(block(1))
    shutil.rmtree(folder)
    with pytest.raises(NoRoomError, match="the segment was deleted") as lost:
        writer.sync()
    assert (lost.value.lost_from, writer.acknowledged_tick) == (1, 0)
    writer.append(block(2, first=0))
    writer.close()
    assert writer.acknowledged_tick == 2
    assert numbers_in(folder) == [0, 1]


def test_room_that_somebody_made_is_used(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, HEADER, segment_bytes=1, cap_bytes=1500)
    writer.append(block(1))
    writer.append(block(2))
    with pytest.raises(NoRoomError, match="the cap of 1500 bytes is reached"):
        writer.append(block(3, text="x" * 1000))
    (tmp_path / "000001-000001.seg").unlink()
    writer.append(block(4, text="x" * 500))
    writer.close()
    assert ticks_in(tmp_path) == [2, 4]
    assert writer.used_bytes == sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1500
