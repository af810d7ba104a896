"""Load: what runs on every machine, over time, as sums that can be averaged over any stretch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.synth.clock import FIRST_SECOND

BIN_SECONDS = 600


@dataclass(frozen=True)
class Load:
    """For every machine, the running integral (unit-seconds) at the edges of ten-minute bins."""

    integral: NDArray[np.float64]

    def average(
        self, machine: NDArray[np.int64], started_at: NDArray[np.int32], ended_at: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        seconds = np.maximum(ended_at - started_at, 1)
        total = self._until(machine, started_at + seconds) - self._until(machine, started_at)
        mean: NDArray[np.float64] = total / seconds
        return mean

    def _until(self, machine: NDArray[np.int64], second: NDArray[np.int32]) -> NDArray[np.float64]:
        place, within = np.divmod(second - FIRST_SECOND, BIN_SECONDS)
        place = np.clip(place, 0, self.integral.shape[1] - 2)
        low, high = self.integral[machine, place], self.integral[machine, place + 1]
        total: NDArray[np.float64] = low + (high - low) * (within / BIN_SECONDS)
        return total


def level(
    machine: NDArray[np.int64],
    started_at: NDArray[np.int32],
    ended_at: NDArray[np.int32],
    amount: NDArray[np.floating],
    machines: int,
) -> NDArray[np.float64]:
    """The mean sum of the amounts present in each bin, per machine."""
    bins = int(np.ceil((ended_at.max() - FIRST_SECOND) / BIN_SECONDS)) + 2
    change = np.zeros(machines * bins)
    for second, sign in ((started_at, 1.0), (ended_at, -1.0)):
        place, within = np.divmod(second - FIRST_SECOND, BIN_SECONDS)
        late = within / BIN_SECONDS
        flat = machine * bins + place
        np.add.at(change, flat, sign * amount * (1 - late))
        np.add.at(change, flat + 1, sign * amount * late)
    return np.cumsum(change.reshape(machines, bins), axis=1)


def load(levels: NDArray[np.float64]) -> Load:
    zero = np.zeros((len(levels), 1))
    return Load(np.concatenate([zero, np.cumsum(levels * BIN_SECONDS, axis=1)], axis=1))
