"""Kill -9, lost power, a full disk, another boot: what is acknowledged stays, and nothing counts twice."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from counting import IDENTITY, Counter, SteppingClock, numbers_in, waits
from gpulake.collect.sampler import Sampler, header_of
from gpulake.collect.segments import SegmentWriter, last_positions, read_blocks_once, read_segments
from gpulake.core.clock import SystemClock

TESTS = Path(__file__).resolve().parents[1]
KILLS = 50
DEADLINE_SECONDS = 60


@dataclass
class Victim:
    """A collector in a process of its own, and what it has acknowledged."""

    process: subprocess.Popen[bytes]
    answers: int
    last: dict[str, Any]
    half: bytes = b""

    def hear(self, seconds: float) -> int:
        """How many acknowledgements came, after waiting so long for the first of them; none at the end."""
        waiting = select.poll()
        waiting.register(self.answers, select.POLLIN)
        if not waiting.poll(seconds * 1000):
            return 0
        *lines, self.half = (self.half + os.read(self.answers, 1 << 20)).split(b"\n")
        for line in lines:
            self.last = json.loads(line)
        return len(lines)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        while self.hear(DEADLINE_SECONDS):
            pass
        os.close(self.answers)


def begin(folder: Path, base_ms: int) -> Victim:
    answers, ask = os.pipe()
    command = [sys.executable, str(TESTS / "crashing.py"), str(folder), str(ask), str(base_ms)]
    process = subprocess.Popen(command, pass_fds=(ask,), env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    os.close(ask)
    return Victim(process, answers, {})


def lose_power(folder: Path, synced: dict[str, int], chance: random.Random) -> None:
    """What was not synced may be gone or torn: cuts the newest file anywhere behind what was acknowledged in it."""
    newest = max(folder.iterdir(), default=None)
    if newest is not None:
        os.truncate(newest, chance.randint(synced.get(newest.name, 0), newest.stat().st_size))


@pytest.mark.slow
def test_fifty_kills_lose_nothing_that_was_acknowledged_and_double_nothing(tmp_path: Path) -> None:
    chance = random.Random(4)
    base_ms = round(SystemClock().elapsed() * 1000)
    acknowledged = sessions = 0
    synced: dict[str, int] = {}
    for kill in range(KILLS):
        victim = begin(tmp_path, base_ms)
        wanted = chance.randint(0, 12)
        heard = 0
        while heard < wanted:
            came = victim.hear(DEADLINE_SECONDS)
            assert came, "it ended by itself"
            heard += came
        victim.hear(chance.uniform(0.0, 0.02 if wanted else 0.3))  # in between, or before it is even up
        victim.kill()
        acknowledged = max(acknowledged, victim.last.get("position", 0))
        if victim.last:
            sessions += 1
            synced[victim.last["segment"]] = victim.last["size"]
        if kill % 2:
            lose_power(tmp_path, synced, chance)
        assert last_positions(tmp_path, IDENTITY.boot_id).get("numbers", 0) >= acknowledged
    numbers = numbers_in(tmp_path)
    assert numbers == list(range(len(numbers)))  # 0 lost, 0 twice, in order
    assert len(numbers) >= acknowledged > 1_000
    assert sessions > KILLS // 2


def test_a_real_full_disk_drops_and_counts_and_goes_on(tmp_path: Path) -> None:
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        sys.executable,
        str(TESTS / "filling.py"),
        str(tmp_path),
    ]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no unshare here to mount a small disk with")
    if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip(f"a small disk may not be mounted here: {done.stderr.strip()[:200]}")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    # tmpfs gives room by the page: the end of the last page still takes a block or two.
    kept = [tick for tick in range(5, 25) if tick in answer["plain"]]
    dropped = 20 - len(kept)
    assert 10 <= dropped <= 20
    assert answer == {
        "dropped": dropped,
        "tick": 24,
        "numbers": list(range(90)),
        "plain": [*range(1, 5), *kept, *range(25, 31)],
        "events": [f"{dropped} ticks were dropped for lack of room"],
        "files": 1,
        "damage": [],
    }


def test_after_a_reboot_times_and_positions_begin_anew(tmp_path: Path) -> None:
    for boot, elapsed, ticks in (("b1", 5_000.0, 3), ("b2", 10.0, 2), ("b2", 12.0, 2)):
        identity = replace(IDENTITY, boot_id=boot)
        clock = SteppingClock(elapsed=elapsed)
        counter = Counter(step=4, begun=5_000.0 if boot == "b1" else 10.0)
        writer = SegmentWriter(tmp_path, header_of(identity, 1.0))
        positions = last_positions(tmp_path, boot)
        sampler = Sampler({"counter": counter}, writer, identity, clock, positions=positions)
        sampler.run(waits(clock, ticks))
        sampler.close()
    found = [
        (header["boot_id"], block.elapsed_ms, [row[3] for row in block.rows["event"]])
        for header, block in read_blocks_once(tmp_path)
    ]
    assert found == [
        ("b1", 5_000_000, [0, 1, 2, 3]),
        ("b1", 5_001_000, [4, 5, 6, 7]),
        ("b1", 5_002_000, [8, 9, 10, 11]),
        ("b2", 10_000, [0, 1, 2, 3]),
        ("b2", 11_000, [4, 5, 6, 7]),
        ("b2", 12_000, [8, 9, 10, 11]),
        ("b2", 13_000, [12, 13, 14, 15]),
    ]


def test_a_term_leaves_every_tick_acknowledged(tmp_path: Path) -> None:
    victim = begin(tmp_path, round(SystemClock().elapsed() * 1000))
    while not victim.last:
        assert victim.hear(DEADLINE_SECONDS)
    victim.process.terminate()
    while victim.hear(DEADLINE_SECONDS):
        pass
    os.close(victim.answers)
    assert victim.process.wait() == 0
    blocks = [block for segment in read_segments(tmp_path) for block in segment.blocks]
    assert victim.last["tick"] == blocks[-1].tick
    assert victim.last["position"] == len(numbers_in(tmp_path))
