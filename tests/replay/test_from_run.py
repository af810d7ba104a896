"""A collected run as a workload: who used what, and how much of it is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpulake.cli.export import opendc
from gpulake.core.errors import InputError
from gpulake.replay.exports.opendc_checks import Checks
from gpulake.replay.from_run import from_run
from gpulake.replay.workload import Clockwork, Fragment, Host, Task, Workload

NODE = {"node_id": "n1", "host_id": "h1", "cpu_cores": 4, "mem_mb": 1024, "cpu_freq_mhz": 3000}
OTHER = {**NODE, "host_id": "h2"}
Rows = Sequence[dict[str, Any]]


def write_run(folder: Path, nodes: Rows = (NODE,), **files: Rows) -> Path:
    cctf = folder / "cctf"
    cctf.mkdir(parents=True)
    (cctf / "nodes.json").write_text(json.dumps(list(nodes)))
    for name, rows in {"invocations": (), **files}.items():
        (cctf / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def invoked(begin: int, end: int, process: str = "p1", **others: Any) -> dict[str, Any]:
    row = {"trace_id": process, "ts_enqueue": begin, "ts_start": begin, "ts_end": end, "node": "n1", "host_id": "h1"}
    return {**row, "proc_id": process, "pid": 42, **others}


def sampled(at: int, cpu_ms: float, process: str = "p1", dt_ms: int = 1000, **others: Any) -> dict[str, Any]:
    row = {"ts_ms": at, "pid": 42, "node": "n1", "host_id": "h1", "proc_id": process, "cpu_ms": cpu_ms, "dt_ms": dt_ms}
    return {**row, "rss_kb": 2000, "started_ms": 0, **others}


def read(workload: Workload) -> tuple[list[Task], list[Fragment]]:
    """All of it, checked as an export checks it."""
    checks = Checks()
    tasks: list[Task] = []
    fragments: list[Fragment] = []
    for part in workload.parts:
        checks.check(part)
        tasks += [Task(**row) for row in part.tasks.to_pylist()]
        fragments += [Fragment(**row) for row in part.fragments.to_pylist()]
    return tasks, fragments


def exported(folder: Path, clock: Clockwork | None = None) -> tuple[list[Task], list[Fragment], Workload]:
    workload = from_run(folder, clock or Clockwork(), {})
    return *read(workload), workload


def test_a_task_is_covered_from_its_begin_to_its_end_though_samples_are_not(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r",
        invocations=[invoked(10_500, 20_500, ts_enqueue=9_000)],
        proc_metrics=[sampled(12_000, 500), sampled(13_000, 1500), sampled(21_000, 250)],
    )
    tasks, fragments, workload = exported(run)
    assert tasks == [Task(0, "p1", 9_000, 10_000, 2, 6000.0, 2048)]
    assert fragments == [
        Fragment(0, 1500, 1500.0),  # the half second before the first sample is like the first one
        Fragment(0, 8000, 4500.0),  # what nobody saw is like the last one before
        Fragment(0, 500, 750.0),  # the last sample, cut at the end
    ]
    assert workload.notes.inferred == {"usage where there is no sample: that of the nearest one": 1}


def test_two_nodes_with_one_pid_and_one_name_are_two_tasks_with_their_own_samples(tmp_path: Path) -> None:
    bare = {"node_id": "vm0", "cpu_cores": 2, "mem_mb": 1024, "cpu_freq_mhz": 3000}
    for name, cpu_ms in (("a", 1000), ("b", 500)):
        row = {"trace_id": name, "ts_start": 0, "ts_end": 10_000, "node": "vm0", "pid": 42}
        samples = [{"ts_ms": at, "pid": 42, "rss_kb": 1} for at in range(1000, 11_000, 1000)]
        cpu = [{"ts_ms": at, "pid": 42, "cpu_ms": cpu_ms, "dt_ms": 1000} for at in range(1000, 11_000, 1000)]
        write_run(tmp_path / "run" / name, [bare], invocations=[row], proc_metrics=samples, proc_cpu=cpu)
    tasks, fragments, workload = exported(tmp_path / "run")
    assert [(task.id, task.name) for task in tasks] == [(0, "a"), (1, "b")]
    assert fragments == [Fragment(0, 10_000, 3000.0), Fragment(1, 10_000, 1500.0)]
    assert workload.hosts == [Host("node-1", 2, 2, 3000, 2**30)]


def test_what_children_use_is_the_commands(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r",
        invocations=[invoked(0, 1000), invoked(0, 1000, "own", pid=45)],
        proc_metrics=[
            sampled(1000, 100),
            sampled(1000, 300, "child", pid=43, ppid=42, started_ms=1),
            sampled(1000, 600, "grandchild", pid=44, ppid=43, started_ms=2),
            sampled(1000, 900, "own", pid=45, ppid=42, started_ms=3),
            sampled(1000, 4000, "stranger", pid=99, ppid=1),
        ],
    )
    tasks, fragments, _ = exported(run)
    assert [(task.name, task.mem_capacity_kb) for task in tasks] == [("own", 2048), ("p1", 6144)]
    assert [fragment.cpu_usage_mhz for fragment in fragments] == [pytest.approx(2700.0), pytest.approx(3000.0)]


def test_a_pid_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r",
        invocations=[invoked(0, 1000, "x", proc_id=None), invoked(5000, 6000, "y", proc_id=None)],
        proc_metrics=[sampled(1000, 1000, "first"), sampled(6000, 500, "second", started_ms=5000)],
    )
    _, fragments, _ = exported(run)
    assert fragments == [Fragment(0, 1000, 3000.0), Fragment(1, 1000, 1500.0)]


def test_requests_of_one_service_share_what_it_uses(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r",
        invocations=[invoked(0, 2000, trace_id="a"), invoked(1000, 2000, trace_id="b")],
        proc_metrics=[sampled(1000, 800), sampled(2000, 800)],
    )
    tasks, fragments, workload = exported(run)
    assert fragments == [Fragment(0, 1000, 2400.0), Fragment(0, 1000, 1200.0), Fragment(1, 1000, 1200.0)]
    assert [task.mem_capacity_kb for task in tasks] == [1024, 1024]
    assert workload.notes.inferred == {"usage of a process that served several at once, shared by them": 2}


def test_unmeasured_values_are_assumed_and_reported(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r",
        nodes=[{**NODE, "cpu_freq_mhz": 0}],
        invocations=[invoked(0, 1000, "a"), invoked(0, 1000, "b", cpu_time_ms=1500)],
    )
    tasks, fragments, workload = exported(run, Clockwork(core_mhz=2000.0))
    assert tasks == [Task(0, "a", 0, 1000, 1, 2000.0, 67_109), Task(1, "b", 0, 1000, 2, 4000.0, 67_109)]
    assert fragments == [Fragment(0, 1000, 2000.0), Fragment(1, 1000, 3000.0)]
    assert workload.notes.guessed == {
        "clock rate of a core: 2000 MHz": 1,
        "usage: one core, all of it, since nothing was measured": 1,
        "memory: twice the bytes moved, and 64 MiB at least": 2,
    }
    assert workload.notes.inferred == {"usage, evenly, from the CPU time that was traced": 1}


def test_memory_is_in_thousands_of_bytes_and_stays_within_the_node(tmp_path: Path) -> None:
    """Ten children that share half a gibibyte have five in all; the node has one."""
    children = [sampled(1000, 0, f"c{pid}", pid=pid, ppid=42, rss_kb=512 * 1024) for pid in range(100, 110)]
    run = write_run(tmp_path / "r", invocations=[invoked(0, 1000)], proc_metrics=[sampled(1000, 0), *children])
    (task,), _, workload = exported(run)
    words = "tasks with all memory of their node, or more: a little less, since OpenDC takes MB for MiB"
    assert (task.mem_capacity_kb, workload.notes.remarks) == (1_024_000, {words: 1})


def test_usage_stays_within_the_node(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", invocations=[invoked(0, 1000)], proc_metrics=[sampled(1000, 4100)])
    tasks, fragments, workload = exported(run)
    assert (tasks[0].cpu_count, tasks[0].cpu_capacity_mhz, fragments[0].cpu_usage_mhz) == (4, 12_000.0, 12_000.0)
    assert workload.notes.inferred == {"usage above the cores of the node, cut to them": 1}


def test_what_has_no_begin_no_end_or_no_length_is_counted(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r",
        invocations=[
            invoked(0, 1000, ts_end=None),
            invoked(0, 1000, ts_start=None),
            invoked(0, 1000, ts_start=None, service_time_ms=400.0, cpu_time_ms=0),
            invoked(2000, 1000),
            invoked(3000, 3000, cpu_time_ms=0),
        ],
    )
    lines = run / "cctf" / "invocations.jsonl"
    lines.write_text(lines.read_text() + '{"cut\n[]\n')
    tasks, _, workload = exported(run)
    assert [(task.submission_ms, task.duration_ms) for task in tasks] == [(0, 400), (3000, 1)]
    assert workload.notes.read == 5
    assert workload.notes.left_out == {"end unknown": 1, "begin unknown": 1, "ends before it begins": 1}
    assert workload.notes.remarks == {"lines of invocations.jsonl that are no JSON objects": 2}


def gpu(at: int, busy: float | None, uuid: str = "G0") -> dict[str, Any]:
    return {"ts_ms": at, "node": "n1", "host_id": "h1", "gpu_uuid": uuid, "gpu_busy_ratio": busy}


def opened(at: int, process: str = "p1", uuid: str = "G0") -> dict[str, Any]:
    return {"ts_ms": at, "node": "n1", "host_id": "h1", "gpu_uuid": uuid, "pid": 42, "proc_id": process}


def test_gpus_are_busy_for_those_that_have_them_open(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "r",
        nodes=[{**NODE, "gpus": 2, "gpu_name": "NVIDIA H200"}],
        invocations=[invoked(0, 3000), invoked(2000, 3000, "p2", pid=43)],
        proc_metrics=[sampled(3000, 0, dt_ms=3000), sampled(3000, 0, "p2", dt_ms=1000, pid=43, started_ms=2000)],
        gpu_metrics=[gpu(1000, 0.9), gpu(2000, 1.0), gpu(3000, 0.5), gpu(2000, 0.0, "G1"), gpu(3000, 0.2, "G1")],
        gpu_processes=[opened(2000), opened(3000), opened(3000, "p2"), opened(3000, uuid="G1")],
    )
    tasks, fragments, workload = exported(run, Clockwork(gpu_mhz=1000.0, gpu_cores=4))
    assert [(task.gpu_count, task.gpu_capacity_mhz) for task in tasks] == [(8, 2000.0), (4, 1000.0)]
    assert fragments == [
        Fragment(0, 1000, 0.0, 0.0),  # somebody else's, before it was opened
        Fragment(0, 1000, 0.0, 1000.0),
        Fragment(0, 1000, 0.0, 250.0 + 200.0),
        Fragment(1, 1000, 0.0, 250.0),
    ]
    assert workload.hosts == [Host("node-1", 1, 4, 3000, 2**30, 2, "NVIDIA H200")]


def test_a_node_that_served_nothing_is_a_host_and_one_that_was_not_parsed_is_said(tmp_path: Path) -> None:
    write_run(tmp_path / "r" / "n1", invocations=[invoked(0, 1000)])
    idle = write_run(tmp_path / "r" / "n2", nodes=[{**OTHER, "node_id": "n2"}])
    (idle / "cctf" / "invocations.jsonl").unlink()
    (tmp_path / "r" / "n3" / "segments").mkdir(parents=True)
    tasks, _, workload = exported(tmp_path / "r")
    assert (len(tasks), workload.hosts) == (1, [Host("node-1", 2, 4, 3000, 2**30)])
    assert workload.notes.remarks == {"nodes left out, since they were not parsed: gpulake collect parse RUN_DIR": 1}


def test_a_folder_without_a_run_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no invocations\.jsonl"):
        from_run(tmp_path, Clockwork(), {})
    with pytest.raises(InputError, match="no folder at"):
        from_run(tmp_path / "none", Clockwork(), {})


moments = st.integers(0, 20_000)


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Rows]:
    processes = st.sampled_from(["p1", "p2", "p3"])
    calls = st.builds(
        lambda begin, length, process, traced: invoked(begin, begin + length, process, cpu_time_ms=traced),
        moments,
        st.integers(-1, 8000),
        processes,
        st.one_of(st.none(), st.floats(0, 1e5)),
    )
    samples = st.builds(
        lambda at, cpu_ms, process, dt_ms, parent: sampled(
            at, cpu_ms, process, dt_ms, ppid=parent, pid=int(process[1])
        ),
        moments,
        st.floats(0, 1e5),
        processes,
        st.integers(0, 5000),
        st.sampled_from([None, 1, 2, 3]),
    )
    uuids = st.sampled_from(["G0", "G1"])
    return {
        "invocations": draw(st.lists(calls, max_size=8)),
        "proc_metrics": draw(st.lists(samples, max_size=12)),
        "gpu_metrics": draw(st.lists(st.builds(gpu, moments, st.floats(0, 1.5), uuids), max_size=6)),
        "gpu_processes": draw(st.lists(st.builds(opened, moments, processes, uuids), max_size=6)),
    }


@pytest.mark.slow
@given(files=runs())
def test_whatever_was_collected_every_task_is_covered_and_within_its_capacity(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, Rows]
) -> None:
    run = write_run(tmp_path_factory.mktemp("any") / "r", **files)
    tasks, fragments, workload = exported(run)
    assert len(tasks) + workload.notes.left_out.total() == workload.notes.read == len(files["invocations"])
    for task in tasks:
        own = [fragment for fragment in fragments if fragment.id == task.id]
        assert sum(fragment.duration_ms for fragment in own) == task.duration_ms
        assert all(fragment.cpu_usage_mhz <= task.cpu_capacity_mhz for fragment in own)
        assert task.cpu_count <= 4


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("both", "opendc --strict run sdk/experiment.json"),
        ("sdk", "opendc --strict run sdk/experiment.json"),
        ("legacy", "opendc --legacy run legacy/experiment.json"),
    ],
)
def test_what_is_said_to_come_next_can_be_typed(tmp_path: Path, dialect: str, words: str) -> None:
    run = write_run(tmp_path / "r", invocations=[invoked(0, 1000)])
    out = tmp_path / "a b;c"
    done = CliRunner().invoke(opendc, ["--run", str(run), "--out", str(out), "--dialect", dialect])
    assert done.stderr.splitlines()[-1] == f"Next: cd '{out}' && {words}"
