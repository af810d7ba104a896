from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from gpulake.synth.calibration import Readback, places

INSTANCES = "pai_instance_table"


def pairs(written: Readback, name: str) -> np.ndarray:
    joined: np.ndarray = written.texts(name, "job_name") + "/" + written.texts(name, "task_name")
    return joined


def test_every_task_belongs_to_a_job(written: Readback) -> None:
    jobs = written.texts("pai_job_table", "job_name")
    assert len(set(jobs)) == len(jobs)
    assert set(written.texts("pai_task_table", "job_name")) == set(jobs)


def test_every_instance_belongs_to_a_task_of_its_job(written: Readback) -> None:
    tasks = pairs(written, "pai_task_table")
    assert len(set(tasks)) == len(tasks)
    assert set(pairs(written, INSTANCES)) == set(tasks)


def test_a_task_has_as_many_instances_as_it_planned(written: Readback) -> None:
    names = pc.unique(written.tables[INSTANCES]["inst_name"])
    first = places(names, written.tables[INSTANCES]["inst_name"])
    count = np.bincount(written.task[first], minlength=len(written.tables["pai_task_table"]))
    assert (count == written.numbers("pai_task_table", "inst_num")).all()


def test_inst_id_and_job_name_name_the_same_thing(written: Readback) -> None:
    known = dict(
        zip(written.texts("pai_job_table", "inst_id"), written.texts("pai_job_table", "job_name"), strict=True)
    )
    assert len(known) == 30_000
    for name in (INSTANCES, "pai_sensor_table"):
        used = set(zip(written.texts(name, "inst_id"), written.texts(name, "job_name"), strict=True))
        assert used <= set(known.items())


def test_the_group_table_has_one_row_per_job_with_the_same_user(written: Readback) -> None:
    users = dict(zip(written.texts("pai_job_table", "inst_id"), written.texts("pai_job_table", "user"), strict=True))
    tagged = zip(
        written.texts("pai_group_tag_table", "inst_id"), written.texts("pai_group_tag_table", "user"), strict=True
    )
    assert sorted(tagged) == sorted(users.items())


@pytest.mark.parametrize("name", ["pai_sensor_table", "pai_machine_metric"])
def test_what_was_measured_ran_there(written: Readback, name: str) -> None:
    workers = written.texts(name, "worker_name")
    assert len(set(workers)) == len(workers) > 1_000
    ran = set(zip(written.texts(INSTANCES, "worker_name"), written.texts(INSTANCES, "machine"), strict=True))
    assert set(zip(workers, written.texts(name, "machine"), strict=True)) <= ran


def test_machines_are_listed(written: Readback) -> None:
    machines = written.texts("pai_machine_spec", "machine")
    assert len(set(machines)) == len(machines)
    assert set(filter(None, written.texts(INSTANCES, "machine"))) == set(machines)


def test_a_metric_covers_the_life_of_its_instance(written: Readback) -> None:
    def spans(name: str) -> set[tuple[str, float, float]]:
        times = (written.numbers(name, "start_time"), written.numbers(name, "end_time"))
        return set(zip(written.texts(name, "worker_name"), *times, strict=True))

    assert spans("pai_machine_metric") <= spans(INSTANCES)


CONTRACT = {
    # status: shares without start, end, machine and worker
    "Terminated": (0.0, 0.0, 0.0, 0.0),
    "Running": (0.716, 1.0, 0.0, 0.0),
    "Failed": (0.234, 0.766, 0.0, 0.0),
    "Interrupted": (1.0, 0.0, 0.0, 0.0),
    "Waiting": (1.0, 1.0, 1.0, 1.0),
}


@pytest.mark.parametrize("status", CONTRACT)
def test_a_status_lacks_what_it_lacks_in_the_real_file(written: Readback, status: str) -> None:
    rows = written.tables[INSTANCES]
    rows = rows.filter(pc.equal(rows["status"], status))
    lacking = [rows[name].null_count / len(rows) for name in ("start_time", "end_time", "machine", "worker_name")]
    assert lacking == pytest.approx(CONTRACT[status], abs=0.003)


def test_a_failed_instance_shows_one_time_never_both(written: Readback) -> None:
    rows = written.tables[INSTANCES]
    rows = rows.filter(pc.equal(rows["status"], "Failed"))
    assert (np.isnan(rows["start_time"].to_numpy()) != np.isnan(rows["end_time"].to_numpy())).all()


