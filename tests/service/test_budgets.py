"""What a part of the service takes, and on which cores it works."""

from __future__ import annotations

import os
import subprocess
import sys

from gpulake.core.run_settings import Budget, RunSettings
from gpulake.service.budgets import MEBIBYTE, Budgets, memory_bytes

HOLD = "x = b'x' * (64 << 20); print(flush=True); input()"


def test_memory_of_a_process_has_that_of_its_children_and_not_what_is_shared() -> None:
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}])"
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        held = memory_bytes(child.pid)
        child.communicate(b"\n")
    assert 64 * MEBIBYTE < held < 128 * MEBIBYTE
    assert memory_bytes(child.pid) == 0


def test_work_in_the_background_gets_the_last_cores_and_a_source_the_budget_of_its_kind() -> None:
    budgets = Budgets(RunSettings(budgets={"build": Budget(cores=1), "ingest": Budget(memory_mebibytes=5, cores=1)}))
    every = sorted(os.sched_getaffinity(0))
    assert budgets.cores("build", is_last=True) == {every[-1]}
    assert budgets.cores("ingest gpus", is_last=False) == {every[0]}
    assert budgets.cores("dashboard", is_last=False) == set(every)
    assert budgets.of("ingest gpus").memory_mebibytes == 5
