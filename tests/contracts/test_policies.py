"""Every policy: each job runs once, no GPU is held twice, and the same case gives the same answer."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest

from gpulake.replay.policies import POLICIES, Policy
from gpulake.replay.simulation import Outcome, placeable, simulate
from gpulake.replay.trace import Machines, Trace, Tuning
from random_cases import random_case

SEEDS = range(100, 120)


@pytest.fixture(params=list(POLICIES))
def policy(request: pytest.FixtureRequest) -> Policy:
    return POLICIES.get(request.param)


def _cases(policy: Policy) -> list[tuple[Trace, Machines, Tuning, Outcome]]:
    cases = [random_case(seed) for seed in SEEDS]
    return [(*case, simulate(*case[:2], policy, case[2], is_compiled=False, is_logged=True)) for case in cases]


def test_every_job_that_fits_runs_to_its_end_once(policy: Policy) -> None:
    for trace, machines, tuning, outcome in _cases(policy):
        fits = placeable(trace, machines)
        assert ((outcome.end >= 0) == fits).all()
        for job in np.flatnonzero(fits):
            spans = sorted({(start, end) for j, _, _, start, end, _ in outcome.log.tolist() if j == job})
            assert len(spans) == outcome.tries[job]
            assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
            assert spans[-1][1] == outcome.end[job]
            run = spans[-1][1] - spans[-1][0] - tuning.latency_seconds
            assert run <= trace.work[job] + tuning.restart_seconds
            assert outcome.start[job] >= trace.submit[job]


def test_no_machine_holds_more_than_it_has_at_any_event(policy: Policy) -> None:
    for _, machines, _, outcome in _cases(policy):
        times = {int(row[3]) for row in outcome.log}
        for at in times:
            whole: dict[int, int] = defaultdict(int)
            shared: dict[tuple[int, int], int] = defaultdict(int)
            for _, machine, slot, start, end, part in outcome.log.tolist():
                if start <= at < end and slot < 0:
                    whole[machine] += part // 1000
                elif start <= at < end:
                    shared[machine, slot] += part
            assert all(part <= 1000 for part in shared.values())
            for machine, _ in shared:
                whole[machine] += 1
            assert all(held <= machines.gpus[machine] for machine, held in whole.items())


def test_a_machine_that_is_down_runs_nothing(policy: Policy) -> None:
    for _, machines, _, outcome in _cases(policy):
        outages = zip(machines.out_machine, machines.out_from, machines.out_until, strict=True)
        for machine, begin, until in outages:
            for _, where, _, start, end, _ in outcome.log.tolist():
                assert where != machine or end <= begin or start >= until


def test_jobs_run_only_where_they_may_and_after_what_they_wait_for(policy: Policy) -> None:
    for trace, machines, _, outcome in _cases(policy):
        fits = placeable(trace, machines)
        for job, machine, *_ in outcome.log.tolist():
            assert machines.allow[trace.allowed[job], machine]
        for job in np.flatnonzero(fits & (trace.after >= 0)):
            assert not fits[trace.after[job]] or outcome.start[job] >= outcome.end[trace.after[job]]


def test_held_time_is_work_and_loss(policy: Policy) -> None:
    """Of jobs without a limit and a latency: what was held is the work, what failures cost, and the restarts."""
    for trace, _, tuning, outcome in _cases(policy):
        chosen = (outcome.end >= 0) & (trace.limit == 0)
        restarts = np.where(outcome.tries > 1, tuning.restart_seconds, 0) + tuning.latency_seconds
        expected = (trace.work + restarts) * trace.milli / 1000 + outcome.lost_gpu_seconds
        assert outcome.held_gpu_seconds[chosen] == pytest.approx(expected[chosen])


def test_the_same_case_gives_the_same_answer(policy: Policy) -> None:
    for (*_, one), (*_, two) in zip(_cases(policy)[:5], _cases(policy)[:5], strict=True):
        assert [a.tolist() for a in vars(one).values()] == [b.tolist() for b in vars(two).values()]
