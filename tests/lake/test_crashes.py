"""A crash at any moment leaves the lake as it was, or as it should be."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import bronze_counts, count_of
from gpulake.core.config import Config
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.land.readers.pai import TABLES
from gpulake.synth import TraceSummary

KILLS = 40


def gpulake(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from gpulake.cli import main; main()", *arguments]


def expected(summary: TraceSummary, folder: Path) -> dict[str, int]:
    counts = {table: summary.rows[source] for source, table in TABLES.items()}
    models = len((folder / "tpu_gpus.csv").read_text().splitlines()) - 1
    return {**counts, "bronze_gpu_specs": models}


# Imports once, then runs a refresh in a fork for each line of input: a delay in seconds, after which it is killed.
VICTIMS = """
import os, signal, sys, time
from pathlib import Path
from gpulake.core.config import Config
from gpulake.flow import Flow
import gpulake.land.landing, gpulake.model.build, gpulake.detect.days, gpulake.detect.findings, gpulake.synth
trace, lake = map(Path, sys.argv[1:])
for line in sys.stdin:
    begin = time.monotonic()
    child = os.fork()
    if not child:
        Flow(Config(lake=lake, threads=1)).refresh([trace], None)
        os._exit(0)
    while time.monotonic() - begin < float(line) and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    print(time.monotonic() - begin, flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment_no_table_is_ever_partial(
    trace: tuple[Path, TraceSummary], config: Config, tmp_path: Path
) -> None:
    folder, summary = trace
    whole = expected(summary, folder)
    lake = Lake(config)
    chance = random.Random(1)

    def victims(at: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", VICTIMS, str(folder), str(at)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(process: subprocess.Popen[str], seconds: float) -> float:
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    seen = set()
    with victims(tmp_path / "timed") as timed:
        usual_seconds = run(timed, 60)
        timed.communicate()
    with victims(config.lake) as process:
        for number in range(KILLS):
            # Landing is over soon, so most kills come early, and some very early.
            run(process, 1.2 * chance.random() ** (1 + number % 6) * usual_seconds)
            if not (lake.root / "gpulake.json").exists():
                continue
            counts = bronze_counts(lake)
            assert all(counts[table] in (0, whole[table]) for table in whole), counts
            seen.add(sum(count > 0 for count in counts.values()))
            if lake.builds.current():
                assert count_of(lake, "silver_jobs") == summary.rows["pai_job_table"]
            # From the beginning now and then, so that kills fall everywhere.
            if lake.builds.current() or number % 4 == 0:
                shutil.rmtree(lake.root)
        process.communicate()
    assert len(seen) > 1, "the kills all fell at one place"
    Flow(config).refresh([folder], None)
    assert {table: count for table, count in bronze_counts(lake).items() if count} == whole
    assert count_of(lake, "landings") == len(whole)
    assert not list(lake.staging.glob("*.parquet"))


@pytest.mark.slow
def test_a_full_disk_is_an_error_that_leaves_nothing_half_landed(
    trace: tuple[Path, TraceSummary], config: Config
) -> None:
    def no_more_than_100_kb_a_file() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    lake = Lake(config).create()
    answer = subprocess.run(
        gpulake("land", str(trace[0] / "pai_instance_table.csv"), "--lake", str(config.lake)),
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=no_more_than_100_kb_a_file,
    )
    assert answer.returncode == 4
    assert answer.stderr.startswith("error: landing ")
    assert "\nhint: " in answer.stderr
    assert "Traceback" not in answer.stderr
    assert bronze_counts(lake) == dict.fromkeys(bronze_tables(), 0)
