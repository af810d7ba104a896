"""What holds for every export: work is conserved. A new export adds how its files are read here, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import opendc_loader
from gpulake.core.errors import GpulakeError, InputError, UsageError
from gpulake.replay.exports import EXPORTS
from gpulake.replay.workload import Fragment, Host, Notes, Part, Task, Workload, part_of


class Ran(NamedTuple):
    """A task as the simulator would run it: name, submission, and (milliseconds, CPU, GPU) one after the other."""

    name: str | None
    submission_ms: int
    cpu_mhz: float
    gpu_mhz: float
    pieces: tuple[tuple[int, float, float], ...]


def opendc(folder: Path) -> list[Ran]:
    tasks = opendc_loader.load(folder)
    for dialect in ("sdk", "legacy"):
        hosts = opendc_loader.hosts(opendc_loader.read_json(folder / dialect / "topology.json"))
        assert all(any(opendc_loader.fits(task, host) for host in hosts) for task in tasks)
    return [
        Ran(task.name, task.submitted_at, task.cpu_capacity, task.gpu_capacity, tuple(task.fragments)) for task in tasks
    ]


READ_BACK: dict[str, Callable[[Path], list[Ran]]] = {"opendc": opendc}


@st.composite
def workloads(draw: st.DrawFn) -> list[tuple[Task, list[Fragment]]]:
    drawn = []
    submission = draw(st.integers(0, 10**12))
    for number in range(draw(st.integers(1, 12))):
        submission += draw(st.integers(0, 10**7))
        cores, gpus = draw(st.integers(1, 64)), draw(st.one_of(st.none(), st.integers(1, 8)))
        share = st.floats(0, 1)
        fragments = [
            Fragment(number, milliseconds, cores * 2400.0 * cpu, None if gpus is None else gpus * 1000.0 * gpu)
            for milliseconds, cpu, gpu in draw(
                st.lists(st.tuples(st.integers(1, 10**9), share, share), min_size=1, max_size=4)
            )
        ]
        task = Task(
            number,
            draw(st.one_of(st.none(), st.text(max_size=5).filter(str.isprintable))),
            submission,
            sum(fragment.duration_ms for fragment in fragments),
            cores,
            cores * 2400.0,
            draw(st.integers(1, 10**9)),
            gpus,
            None if gpus is None else gpus * 1000.0,
        )
        drawn.append((task, fragments))
    return drawn


def parts(drawn: Sequence[tuple[Task, list[Fragment]]], size: int = 5) -> list[Part]:
    chunks = [drawn[at : at + size] for at in range(0, len(drawn), size)]
    return [
        part_of([task for task, _ in chunk], [each for _, fragments in chunk for each in fragments]) for chunk in chunks
    ]


def workload(pieces: Sequence[Part], hosts: Sequence[Host] = ()) -> Workload:
    return Workload("any", {"kind": "test"}, iter(pieces), Notes(), hosts)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EXPORTS))
@given(drawn=workloads())
def test_every_task_runs_once_for_as_long_and_as_hard_as_it_did(
    tmp_path_factory: pytest.TempPathFactory, name: str, drawn: list[tuple[Task, list[Fragment]]]
) -> None:
    folder = tmp_path_factory.mktemp("export") / "out"
    exported = EXPORTS.get(name)().write(workload(parts(drawn)), folder)
    assert READ_BACK[name](folder) == [
        Ran(
            task.name,
            task.submission_ms,
            task.cpu_capacity_mhz,
            task.gpu_capacity_mhz or 0.0,
            tuple((each.duration_ms, each.cpu_usage_mhz, each.gpu_usage_mhz or 0.0) for each in fragments),
        )
        for task, fragments in drawn
    ]
    assert exported.summary["tasks"] == len(drawn)
    assert exported.summary["fragments"] == sum(len(fragments) for _, fragments in drawn)


SOUND = (Task(0, "a", 5, 10, 1, 2400.0, 1, 1, 1000.0), [Fragment(0, 10, 2400.0, 1000.0)])
NEXT = (Task(1, "b", 5, 10, 1, 2400.0, 1), [Fragment(1, 10, 0.0)])


def changed(pair: tuple[Task, list[Fragment]], **changes: object) -> tuple[Task, list[Fragment]]:
    return Task(**{**pair[0].__dict__, **changes}), pair[1]


BROKEN: dict[str, list[tuple[Task, list[Fragment]]]] = {
    "a task without fragments": [(SOUND[0], [])],
    "fragments of no task": [(SOUND[0], [*SOUND[1], Fragment(7, 1, 0.0)])],
    "a tail that is not covered": [(SOUND[0], [Fragment(0, 9, 0.0, 0.0)])],
    "a fragment without duration": [(SOUND[0], [*SOUND[1], Fragment(0, 0, 0.0, 0.0)])],
    "CPU above capacity": [(SOUND[0], [Fragment(0, 10, 2401.0, 0.0)])],
    "GPU above capacity": [(SOUND[0], [Fragment(0, 10, 0.0, 1001.0)])],
    "usage below nothing": [(SOUND[0], [Fragment(0, 10, -1.0, 0.0)])],
    "usage that is no number": [(SOUND[0], [Fragment(0, 10, float("nan"), 0.0)])],
    "GPU usage of a task without GPUs": [(NEXT[0], [Fragment(1, 10, 0.0, 1.0)])],
    "a count without capacity": [changed(SOUND, gpu_capacity_mhz=None)],
    "no memory": [changed(SOUND, mem_capacity_kb=0)],
    "no time": [(changed(SOUND, duration_ms=0)[0], [])],
    "the same id twice": [SOUND, SOUND],
    "an id that is no INT32": [(changed(SOUND, id=2**31)[0], [Fragment(2**31, 10, 0.0, 0.0)])],
    "not in the order of submission": [SOUND, changed(NEXT, submission_ms=4)],
}


@pytest.mark.parametrize("name", list(EXPORTS))
@pytest.mark.parametrize("size", [1, 5], ids=["a task a part", "one part"])
@pytest.mark.parametrize("broken", list(BROKEN))
def test_what_is_not_sound_is_not_written_at_all(tmp_path: Path, name: str, broken: str, size: int) -> None:
    with pytest.raises(GpulakeError, match="the export is not sound"):
        EXPORTS.get(name)().write(workload(parts(BROKEN[broken], size)), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", list(EXPORTS))
def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        EXPORTS.get(name)().write(workload(parts([SOUND])), tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine"]


@pytest.mark.parametrize("name", list(EXPORTS))
def test_nothing_to_export_is_an_error_that_says_why(tmp_path: Path, name: str) -> None:
    empty = workload([])
    empty.notes.left_out["never started"] += 3
    with pytest.raises(InputError, match="there is no task to export: 3 never started"):
        EXPORTS.get(name)().write(empty, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_every_export_can_be_read_back() -> None:
    assert sorted(READ_BACK) == list(EXPORTS)
