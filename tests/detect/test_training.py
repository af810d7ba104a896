"""Phases of our runs on a real GPU are found, with their kind, and nothing else; and any numbers do no harm."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detect import lab_runs
from gpulake.detect.phase_text import detail
from gpulake.detect.series import Series
from gpulake.detect.training import NEEDED, Steps, find_phases


@pytest.mark.real
def test_each_of_six_phases_is_found_with_its_kind_and_nothing_between(real_data: Path) -> None:
    folder = real_data / "lab" / "phases"
    truth = json.loads((folder / "truth.json").read_text())
    found = find_phases(lab_runs.telemetry(folder / "telemetry.jsonl"), lab_runs.steps(folder / "steps.jsonl"))
    assert [phase.kind for phase in found] == [phase["kind"] for phase in truth]
    for phase, true in zip(found, truth, strict=True):
        assert true["start_ms"] <= phase.begin_ms <= true["start_ms"] + 6_000
        assert true["end_ms"] - 5_000 <= phase.end_ms <= true["end_ms"] + 7_000


@pytest.mark.real
def test_leak_cliff_and_starved_loader_are_found_and_healthy_runs_are_clean(real_data: Path) -> None:
    folder = real_data / "lab"
    jobs = lab_runs.read_lines(folder / "truth.jsonl")
    found = {
        job["id"]: [
            phase.kind
            for phase in find_phases(lab_runs.telemetry(folder / "telemetry.jsonl", job["start_ms"], job["end_ms"]))
        ]
        for job in jobs
    }
    expected = {"leak_oom": ["leak", "memory_cliff"], "starved_loader": ["starved"]}
    assert found == {job["id"]: expected.get(job["id"], []) for job in jobs}


METRICS = st.one_of(st.just(float("nan")), st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))


@given(
    st.lists(st.tuples(METRICS, METRICS, METRICS), max_size=80),
    st.lists(st.tuples(st.integers(-5_000, 90_000), st.floats(0, 1e7)), max_size=80),
    st.sampled_from([100, 1_000, 15_000]),
)
def test_whatever_was_measured_phases_lie_within_it_in_the_order_of_time(
    rows: list[tuple[float, float, float]], steps: list[tuple[int, float]], interval_ms: int
) -> None:
    times = np.arange(len(rows), dtype=np.int64) * interval_ms
    series = Series("any", NEEDED, times, np.array(rows, dtype=np.float64).reshape(-1, 3), interval_ms)
    ended = sorted(steps)
    known = Steps(
        np.array([at for at, _ in ended], dtype=np.int64), np.array([took for _, took in ended], dtype=np.float64)
    )
    for given_steps in (None, known):
        found = find_phases(series, given_steps)
        assert [phase.begin_ms for phase in found] == sorted(phase.begin_ms for phase in found)
        for phase in found:
            assert 0 <= phase.begin_ms <= phase.end_ms <= times[-1]
            assert detail(phase, series, given_steps, found)
