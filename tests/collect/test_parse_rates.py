"""Rates of a parsed run against a naive walk over random counters, restarts and boots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.collect.cctf.files import key_of
from gpulake.collect.rows import ProcessEnd, Row
from gpulake.collect.segments import Block
from recorded_runs import (
    EPOCH_MS,
    block_of,
    cells,
    host_of,
    nic_of,
    parse_audited,
    process_of,
    rows_in,
    sample_of,
    write_session,
)

BOOT_MS = 10**8  # from one boot to the next


class Step(NamedTuple):
    """One tick of a made-up node."""

    wait_ms: int
    change: str  # before it
    busy: int
    idle: int
    rx: int
    used: tuple[int, ...]  # ticks of its processes, in turn
    is_born: bool  # a process begins
    is_ended: bool  # the oldest ends


STEPS = st.lists(
    st.builds(
        Step,
        wait_ms=st.integers(100, 3000),
        change=st.sampled_from(["go on"] * 6 + ["restart", "reboot"]),
        busy=st.integers(0, 50),
        idle=st.integers(0, 50),
        rx=st.integers(-5, 1000),
        used=st.tuples(*[st.integers(0, 3)] * 5),
        is_born=st.booleans(),
        is_ended=st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


@dataclass
class Being:
    proc_id: str
    pid: int
    start_ticks: int
    is_charged: bool  # it began after the collector
    ticks: int = 0
    is_said: bool = False


@dataclass
class World:
    """A node that counts, and what its rates should be."""

    run: Path
    hertz: int
    boot: int = 0
    elapsed_ms: int = 1000
    began_ms: int | None = None  # the first tick of the boot
    busy: int = 0
    idle: int = 0
    rx: int = 0
    before: tuple[int, int, int, int] | None = None  # time, busy, idle, rx
    alive: list[Being] = field(default_factory=list)
    all: list[Being] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    rates: list[tuple[int, float | None, float | None]] = field(default_factory=list)
    process_rows: int = 0

    def save(self) -> None:
        write_session(self.run, *self.blocks, boot_id=f"boot{self.boot}", ticks_per_second=self.hertz)
        self.blocks = []
        for being in self.alive:
            being.is_said = False

    def step(self, step: Step) -> None:
        if step.change != "go on":
            self.save()
        if step.change == "reboot":
            self.boot += 1
            self.elapsed_ms = self.busy = self.idle = self.rx = 0
            self.before, self.began_ms, self.alive = None, None, []
        self.elapsed_ms += step.wait_ms
        self.began_ms = self.elapsed_ms if self.began_ms is None else self.began_ms
        self.busy += step.busy
        self.idle += step.idle
        self.rx = max(0, self.rx + step.rx)
        rows = [host_of(self.busy, self.idle), nic_of(self.rx, 0), *self._processes(step)]
        now_ms = EPOCH_MS + self.boot * BOOT_MS + self.elapsed_ms
        self.blocks.append(block_of(self.elapsed_ms, rows, now_ms=now_ms))
        self._expect(now_ms)

    def _processes(self, step: Step) -> list[Row]:
        rows: list[Row] = []
        if step.is_ended and self.alive:
            ended = self.alive.pop(0)
            rows += [ProcessEnd(ended.pid)] if ended.is_said else []
        if step.is_born:
            start = (self.elapsed_ms - step.wait_ms // 2) * self.hertz // 1000
            is_charged = start * 1000 / self.hertz > (self.began_ms or 0)
            pid = 10 + len(self.all)
            self.alive.append(Being(f"boot{self.boot}-{start}-{pid}", pid, start, is_charged))
            self.all.append(self.alive[-1])
        for place, being in enumerate(self.alive):
            used = step.used[place % 5]
            being.ticks += used
            if not being.is_said:
                rows.append(process_of(being.pid, being.start_ticks, proc_id=being.proc_id))
            if used or not being.is_said:
                rows.append(sample_of(being.pid, being.ticks))
            being.is_said = True
        self.process_rows += len(self.alive)
        return rows

    def _expect(self, now_ms: int) -> None:
        cpu = rx = None
        if self.before is not None:
            at, busy, idle, rx_before = self.before
            everything = self.busy + self.idle - busy - idle
            cpu = round(100 * (self.busy - busy) / everything, 2) if everything else None
            grown = self.rx - rx_before
            rx = round(grown * 1000 / (self.elapsed_ms - at), 3) if grown >= 0 else None
        self.rates.append((now_ms, cpu, rx))
        self.before = (self.elapsed_ms, self.busy, self.idle, self.rx)


@pytest.mark.slow
@settings(max_examples=cases(60))
@given(steps=STEPS, hertz=st.sampled_from([100, 250, 300, 1024]))
def test_rates_are_those_of_a_naive_walk_and_cpu_adds_up(
    steps: Sequence[Step], hertz: int, tmp_path_factory: Any
) -> None:
    world = World(tmp_path_factory.mktemp("run"), hertz)
    for step in steps:
        world.step(step)
    world.save()
    audit = parse_audited(world.run)

    assert cells(rows_in(world.run, "host_metrics"), "ts_ms", "cpu_util") == [rate[:2] for rate in world.rates]
    assert [row["rx_Bps"] for row in rows_in(world.run, "link_metrics")] == [rate[2] for rate in world.rates]
    metrics = rows_in(world.run, "proc_metrics")
    assert len(metrics) == world.process_rows
    assert metrics == sorted(metrics, key=key_of("proc_metrics"))
    assert all(sum(file["violations"].values()) == 0 for file in audit["files"].values())
    spent: dict[str, Fraction] = {}
    for row in rows_in(world.run, "proc_cpu"):
        spent[row["proc_id"]] = spent.get(row["proc_id"], Fraction(0)) + Fraction(row["cpu_ms"])
    for being in world.all:
        if being.is_charged:
            assert float(spent[being.proc_id]) == pytest.approx(being.ticks * 1000 / hertz)
