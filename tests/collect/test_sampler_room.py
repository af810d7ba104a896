"""What is acknowledged is on the disk; what there is no room for is read again, or dropped and counted."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from counting import IDENTITY, Counter, Plain, SteppingClock, events_in, numbers_in, rows_in, sampled
from gpulake.collect.reading import Notices
from gpulake.collect.rows import Cost, Row
from gpulake.collect.sampler import Sampler, header_of
from gpulake.collect.segments import SegmentWriter, last_positions, read_blocks_once, read_segments
from gpulake.core.clock import Clock


def test_nothing_is_acknowledged_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[object] = []
    sync = os.fdatasync

    def synced(file: int) -> None:
        sync(file)
        order.append("synced")

    monkeypatch.setattr(os, "fdatasync", synced)
    sampled(
        tmp_path,
        {"counter": Counter(step=1, tick_seconds=0.25)},
        12,
        interval_seconds=0.25,
        acknowledged=lambda tick, positions: order.append((tick, dict(positions))),
    )
    # Once a second, however short the interval.
    assert order == [
        "synced",
        (1, {"counter": 1}),
        "synced",
        (5, {"counter": 5}),
        "synced",
        (9, {"counter": 9}),
        "synced",
        (12, {"counter": 12}),
    ]


def test_what_there_was_no_room_for_is_read_again_or_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppingClock()
    said: list[str] = []
    plain = Plain()
    writer = SegmentWriter(tmp_path, header_of(IDENTITY, 1.0))
    counter = Counter(begun=101.0)
    sampler = Sampler({"counter": counter, "plain": plain}, writer, IDENTITY, clock, notices=Notices(said.append))
    write = os.write

    def full(file: int, content: bytes) -> int:
        if len(content) > 50:
            return write(file, bytes(content[:50]))  # a part of it still fits
        raise OSError(errno.ENOSPC, "No space left on device")

    for tick in range(1, 9):
        clock.pass_time(1.0)
        with monkeypatch.context() as patch:
            if tick in (3, 4, 5):
                patch.setattr(os, "write", full)
            if tick == 4:
                clock.set_wall(60.0)
            sampler.tick(tick)
    sampler.close()
    assert numbers_in(tmp_path) == list(range(24))  # none lost, none twice
    assert numbers_in(tmp_path, "plain") == [1, 2, 6, 7, 8]
    assert plain.forgotten == 3
    own = [event for event in events_in(tmp_path) if event.source == "collector"]
    assert [(event.elapsed_ms, event.kind, event.message) for event in own] == [
        (104_000, "clock_step", "the wall clock was set by +60.000 s"),
        (106_000, "dropped", "3 ticks were dropped for lack of room"),
    ]
    assert said == ["segments: ticks are dropped: No space left on device"]
    costs = [row for row in rows_in(tmp_path, "cost") if isinstance(row, Cost)]
    assert [cost.ticks_dropped_total for cost in costs] == [0, 0, 3, 3, 3]


def test_what_only_grows_is_not_read_each_tick_while_there_is_no_room(tmp_path: Path) -> None:
    class Counted(Counter):
        reads = 0

        def read(self, clock: Clock) -> Iterator[Row]:
            self.reads += 1
            return super().read(clock)

    counter = Counted()
    writer = SegmentWriter(tmp_path, header_of(IDENTITY, 1.0), cap_bytes=10)
    sampled(tmp_path, {"counter": counter}, 600, writer=writer)
    assert counter.reads == 15  # after 1, 2, 4, 8, 16 and 32 seconds, then once a minute
    assert list(tmp_path.iterdir()) == []
    assert writer.used_bytes == 0


def test_what_could_not_be_synced_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppingClock()
    acknowledged: list[int] = []
    writer = SegmentWriter(tmp_path, header_of(IDENTITY, 0.25))
    sampler = Sampler(
        {"counter": Counter(tick_seconds=0.25)},
        writer,
        IDENTITY,
        clock,
        interval_seconds=0.25,
        acknowledged=lambda tick, _: acknowledged.append(tick),
    )

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for tick in range(1, 13):
        with monkeypatch.context() as patch:
            if tick == 5:
                patch.setattr(os, "fdatasync", fail)
            sampler.tick(tick)
        clock.pass_time(0.25)
    sampler.close()
    assert numbers_in(tmp_path) == list(range(36))
    assert [block.tick for _, block in read_blocks_once(tmp_path)] == [1, 6, 7, 8, 9, 10, 11, 12]
    assert acknowledged == [1, 9, 12]
    (dropped,) = [event.message for event in events_in(tmp_path) if event.kind == "dropped"]
    assert dropped == "4 ticks were dropped for lack of room"


def test_unacknowledged_blocks_that_stayed_on_the_disk_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails to sync and to truncate: the blocks are there, and their numbers were read again."""
    clock = SteppingClock()
    sampler = Sampler({"counter": Counter()}, SegmentWriter(tmp_path, header_of(IDENTITY, 1.0)), IDENTITY, clock)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for tick in range(1, 6):
        with monkeypatch.context() as patch:
            if tick == 3:
                patch.setattr(os, "fdatasync", fail)
                patch.setattr(os, "ftruncate", fail)
            sampler.tick(tick)
        clock.pass_time(1.0)
    sampler.close()
    assert [block.tick for segment in read_segments(tmp_path) for block in segment.blocks] == [1, 2, 3, 4, 5]
    assert numbers_in(tmp_path) == list(range(15))


def test_a_session_goes_on_where_the_one_before_stopped(tmp_path: Path) -> None:
    sampled(tmp_path, {"counter": Counter(step=5)}, 2)
    # A session without the source keeps its place.
    sampled(tmp_path, {}, 2, positions=last_positions(tmp_path, "b1"))
    positions = last_positions(tmp_path, "b1")
    assert positions == {"counter": 10}
    sampled(tmp_path, {"counter": Counter(step=20)}, 1, positions=positions)
    assert numbers_in(tmp_path) == list(range(20))
    *_, last = read_segments(tmp_path)
    assert [(block.before, block.after) for block in last.blocks] == [({"counter": 10}, {"counter": 20})]
