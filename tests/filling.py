"""A disk that is full for a while, for real: python filling.py FOLDER, in a mount namespace of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from counting import IDENTITY, Counter, Plain, SteppingClock, events_in, numbers_in
from gpulake.collect.rundir import StatusFile, read_object
from gpulake.collect.sampler import Sampler, header_of
from gpulake.collect.segments import SegmentWriter, read_segments

FULL = range(5, 25)  # ticks


def main(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], check=True)
    clock = SteppingClock()
    plain = Plain()
    status = StatusFile(folder / "status.json")
    segments = folder / "segments"
    writer = SegmentWriter(segments, header_of(IDENTITY, 1.0))
    sampler = Sampler({"counter": Counter(), "plain": plain}, writer, IDENTITY, clock, status=status)
    ballast = folder / "ballast"
    for tick in range(1, 31):
        if tick == FULL.start:
            fill(ballast)
        if tick == FULL.stop:
            ballast.unlink()
        sampler.tick(tick)
        clock.pass_time(1.0)
        if tick == FULL.stop - 1:
            during = read_object(folder / "status.json")
    sampler.close()
    answer = {
        "dropped": during["ticks_dropped"],
        "tick": during["tick"],
        "numbers": numbers_in(segments),
        "plain": numbers_in(segments, "plain"),
        "events": [event.message for event in events_in(segments) if event.kind == "dropped"],
        "files": len(list(segments.iterdir())),
        "damage": [asdict(damage) for segment in read_segments(segments) for damage in segment.damage],
    }
    print(json.dumps(answer))


def fill(path: Path) -> None:
    """Writes until there is not a byte left."""
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


if __name__ == "__main__":
    main(Path(sys.argv[1]))
