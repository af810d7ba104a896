"""What theory expects of a job with checkpoints is what the simulator gives, on average over drawn failures."""

from __future__ import annotations

import numpy as np
import pytest

from gpulake.replay.policies import POLICIES
from gpulake.replay.reliability import segment_seconds
from gpulake.replay.simulation import simulate
from gpulake.replay.trace import Machines, Trace, Tuning

MTTF, SEGMENTS, RUNS = 10_000, 20, 60


@pytest.mark.parametrize(("interval", "restart"), [(2_000, 0), (2_000, 600), (8_000, 600), (20_000, 0)])
def test_a_job_that_fails_takes_as_long_as_theory_expects(interval: int, restart: int) -> None:
    draw = np.random.default_rng(interval + restart)
    took = []
    for _ in range(RUNS):
        at = np.unique(np.cumsum(draw.exponential(MTTF, 60 * SEGMENTS)).astype(int))
        machine = Machines.of([8]).with_outages(np.zeros(len(at)), at, at + 1)
        tuning = Tuning(checkpoint_seconds=interval, restart_seconds=restart)
        job = Trace.of([0], [1], [8000], [interval * SEGMENTS])
        took.append(int(simulate(job, machine, POLICIES.get("fifo"), tuning, is_compiled=False).end[0]))
    # The first start needs no restart, which theory counts only after failures, too.
    expected = SEGMENTS * segment_seconds(MTTF, restart, interval)
    assert np.mean(took) == pytest.approx(expected, rel=4 * np.std(took) / np.sqrt(RUNS) / expected)
    assert np.std(took) / np.sqrt(RUNS) < 0.08 * expected
