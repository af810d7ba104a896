"""A collector that is there to be killed: python crashing.py FOLDER DESCRIPTOR BASE_MS.

It counts milliseconds since boot, which go on whether or not anybody reads them, and after each sync it tells the
descriptor how far it came and how large its segment was.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from counting import IDENTITY, number_row
from gpulake.collect import sampler as loop
from gpulake.collect.rows import Row
from gpulake.collect.sampler import Sampler, header_of
from gpulake.collect.segments import SegmentWriter, last_positions
from gpulake.collect.session import StopSignals
from gpulake.core.clock import Clock, SystemClock

INTERVAL_SECONDS = 0.005


class Milliseconds:
    """Every millisecond since a moment, once."""

    def __init__(self, base_ms: int) -> None:
        self._base_ms = base_ms
        self._next = 0

    def read(self, clock: Clock) -> Iterator[Row]:
        limit = round(clock.elapsed() * 1000) - self._base_ms
        while self._next < limit:
            self._next += 1
            yield number_row(clock, self._next - 1)

    def position(self) -> int:
        return self._next

    def resume(self, position: int) -> None:
        self._next = position


def main(folder: Path, descriptor: int, base_ms: int) -> None:
    loop.SYNC_SECONDS = 3 * INTERVAL_SECONDS
    writer = SegmentWriter(folder, header_of(IDENTITY, INTERVAL_SECONDS), segment_bytes=64 << 10)

    def acknowledged(tick: int, positions: Mapping[str, int]) -> None:
        size = (folder / writer.segment).stat().st_size
        answer = {"tick": tick, "position": positions["numbers"], "segment": writer.segment, "size": size}
        os.write(descriptor, json.dumps(answer).encode() + b"\n")

    sampler = Sampler(
        {"numbers": Milliseconds(base_ms)},
        writer,
        IDENTITY,
        SystemClock(),
        interval_seconds=INTERVAL_SECONDS,
        positions=last_positions(folder, IDENTITY.boot_id),
        acknowledged=acknowledged,
    )
    with StopSignals() as signals:
        sampler.run(signals.wait)
    sampler.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
