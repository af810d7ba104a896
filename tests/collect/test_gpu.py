"""The source `gpu` and its worker, over a fake driver that hangs, crashes and loses GPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from collect.gpu_scenes import NO_VALUE, full_gpu, plain_gpu
from gpulake.collect.bundle import write_bundle
from gpulake.collect.gpus import child
from gpulake.collect.rows import GpuProcess, GpuSample, NodeEvent, Row
from gpulake.collect.sources import SOURCES, Machine, NoData
from gpulake.collect.sources.gpu import Gpus
from gpulake.core.clock import FrozenClock

DEADLINE_SECONDS = 60.0
FAKES = Path(__file__).parent


class Host:
    """A machine with a fake driver, and the collector's clock, which stands still unless it is moved."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.clock = FrozenClock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), elapsed=1000.0)
        self._sources: list[Gpus] = []
        (folder / "dev").mkdir()
        (folder / "dev" / "nvidiactl").touch()
        monkeypatch.setenv("FAKE_NVML", str(folder / "scene.json"))
        monkeypatch.setenv("PYTHONPATH", str(FAKES))

    def play(self, *devices: dict[str, Any], **more: str) -> None:
        troubles = {name: str(self.folder / name) for name in ("hang", "hanging", "crash", "lost")}
        scene = {"devices": list(devices), **troubles, **more}
        (self.folder / "scene.json").write_text(json.dumps(scene), encoding="utf-8")

    def source(self) -> Gpus:
        machine = Machine(
            proc=self.folder / "proc", dev=self.folder / "dev", interval_seconds=0.02, say=self.said.append
        )
        self._sources.append(Gpus(machine, nvml="fake_nvml"))
        return self._sources[-1]

    def rows_until(self, source: Gpus, is_enough: Callable[[list[Row]], object]) -> list[Row]:
        """Reads until the rows are enough. The clock stands still: nothing can seem to take long."""
        rows: list[Row] = []

        def reads_enough() -> object:
            rows.extend(source.read(self.clock))
            return is_enough(rows)

        until(reads_enough)
        return rows

    def until_reaped(self, source: Gpus) -> None:
        self.rows_until(source, lambda _: source.worker_pid is None)

    def pass_time(self, source: Gpus, seconds: int) -> list[Row]:
        rows: list[Row] = []
        for _ in range(seconds):
            self.clock.elapsed_seconds += 1
            rows.extend(source.read(self.clock))
        return rows

    def close(self) -> None:
        for source in self._sources:
            source.close()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(tmp_path, monkeypatch)
    yield made
    made.close()


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.005)


def samples(rows: list[Row]) -> list[GpuSample]:
    return [row for row in rows if isinstance(row, GpuSample)]


def events(rows: list[Row]) -> list[NodeEvent]:
    return [row for row in rows if isinstance(row, NodeEvent)]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


def test_the_source_is_found_by_its_name() -> None:
    assert SOURCES.get("gpu") is Gpus


def test_samples_and_processes_come_from_the_worker(host: Host) -> None:
    host.play(full_gpu(), plain_gpu())
    source = host.source()
    rows = host.rows_until(source, lambda rows: len(samples(rows)) >= 4)
    assert [sample.gpu_uuid for sample in samples(rows)[:4]] == ["GPU-1", "GPU-2"] * 2
    assert samples(rows)[2].sm_active_ratio == 0.96
    times = [sample.elapsed_ms for sample in samples(rows)]
    assert times == sorted(times)
    assert times[0] <= time.clock_gettime(time.CLOCK_BOOTTIME) * 1000
    assert {row.pid for row in rows if isinstance(row, GpuProcess)} == {4242, 4243}
    assert source.worker_cpu_seconds > 0
    assert (events(rows), host.said) == ([], [])


def test_dropped_values_are_counted_over_all_workers(host: Host) -> None:
    gpu = plain_gpu()
    gpu["answers"]["nvmlDeviceGetPowerUsage"] = NO_VALUE
    host.play(gpu)
    source = host.source()
    rows = host.rows_until(source, samples)
    before = source.values_dropped
    assert before == len(samples(rows))
    assert source.worker_pid
    os.kill(source.worker_pid, signal.SIGKILL)
    host.until_reaped(source)
    host.pass_time(source, 1)
    host.rows_until(source, samples)
    assert source.values_dropped > before


