"""A stretch of the past as a simulation starts it: with what ran and what waited at its begin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.past import Past
from gpulake.replay.policies import Policy
from gpulake.replay.simulation import Outcome, simulate
from gpulake.replay.trace import Machines, Trace, Tuning


@dataclass(frozen=True)
class Window:
    past: Past  # the runs of the stretch, in the order of the trace
    trace: Trace  # with times from the begin; 0: they run already
    machines: Machines
    begin: int
    until: int
    is_warm: NDArray[np.bool_]  # ran at the begin; not scored
    eligible: Ints  # since 1970

    def recorded(self) -> Ints:
        """Waits to the start or the end of the time, by the records."""
        return np.maximum(0, np.minimum(self.past.start, self.until) - self.eligible)

    def waits(self, outcome: Outcome) -> Ints:
        start = np.where(outcome.start < 0, self.until, outcome.start + self.begin - 1)
        return np.maximum(0, np.minimum(start, self.until) - self.eligible)


def cut(past: Past, begin: int, until: int) -> Window:
    """Runs that ended before or became eligible after it are left out. Large ones are placed first, so that all fit."""
    kept = past.kept((past.end > begin) & (past.trace.submit < until))
    is_warm = kept.start < begin
    at = np.where(is_warm, 0, np.maximum(1, kept.trace.submit - begin + 1))
    order = np.lexsort([np.arange(len(kept)), np.where(is_warm, -kept.trace.part, 0), at])
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    trace = kept.trace
    after = np.where(trace.after >= 0, number[np.maximum(trace.after, 0)], -1) if len(trace) else trace.after
    moved = Trace(**{name: values[order] for name, values in vars(trace).items()})
    after = after[order]
    # A warm run waits for nobody, and nobody waits for one that comes later.
    after = np.where(is_warm[order] | (after >= np.arange(len(after))), -1, after)
    work = np.where(is_warm, kept.end - begin, trace.work)[order]
    spent = np.where(is_warm, begin - kept.start, 0)[order]
    moved = replace(
        moved,
        submit=at[order],
        after=after,
        work=np.maximum(1, work),
        estimate=np.maximum(1, moved.estimate - spent),
        predicted=np.maximum(1, moved.predicted - spent),
    )
    shuffled = kept.taken(order)
    machines = past.machines
    is_inside = (machines.out_until > begin) & (machines.out_from < until)
    machines = machines.with_outages(
        machines.out_machine[is_inside],
        np.maximum(0, machines.out_from[is_inside] - begin + 1),
        machines.out_until[is_inside] - begin + 1,
    )
    eligible = np.where(is_warm, kept.start, trace.submit)[order]
    return Window(shuffled, moved, machines, begin, until, is_warm[order], eligible)


def run(window: Window, policy: Policy, tuning: Tuning) -> Outcome:
    """To the end of the stretch: what has not started by then is censored, as in the records."""
    return simulate(window.trace, window.machines, policy, tuning, until=window.until - window.begin + 2)