def test_jobs_know_four_statuses_and_only_finished_ones_have_an_end(written: Readback) -> None:
    status, end = written.texts("pai_job_table", "status"), written.numbers("pai_job_table", "end_time")
    assert set(status) == {"Terminated", "Failed", "Running", "Waiting"}
    assert (np.isin(status, ["Terminated", "Failed"]) == ~np.isnan(end)).all()


@pytest.mark.parametrize("name", ["pai_job_table", "pai_task_table", INSTANCES, "pai_machine_metric"])
def test_nothing_ends_before_it_starts(written: Readback, name: str) -> None:
    lasted = written.numbers(name, "end_time") - written.numbers(name, "start_time")
    assert (lasted[~np.isnan(lasted)] >= 0).all()


def test_a_job_spans_its_tasks_and_a_task_its_instances(written: Readback) -> None:
    job = written.places("job_name", "pai_task_table", "pai_job_table")
    task_start, task_end = (written.numbers("pai_task_table", name) for name in ("start_time", "end_time"))
    job_start, job_end = (written.numbers("pai_job_table", name) for name in ("start_time", "end_time"))
    assert not (task_start < job_start[job]).any()
    assert not (task_end > job_end[job]).any()
    start, end = written.numbers(INSTANCES, "start_time"), written.numbers(INSTANCES, "end_time")
    assert not (start < task_start[written.task]).any()
    assert not (end > task_end[written.task]).any()


def test_one_failed_worker_interrupts_its_gang(written: Readback) -> None:
    status = written.texts(INSTANCES, "status")
    job = written.places("job_name", INSTANCES, "pai_job_table")
    has_failed = np.bincount(job, weights=status == "Failed") > 0
    has_interrupted = np.bincount(job, weights=status == "Interrupted") > 0
    assert has_interrupted.sum() > 100
    assert has_failed[has_interrupted].all()


def test_retries_repeat_an_instance_under_a_new_worker(written: Readback) -> None:
    attempts = pc.value_counts(written.tables[INSTANCES]["inst_name"]).field("counts").to_numpy()
    share = [(attempts == count).mean() for count in (1, 2, 3)]
    assert share == pytest.approx([0.97, 0.02, 0.007], abs=0.01)
    assert attempts.max() >= 9


def test_a_worker_that_ran_twice_did_so_back_to_back_on_one_machine(written: Readback) -> None:
    rows = written.tables[INSTANCES]
    seen: dict[str, tuple[float, str]] = {}
    twice = 0
    columns = (rows[name].to_pylist() for name in ("worker_name", "start_time", "end_time", "machine"))
    for worker, start, end, machine in zip(*columns, strict=True):
        if worker is not None and worker in seen:
            twice += 1
            # A second run that the dead rack interrupted shows no start, as every interrupted one.
            assert seen[worker] == (start if start is not None else seen[worker][0], machine)
        seen[worker] = (end, machine)
    assert 0.0005 < twice / len(rows) < 0.002


def test_instances_run_on_machines_of_their_tasks_type(written: Readback) -> None:
    spec = written.places("machine", INSTANCES, "pai_machine_spec")
    asked = written.texts("pai_task_table", "gpu_type")[written.task]
    has_machine = spec >= 0
    is_typed = has_machine & (asked != None)  # noqa: E711 - element-wise
    assert (written.texts("pai_machine_spec", "gpu_type")[spec][is_typed] == asked[is_typed]).all()


def test_a_machine_never_uses_more_gpu_than_it_has(written: Readback) -> None:
    spec = written.places("machine", "pai_machine_metric", "pai_machine_spec")
    cap = written.numbers("pai_machine_spec", "cap_gpu")[spec] * 100
    used = written.numbers("pai_machine_metric", "machine_gpu")
    assert (used <= cap).all()
    assert used[cap == 800].max() > 200
    assert (written.numbers("pai_machine_metric", "machine_num_worker") >= 1).all()


def test_machine_cpu_is_the_sum_of_its_parts(written: Readback) -> None:
    names = ("machine_cpu_usr", "machine_cpu_kernel", "machine_cpu_iowait")
    parts = np.sum([written.numbers("pai_machine_metric", name) for name in names], axis=0)
    assert written.numbers("pai_machine_metric", "machine_cpu") == pytest.approx(parts, abs=0.001)
    assert parts.max() <= 100


def test_a_maximum_is_not_below_its_average(written: Readback) -> None:
    for name in ("mem", "gpu_wrk_mem"):
        highest = written.numbers("pai_sensor_table", f"max_{name}")
        assert (highest >= written.numbers("pai_sensor_table", f"avg_{name}")).all()
