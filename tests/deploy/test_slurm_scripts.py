"""Prolog and epilog of Slurm: a job is collected for its time, and never fails because of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpulake.collect.bundle import write_bundle

SCRIPTS = Path(__file__).resolve().parents[2] / "deploy/slurm"


def run(script: str, bundle: Path, runs: Path) -> int:
    environment = {**os.environ, "SLURM_JOB_ID": "77", "SLURM_CLUSTER_NAME": "tiger", "COLLECT_RUNS": str(runs)}
    environment["COLLECT_BUNDLE"] = str(bundle)
    return subprocess.run([SCRIPTS / script], env=environment, check=False, capture_output=True).returncode


@pytest.mark.slow
def test_a_job_has_a_parsed_run_of_its_own(tmp_path: Path) -> None:
    bundle, runs = tmp_path / "collect.pyz", tmp_path / "runs"
    write_bundle(bundle)
    assert run("prolog.sh", bundle, runs) == 0
    assert run("epilog.sh", bundle, runs) == 0
    (node,) = (runs / "tiger-77").iterdir()
    assert (node / "cctf" / "host_metrics.jsonl").stat().st_size > 0


def test_without_the_collector_a_job_runs_all_the_same(tmp_path: Path) -> None:
    assert run("prolog.sh", tmp_path / "none.pyz", tmp_path) == 0
    assert run("epilog.sh", tmp_path / "none.pyz", tmp_path) == 0