def test_a_call_that_hangs_is_reported_ended_and_followed_by_a_new_worker(host: Host) -> None:
    host.play(full_gpu())
    source = host.source()
    host.rows_until(source, samples)
    first = source.worker_pid
    assert first
    (host.folder / "hang").touch()
    until((host.folder / "hanging").exists)
    list(source.read(host.clock))  # what came before
    assert host.pass_time(source, 9) == []
    message = (
        "the worker that reads GPUs gave no samples: no answer since 2026-01-02T03:03:55Z, "
        "in the call nvmlDeviceGetPowerUsage 00000000:1B:00.0"
    )
    assert host.pass_time(source, 1) == [
        NodeEvent(1_010_000, "gpu_unresponsive", "gpu", None, None, message, "collector")
    ]
    host.until_reaped(source)
    (host.folder / "hang").unlink()
    assert host.pass_time(source, 1) == []
    rows = host.rows_until(source, samples)
    back = "the worker that reads GPUs gives samples again"
    assert events(rows) == [NodeEvent(1_011_000, "gpu_back", "gpu", None, None, back, "collector")]
    assert host.said == [f"gpu: {message}", f"gpu: {back}"]
    assert source.worker_pid != first


def test_a_driver_that_hangs_for_good_is_said_once_and_tried_ever_more_seldom(host: Host) -> None:
    host.play(full_gpu())
    (host.folder / "hang").touch()
    source = host.source()
    started: list[float] = []
    rows: list[Row] = []
    for _ in range(4):
        while source.worker_pid is None:
            rows += host.pass_time(source, 1)
        worker = source.worker_pid
        started.append(host.clock.elapsed_seconds)
        rows += host.pass_time(source, 60)
        assert source.worker_pid in (worker, None)  # never two at once
        host.until_reaped(source)
        assert is_gone(worker)
    assert [event.kind for event in events(rows)] == ["gpu_unresponsive"]
    assert [after - before - 60 for before, after in pairwise(started)] == [1, 2, 4]


def test_a_worker_that_opens_the_driver_is_given_time(host: Host) -> None:
    host.play(full_gpu())
    (host.folder / "hang").touch()
    source = host.source()
    list(source.read(host.clock))
    first = source.worker_pid
    until((host.folder / "hanging").exists)
    assert [event.kind for event in events(host.pass_time(source, 59))] == ["gpu_unresponsive"]
    (host.folder / "hang").unlink()
    rows = host.rows_until(source, samples)
    assert [event.kind for event in events(rows)] == ["gpu_back"]
    assert source.worker_pid == first


def test_a_worker_that_never_opens_the_driver_is_ended(host: Host) -> None:
    host.play(full_gpu())
    (host.folder / "hang").touch()
    source = host.source()
    list(source.read(host.clock))
    host.pass_time(source, 60)
    host.until_reaped(source)


def test_a_collector_that_was_stopped_takes_its_own_absence_for_no_silence(host: Host) -> None:
    host.play(full_gpu())
    source = host.source()
    host.rows_until(source, samples)
    (host.folder / "hang").touch()
    until((host.folder / "hanging").exists)
    list(source.read(host.clock))
    host.clock.elapsed_seconds += 3600
    assert list(source.read(host.clock)) == []


def test_a_driver_that_crashes_the_worker_is_said_and_it_is_started_again(host: Host) -> None:
    host.play(full_gpu())
    source = host.source()
    host.rows_until(source, samples)
    (host.folder / "crash").touch()
    rows = host.rows_until(source, events)
    assert [event.kind for event in events(rows)] == ["gpu_unresponsive"]
    assert "it was ended by SIGSEGV, in the call nvml" in events(rows)[0].message
    assert source.worker_pid is None
    (host.folder / "crash").unlink()
    assert list(source.read(host.clock)) == []  # not at once
    host.clock.elapsed_seconds += 1
    rows = host.rows_until(source, samples)
    assert [event.kind for event in events(rows)] == ["gpu_back"]


