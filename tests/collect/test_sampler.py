"""The sampler's loop, on a clock that tests move."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from counting import IDENTITY, Counter, Plain, SteppingClock, events_in, number_row, numbers_in, rows_in, sampled, waits
from gpulake.collect.identity import Identity
from gpulake.collect.rows import KINDS, Cost, NodeEvent, Row
from gpulake.collect.rundir import PAGE_BYTES, StatusFile, page_of, read_object
from gpulake.collect.sampler import Sampler, header_of
from gpulake.collect.segments import SegmentWriter, read_blocks_once, read_segments
from gpulake.collect.sources import NoData
from gpulake.core.clock import Clock


class Slow(Plain):
    """Takes so many seconds at some of its reads."""

    def __init__(self, clock: SteppingClock, seconds: Mapping[int, float]) -> None:
        super().__init__()
        self._clock = clock
        self._seconds = seconds

    def read(self, clock: Clock) -> Iterable[Row]:
        rows = super().read(clock)
        self._clock.pass_time(self._seconds.get(self.reads, 0.0))
        return rows


class Broken(Plain):
    """Yields a row, then fails; at its reads in `good` it does not."""

    def __init__(self, error: Exception, good: Sequence[int] = ()) -> None:
        super().__init__()
        self._error = error
        self._good = good

    def read(self, clock: Clock) -> Iterator[Row]:
        self.reads += 1
        yield number_row(clock, self.reads, "broken")
        if self.reads not in self._good:
            raise self._error


def test_a_source_of_changes_that_failed_tells_all_again_and_its_silence_is_marked(tmp_path: Path) -> None:
    teller = Broken(ValueError("no"), good=[1, 3])
    sampled(tmp_path, {"teller": teller, "counter": Counter()}, 4)
    assert [block.unread for _, block in read_blocks_once(tmp_path)] == [(), ["teller"], (), ["teller"]]
    assert teller.forgotten == 2


def test_each_tick_is_a_block_with_the_rows_of_all_sources(tmp_path: Path) -> None:
    sampled(tmp_path, {"counter": Counter(step=2), "plain": Plain()}, 2)
    blocks = [block for _, block in read_blocks_once(tmp_path)]
    assert [(block.tick, block.elapsed_ms, block.before, block.after, block.parts) for block in blocks] == [
        (1, 100_000, {"counter": 0}, {"counter": 2}, {"counter": {"event": [0, 2]}}),
        (2, 101_000, {"counter": 2}, {"counter": 4}, {"counter": {"event": [0, 2]}}),
    ]
    assert blocks[1].now_ms - blocks[0].now_ms == 1_000
    assert [[row[3] for row in block.rows["event"]] for block in blocks] == [[0, 1, 1], [2, 3, 2]]
    assert [sorted(block.rows) for block in blocks] == [["cost", "event"], ["cost", "event"]]


def test_a_segment_names_its_node_and_the_columns_of_its_rows(tmp_path: Path) -> None:
    sampled(tmp_path, {}, 1, interval_seconds=0.2)
    (segment,) = read_segments(tmp_path)
    assert segment.header["node_id"] == "n1"
    assert segment.header["boot_id"] == "b1"
    assert segment.header["interval_ms"] == 200
    assert segment.header["columns"] == {kind: list(row._fields) for kind, row in KINDS.items()}


@pytest.mark.parametrize("interval", [0.1, 0.3, 1.0, 60.0])
def test_ticks_keep_to_the_grid(tmp_path: Path, interval: float) -> None:
    clock = SteppingClock(elapsed=12_345.678)
    sampled(tmp_path, {}, 30, clock=clock, interval_seconds=interval)
    times = [(block.tick, block.elapsed_ms) for _, block in read_blocks_once(tmp_path)]
    assert times == [(tick, round(12_345_678 + (tick - 1) * interval * 1000)) for tick in range(1, 31)]


def test_a_tick_that_takes_too_long_costs_the_next_ones_and_is_counted(tmp_path: Path) -> None:
    clock = SteppingClock()
    sampled(tmp_path, {"slow": Slow(clock, {2: 2.5})}, 4, clock=clock)
    assert [(block.tick, block.elapsed_ms) for _, block in read_blocks_once(tmp_path)] == [
        (1, 100_000),
        (2, 101_000),
        (5, 104_000),
        (6, 105_000),
    ]
    costs = [row for row in rows_in(tmp_path, "cost") if isinstance(row, Cost)]
    assert [(cost.ticks_missed_total, cost.tick_seconds) for cost in costs] == [(0, 0), (0, 0), (2, 2.5), (2, 0)]


def test_a_duration_ends_the_run_by_itself(tmp_path: Path) -> None:
    clock = SteppingClock()
    sampler = Sampler({}, SegmentWriter(tmp_path, header_of(IDENTITY, 1.0)), IDENTITY, clock)
    sampler.run(waits(clock, 1_000), duration_seconds=3.5)
    sampler.close()
    assert [block.tick for _, block in read_blocks_once(tmp_path)] == [1, 2, 3, 4]
    assert clock.seconds == 103.5


def test_a_stop_is_heard_even_if_every_tick_is_late(tmp_path: Path) -> None:
    clock = SteppingClock()
    sampled(tmp_path, {"slow": Slow(clock, dict.fromkeys(range(10), 1.0))}, 3, clock=clock)
    assert len(list(read_blocks_once(tmp_path))) == 3


def test_a_broken_source_costs_only_its_own_rows(tmp_path: Path) -> None:
    broken, plain = Broken(ValueError("out of sorts")), Plain()
    _, said = sampled(tmp_path, {"broken": broken, "plain": plain}, 10)
    assert numbers_in(tmp_path, "plain") == list(range(1, 11))
    # What it yielded before it failed counts; it is asked again after 1, 2 and 4 seconds.
    assert numbers_in(tmp_path, "broken") == [1, 2, 3, 4]
    assert said == ["broken: failing: ValueError: out of sorts"]
    (event,) = [event for event in events_in(tmp_path) if event.kind == "skipped"]
    assert event == NodeEvent(
        100_000, "skipped", "broken", None, None, "failing: ValueError: out of sorts", "collector"
    )


def test_a_source_that_recovers_is_read_each_tick_again(tmp_path: Path) -> None:
    broken = Broken(OSError("gone"), good=range(3, 100))
    sampled(tmp_path, {"broken": broken}, 8)
    assert numbers_in(tmp_path, "broken") == [1, 2, 3, 4, 5, 6, 7]


def test_messages_that_never_repeat_do_not_fill_the_log(tmp_path: Path) -> None:
    class Chatty(Plain):
        def read(self, clock: Clock) -> Iterable[Row]:
            raise ValueError(f"at {clock.elapsed()}\x1b[2J\n")

    _, said = sampled(tmp_path, {"chatty": Chatty()}, 40, interval_seconds=60.0)
    assert len(said) == 20
    assert said[0] == "chatty: failing: ValueError: at 100.0\\x1b[2J\\n"


def test_a_source_without_data_is_left_out_and_said_once(tmp_path: Path) -> None:
    class Absent(Plain):
        def read(self, clock: Clock) -> Iterable[Row]:
            super().read(clock)
            raise NoData("no such device")

    absent = Absent()
    _, said = sampled(tmp_path, {"absent": absent, "plain": Plain()}, 5)
    assert absent.reads == 1
    assert said == ["absent: no data: no such device"]
    assert numbers_in(tmp_path, "plain") == [1, 2, 3, 4, 5]


def test_rows_that_cannot_be_stored_cost_only_their_source(tmp_path: Path) -> None:
    class Odd(Plain):
        def read(self, clock: Clock) -> Iterable[Row]:
            row = number_row(clock, 1, "odd")
            return [row._replace(message=object() if clock.elapsed() == 101.0 else "")]  # type: ignore[arg-type]

    class Unknown(Plain):
        def read(self, clock: Clock) -> Iterable[Row]:  # noqa: ARG002
            return [("a", "tuple")]  # type: ignore[list-item]

    _, said = sampled(tmp_path, {"odd": Odd(), "unknown": Unknown(), "plain": Plain()}, 3)
    assert numbers_in(tmp_path, "plain") == [1, 2, 3]
    assert numbers_in(tmp_path, "odd") == [1, 1]
    assert said == [
        "unknown: failing: KeyError: <class 'tuple'>",
        "odd: failing: TypeError: Object of type object is not JSON serializable",
    ]


def test_a_clock_that_is_set_is_an_event_with_its_size(tmp_path: Path) -> None:
    clock = SteppingClock()
    writer = SegmentWriter(tmp_path, header_of(IDENTITY, 1.0))
    sampler = Sampler({"counter": Counter(step=1, begun=101.0)}, writer, IDENTITY, clock)
    for tick, step in enumerate((0.0, -3_600.0, 0.4, 90.0), start=1):
        clock.pass_time(1.0)
        clock.set_wall(step)
        sampler.tick(tick)
    sampler.close()
    steps = [event for event in events_in(tmp_path) if event.kind == "clock_step"]
    assert [(event.elapsed_ms, event.message) for event in steps] == [
        (102_000, "the wall clock was set by -3600.000 s"),
        (104_000, "the wall clock was set by +90.000 s"),
    ]
    assert numbers_in(tmp_path) == [0, 1, 2, 3]
    assert [block.elapsed_ms for _, block in read_blocks_once(tmp_path)] == [101_000, 102_000, 103_000, 104_000]


def test_clocks_that_were_read_too_far_apart_are_read_again(tmp_path: Path) -> None:
    class HeldUp(SteppingClock):
        """The process is stopped for two seconds, once, after it looked at the wall clock."""

        held = False

        def now(self) -> Any:
            at = super().now()
            if self.seconds > 101 and not self.held:
                self.held = True
                self.pass_time(2.0)
            return at

    clock = HeldUp()
    sampled(tmp_path, {}, 5, clock=clock)
    assert len({block.now_ms - block.elapsed_ms for _, block in read_blocks_once(tmp_path)}) == 1


def test_each_segment_has_everything_anew(tmp_path: Path) -> None:
    plain = Plain()
    writer = SegmentWriter(tmp_path, header_of(IDENTITY, 1.0), segment_bytes=6_000)
    sampled(tmp_path, {"plain": plain}, 20, writer=writer)
    segments = list(read_segments(tmp_path))
    assert len(segments) > 1
    assert plain.forgotten == len(segments) - 1


def test_sources_are_closed_at_the_end(tmp_path: Path) -> None:
    plain = Plain()
    sampled(tmp_path, {"plain": plain}, 1)
    assert plain.is_closed


def test_observers_see_each_tick_and_one_that_fails_costs_only_itself(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int, list[str]]] = []
    ups: list[tuple[str, bool]] = []

    def broken(*_: object) -> None:
        raise RuntimeError("nobody listens")

    def see(identity: Identity, elapsed_ms: int, now_ms: int, rows: Sequence[Row]) -> None:
        seen.append((identity.node_id, elapsed_ms, now_ms, [type(row).__name__ for row in rows]))

    def up(name: str, *, is_up: bool) -> None:
        ups.append((name, is_up))

    _, said = sampled(
        tmp_path,
        {"plain": Plain(), "broken": Broken(ValueError("no"), good=[1])},
        3,
        observers=[broken, see],
        source_observers=[up],
    )
    assert [(node, elapsed, rows) for node, elapsed, _, rows in seen] == [
        ("n1", 100_000, ["NodeEvent", "NodeEvent", "Cost"]),
        ("n1", 101_000, ["NodeEvent", "NodeEvent", "NodeEvent", "NodeEvent", "Cost"]),
        ("n1", 102_000, ["NodeEvent", "NodeEvent", "Cost"]),
    ]
    assert ups == [("plain", True), ("broken", True), ("broken", False)]
    assert any(line.endswith("broken: failing: RuntimeError: nobody listens") for line in said)


def test_the_status_is_one_page_and_says_how_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    plain = Plain()
    plain.values_dropped = 7
    sampled(tmp_path / "segments", {"plain": plain, "broken": Broken(ValueError("no"))}, 3, status=StatusFile(path))
    assert path.stat().st_size == PAGE_BYTES
    status = read_object(path)
    assert {name: status[name] for name in ("state", "run_id", "node_id", "pid", "tick", "acknowledged_tick")} == {
        "state": "stopped",
        "run_id": "r1",
        "node_id": "n1",
        "pid": os.getpid(),
        "tick": 3,
        "acknowledged_tick": 3,
    }
    assert status["sources"] == {"plain": "ok", "broken": "failing: ValueError: no"}
    assert status["rows"] == {"event": 6, "cost": 3}
    assert status["values_dropped"] == 7
    assert status["resident_bytes"] > 1 << 20
    assert status["cpu_seconds"] > 0
    assert status["used_bytes"] == sum(path.stat().st_size for path in (tmp_path / "segments").iterdir())


def test_long_reasons_never_outgrow_the_page() -> None:
    sources = {f"source{number}": "failing: " + "é" * 5_000 for number in range(20)}
    page = page_of({"state": "running", "sources": sources})
    assert len(page) == PAGE_BYTES
    assert json.loads(page)["state"] == "running"
    assert json.loads(page)["sources"]["source3"].startswith("failing:")


def test_a_status_that_is_torn_or_absent_is_empty(tmp_path: Path) -> None:
    assert read_object(tmp_path / "none") == {}
    (tmp_path / "torn").write_text('{"state": ')
    assert read_object(tmp_path / "torn") == {}


def test_the_loop_imports_nothing_heavy() -> None:
    program = (
        "import sys; import gpulake.collect.session;"
        "heavy = {'asyncio', 'http', 'ssl', 'urllib.request', 'multiprocessing', 'logging'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-S", "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
