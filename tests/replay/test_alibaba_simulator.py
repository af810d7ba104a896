"""The simulator of the PAI trace: the table of its five policies, against one that steps through each second."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import InputError, UsageError
from gpulake.lake import Lake
from gpulake.replay.alibaba_simulator import (
    ESTIMATES,
    POLICIES,
    FirstFit,
    PolicyOutcome,
    SimulatorJob,
    chosen_jobs,
    read_jobs,
    simulate,
)


def stepped(jobs: list[SimulatorJob], policy: str, gpus: int, cpus: int) -> PolicyOutcome:
    """Looks at every waiting job in every second, as the published program does."""
    column = POLICIES[policy]
    idle_gpu, idle_cpu = gpus * 100, cpus * 100
    coming = sorted(jobs, key=lambda job: job.submit_time)
    waiting: list[SimulatorJob] = []
    instances: list[dict[str, Any]] = []  # that run
    done: list[tuple[int, int]] = []  # completion time and wait of each instance
    now = 0
    while coming or waiting or instances:
        while coming and coming[0].submit_time <= now:
            waiting.append(coming.pop(0))
        waiting.sort(
            key=lambda job: (job.estimates[column] if column in ESTIMATES else getattr(job, column), job.job_id)
        )
        for job in list(waiting):
            if idle_gpu <= 0 and idle_cpu <= 0:
                break
            gpu, cpu = min(job.num_gpu, gpus * 100), min(job.num_cpu, cpus * 100)
            if gpu * job.num_inst > idle_gpu or cpu * job.num_inst > idle_cpu:
                continue
            waiting.remove(job)
            for _ in range(job.num_inst):
                idle_gpu, idle_cpu = idle_gpu - gpu, idle_cpu - cpu
                instances.append({"left": job.duration, "gpu": gpu, "cpu": cpu, "job": job})
        now += 1
        for instance in list(instances):
            instance["left"] -= 1
            if not instance["left"]:
                instances.remove(instance)
                idle_gpu, idle_cpu = idle_gpu + instance["gpu"], idle_cpu + instance["cpu"]
                completion = now - instance["job"].submit_time
                done.append((completion, completion - instance["job"].duration))
    completions, waits = (sum(column) / len(done) for column in zip(*done, strict=True))
    return PolicyOutcome(policy, len(done), completions, waits, now + 1)


def made(number: int, seed: int, longest: int, most_instances: int = 1) -> list[SimulatorJob]:
    """Jobs of the shape of the published file: shares of GPUs, few cores, durations of all lengths, wrong estimates."""
    dice = random.Random(seed)
    jobs = []
    for job_id in range(number):
        duration = max(1, int(longest ** dice.random()))
        estimates = {name: round(duration * dice.uniform(0.5, 2), 1) for name in ESTIMATES}
        gpu, cpu = dice.choice([0, 5, 25, 50, 100, 100, 200, 800]), dice.choice([0, 400, 600, 1200])
        instances = dice.randint(1, most_instances)
        jobs.append(SimulatorJob(job_id, dice.randrange(longest), duration, instances, gpu, cpu, estimates))
    return jobs


@pytest.mark.parametrize("policy", POLICIES)
@given(st.integers(1, 40), st.integers(0, 10**6), st.integers(1, 4), st.integers(32, 40), st.integers(48, 60))
def test_events_give_what_stepping_through_each_second_gives(
    policy: str, number: int, seed: int, instances: int, gpus: int, cpus: int
) -> None:
    jobs = made(number, seed, longest=60, most_instances=instances)
    assert simulate(jobs, policy, gpus, cpus) == stepped(jobs, policy, gpus, cpus)


@pytest.mark.slow
def test_the_table_of_five_policies_is_the_same_to_the_last_digit() -> None:
    jobs = chosen_jobs(made(1_500, seed=1, longest=1_500), jobs=1_000, jobs_a_minute=200)
    table = [simulate(jobs, policy, 64, 1_500) for policy in POLICIES]
    assert table == [stepped(jobs, policy, 64, 1_500) for policy in POLICIES]
    waits = {each.policy: each.mean_wait_seconds for each in table}
    # As published: jobs wait longest in the order of arrival.
    assert max(waits[name] for name in ("SJF", "SJU", "SJG", "SJGG")) < waits["FIFO"]


def test_a_hand_computed_queue() -> None:
    jobs = [
        SimulatorJob(1, 0, 10, 1, 200, 0, {}),
        SimulatorJob(2, 0, 5, 2, 100, 0, {}),
        SimulatorJob(3, 0, 1, 1, 300, 0, {}),
    ]
    # Job 3 asks for more than there is and gets all there is. FIFO: job 1 alone, job 2 at 10, job 3 at 15.
    assert simulate(jobs, "FIFO", 2, 1) == PolicyOutcome("FIFO", 4, (10 + 15 + 15 + 16) / 4, (0 + 10 + 10 + 15) / 4, 17)
    assert simulate(jobs, "SJF", 2, 1) == PolicyOutcome("SJF", 4, (1 + 6 + 6 + 16) / 4, (0 + 1 + 1 + 6) / 4, 17)


def test_a_gang_that_can_never_start_is_an_error_and_not_an_endless_loop() -> None:
    with pytest.raises(UsageError, match="job 7 needs 3 × 1 GPUs and 0 cores, which never fit"):
        simulate([SimulatorJob(7, 0, 1, 3, 100, 0, {})], "FIFO", 2, 1)


def test_the_file_is_read_as_its_program_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,user,submit_time,duration,num_inst,num_cpu,num_gpu,gpu_type,wait_time,user_dur,group_dur,group_gpu_dur\n"
        "8,u,3.6,0.0,1.0,6.005,0.255,T4,2.0,7.5,8,9\n"
        "x,u,,12.9,,,,CPU,,,,\n"
    )
    assert read_jobs(path) == [
        SimulatorJob(8, 4, 1, 1, 26, 600, {"user_dur": 7.5, "group_dur": 8.0, "group_gpu_dur": 9.0}),
        SimulatorJob("x", 1, 12, 1, 0, 0, {}),
    ]
    with pytest.raises(InputError, match="job x has no group_dur, by which SJG sorts"):
        simulate(read_jobs(path), "SJG")
    with pytest.raises(InputError, match="some job ids are numbers and some are not"):
        simulate([SimulatorJob(8, 1, 1, 1, 0, 0, {}), SimulatorJob("x", 1, 1, 1, 0, 0, {})], "FIFO")


@pytest.mark.parametrize("row", ["1,many", "1,9,-1,", "1,nan", "1,5,,-3"])
def test_a_broken_row_is_named(tmp_path: Path, row: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"job_id,duration,num_inst,num_gpu\n0,1,1,1\n{row}\n")
    with pytest.raises(InputError, match=r"line 3 of jobs\.csv"):
        read_jobs(path)
    path.write_text("a,b\n")
    with pytest.raises(InputError, match="has no column 'job_id'"):
        read_jobs(path)


def test_jobs_are_drawn_and_arrive_as_in_the_published_runs() -> None:
    jobs = [SimulatorJob(job_id, 100 - job_id, 1, 1, 0, 0, {}) for job_id in range(5)]
    drawn = chosen_jobs(jobs, jobs=3, jobs_a_minute=2)
    # random.seed(42) shuffles five into 3, 1, 2, 4, 0.
    assert [(job.job_id, job.submit_time) for job in drawn] == [(3, 0), (2, 0), (1, 60)]
    assert chosen_jobs(jobs, jobs=6, jobs_a_minute=-1) == jobs


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1), st.integers(0, 6), st.integers(0, 6))
def test_the_first_that_fits_is_the_one_that_a_search_finds(needs: list[tuple[int, int]], gpus: int, cpus: int) -> None:
    tree = FirstFit(needs)
    for rank in range(0, len(needs), 2):
        tree.add(rank)
    for begin in range(len(needs)):
        fitting = (r for r in range(begin, len(needs)) if r % 2 == 0 and needs[r][0] <= gpus and needs[r][1] <= cpus)
        assert tree.first(begin, gpus, cpus) == next(fitting, None)


@pytest.mark.slow
def test_the_lake_s_tasks_go_out_as_its_csv_and_come_back(shared_lake: Config, tmp_path: Path) -> None:
    out = tmp_path / "jobs.csv"
    answer = CliRunner().invoke(root, ["export", "alibaba", "--out", str(out), "--lake", str(shared_lake.lake)])
    assert answer.exit_code == 0, answer.output
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert f"{len(rows):,} tasks in " in answer.output
    with Lake(shared_lake).reading() as reader:
        (known,) = reader.rows(
            "SELECT count(DISTINCT task_key) AS tasks FROM silver_instances WHERE run_seconds IS NOT NULL"
        )
    assert len(rows) == known["tasks"]
    assert [int(row["submit_time"]) for row in rows] == sorted(int(row["submit_time"]) for row in rows)
    of_file, of_lake = (
        json.loads(CliRunner().invoke(root, ["advise", "policies", *given, "--gpus", "200", "--json"]).stdout)
        for given in ([str(out), "--jobs", "100000", "--rate", "-1"], ["--lake", str(shared_lake.lake)])
    )
    assert of_file == of_lake
    assert [each["policy"] for each in of_lake["outcomes"]] == list(POLICIES)
    assert of_lake["jobs"] == len(rows)