def test_a_lost_gpu_is_said_once_even_by_two_workers(host: Host) -> None:
    host.play(full_gpu(), plain_gpu())
    source = host.source()
    host.rows_until(source, samples)
    (host.folder / "lost").touch()
    rows = host.rows_until(source, events)
    assert [(event.kind, event.subject) for event in events(rows)] == [("gpu_lost", "00000000:1B:00.0")]
    assert source.worker_pid
    os.kill(source.worker_pid, signal.SIGKILL)
    host.rows_until(source, events)
    host.clock.elapsed_seconds += 1
    rows = host.rows_until(source, lambda rows: len(samples(rows)) > 2)
    assert {sample.gpu_uuid for sample in samples(rows)} == {"GPU-2"}
    assert [event.kind for event in events(rows)] == ["gpu_back"]


def test_what_needs_more_permission_is_said_once(host: Host) -> None:
    gpu = full_gpu()
    gpu["answers"]["nvmlDeviceGetTotalEnergyConsumption"] = {"error": "NoPermission"}
    host.play(gpu)
    host.rows_until(host.source(), lambda rows: len(samples(rows)) > 2)
    call = "nvmlDeviceGetTotalEnergyConsumption"
    assert host.said == [f"gpu: {call} needs more permission than the collector has: left out"]


@pytest.mark.parametrize(
    ("scene", "reason"),
    [
        ({"init": "LibraryNotFound"}, "NVML: NVML Shared Library Not Found"),
        ({"init": "DriverNotLoaded"}, "NVML: Driver Not Loaded"),
        ({}, "the driver lists no GPU"),
    ],
)
def test_a_host_where_the_driver_has_nothing_gives_no_data(host: Host, scene: dict[str, str], reason: str) -> None:
    host.play(**scene)
    source = host.source()
    with pytest.raises(NoData, match=reason):
        host.rows_until(source, samples)
    assert source.worker_pid is None


def test_a_host_without_a_driver_gives_no_data_and_starts_no_worker(tmp_path: Path) -> None:
    source = Gpus(Machine(dev=tmp_path, proc=tmp_path))
    with pytest.raises(NoData, match="no NVIDIA driver"):
        source.read(FrozenClock(datetime(2026, 1, 2, tzinfo=UTC)))
    assert source.worker_pid is None


@pytest.mark.parametrize("is_opened", [True, False])
def test_a_host_without_the_binding_gives_no_data(host: Host, is_opened: bool) -> None:
    machine = Machine(dev=host.folder / "dev", proc=host.folder / "proc")
    if not is_opened:  # the driver is loaded, and nobody has made its devices yet
        machine = replace(machine, dev=host.folder / "empty")
        (host.folder / "proc/driver/nvidia").mkdir(parents=True)
        (host.folder / "proc/driver/nvidia/version").touch()
    source = Gpus(machine, nvml="no_such_binding")
    with pytest.raises(NoData, match="nvidia-ml-py is not installed"):
        host.rows_until(source, samples)


PARENT = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from gpulake.collect.sources import Machine
from gpulake.collect.sources.gpu import Gpus
from gpulake.core.clock import FrozenClock

source = Gpus(Machine(dev=Path(sys.argv[1])), nvml="fake_nvml")
source.read(FrozenClock(datetime(2026, 1, 2, tzinfo=UTC)))
print(source.worker_pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_hung", [False, True])
def test_a_worker_leaves_with_its_parent_even_from_a_call_that_hangs(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_hung: bool
) -> None:
    host.play(full_gpu())
    if is_hung:
        (host.folder / "hang").touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(child.ROOT), str(FAKES))))
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(host.folder / "dev")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout
        worker = int(parent.stdout.readline())
        if is_hung:
            until((host.folder / "hanging").exists)
        assert not is_gone(worker)
        parent.kill()
    until(lambda: is_gone(worker))


def test_the_worker_starts_from_a_zip_file(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = host.folder / "collector.pyz"
    write_bundle(archive)
    monkeypatch.setattr(child, "ROOT", archive)
    host.play(plain_gpu())
    source = host.source()
    assert samples(host.rows_until(source, samples))[0].gpu_uuid == "GPU-2"
    assert source.worker_pid
    environment = Path(f"/proc/{source.worker_pid}/environ").read_bytes().split(b"\0")
    assert f"PYTHONPATH={archive}{os.pathsep}{FAKES}".encode() in environment
