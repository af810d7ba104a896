"""What befell our own runs on a real GPU is found, with its kind, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from detect import lab_runs
from gpulake.detect.training import find_phases

pytestmark = pytest.mark.real


def test_each_of_six_phases_is_found_with_its_kind_and_nothing_between(real_data: Path) -> None:
    folder = real_data / "lab" / "phases"
    truth = json.loads((folder / "truth.json").read_text())
    found = find_phases(lab_runs.telemetry(folder / "telemetry.jsonl"), lab_runs.steps(folder / "steps.jsonl"))
    assert [phase.kind for phase in found] == [phase["kind"] for phase in truth]
    for phase, true in zip(found, truth, strict=True):
        assert true["start_ms"] <= phase.begin_ms <= true["start_ms"] + 6_000
        assert true["end_ms"] - 5_000 <= phase.end_ms <= true["end_ms"] + 7_000


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
