"""What a sample of a GPU says, asked of a fake driver in this process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect.fake_nvml import Fake
from collect.gpu_scenes import NO_VALUE, full_gpu, mig_gpu, plain_gpu
from examples import cases
from gpulake.collect.gpus.driver import Driver
from gpulake.collect.gpus.session import CannotOpen, NoGpus, Session
from gpulake.collect.rows import GpuProcess, GpuSample, NodeEvent
from gpulake.core.clock import FrozenClock
from gpulake.formats.plausible import is_plausible


class Bench:
    """A session over a scene, with a clock that the test moves."""

    def __init__(self, scene: dict[str, Any], proc: Path) -> None:
        self.fake = Fake(scene)
        self.notes: list[str] = []
        self.driver = Driver(self.fake, self.notes.append)
        self.clock = FrozenClock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), elapsed=100.0)
        self.known: dict[str, int] = {}
        self.proc = proc
        self.session = self.open()

    def open(self) -> Session:
        return Session(self.driver, self.proc, self.clock, self.known)

    def later(self, seconds: float) -> None:
        self.clock.elapsed_seconds += seconds


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    program = tmp_path / "proc" / "4242"
    program.mkdir(parents=True)
    (program / "comm").write_text("python3\n", encoding="utf-8")
    (program / "cgroup").write_text("0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n", encoding="utf-8")
    return tmp_path / "proc"


@pytest.fixture
def bench(proc: Path) -> Callable[..., Bench]:
    def over(*devices: dict[str, Any], **more: Any) -> Bench:
        return Bench({"devices": list(devices), **more}, proc)

    return over


FULL = GpuSample(
    elapsed_ms=100_000,
    gpu_uuid="GPU-1",
    gpu_index=0,
    gpu_name="NVIDIA H200",
    pci_bus_id="00000000:1B:00.0",
    gpu_busy_ratio=0.99,
    memory_busy_ratio=0.0,
    encoder_busy_ratio=0.01,
    decoder_busy_ratio=0.0,
    memory_used_bytes=5368709120,
    memory_total_bytes=150754820096,
    power_watts=573.93,
    power_limit_watts=700.0,
    energy_joules_total=22970.93,
    temperature_celsius=46.0,
    memory_temperature_celsius=44.0,
    slowdown_temperature_celsius=89.0,
    sm_clock_hertz=1_965_000_000,
    memory_clock_hertz=3_201_000_000,
    clock_event_reasons=4,
    power_violation_seconds_total=3.804102,
    thermal_violation_seconds_total=0.25,
    ecc_corrected_total=1,
    ecc_uncorrected_total=2,
    ecc_corrected_lifetime_total=3,
    ecc_uncorrected_lifetime_total=4,
    remapped_rows_correctable=5,
    remapped_rows_uncorrectable=6,
    has_remap_pending=True,
    has_remap_failure=False,
    pcie_replays_total=7,
    pcie_link_generation=5,
    pcie_link_width=16,
    nvlink_errors_total=17,
    nvlink_links_active=2,
    processes=2,
)
ACTIVITY: dict[str, Any] = {
    "sm_active_ratio": 0.96,
    "sm_occupancy_ratio": 0.14,
    "tensor_active_ratio": 0.93,
    "dram_active_ratio": 0.16,
    "graphics_active_ratio": 0.99,
    "pcie_rx_bytes_per_second": 524288.0,
    "pcie_tx_bytes_per_second": 2097152.0,
    "nvlink_rx_bytes_per_second": 2048000.0,
    "nvlink_tx_bytes_per_second": 512000.0,
}


def test_a_gpu_that_says_everything_gives_a_whole_row(bench: Callable[..., Bench]) -> None:
    on = bench(full_gpu())
    assert on.session.read().gpu == [FULL]
    on.later(1)
    assert on.session.read().gpu == [FULL._replace(elapsed_ms=101_000, **ACTIVITY)]
    assert on.driver.values_dropped == 0


def test_processes_carry_memory_share_name_and_owner(bench: Callable[..., Bench]) -> None:
    on = bench(full_gpu())
    named = GpuProcess(100_000, "GPU-1", 4242, "python3", 5366611968, 0.97, 0.31, "slurm", "77")
    unnamed = GpuProcess(100_000, "GPU-1", 4243, None, None, 0.0, 0.0, "unattributed", "")
    assert on.session.read().gpu_process == [named, unnamed]


def test_a_process_that_does_nothing_is_at_zero_once_its_last_share_is_old(bench: Callable[..., Bench]) -> None:
    gpu = full_gpu()
    shares = gpu["answers"]["nvmlDeviceGetProcessUtilization"]
    gpu["answers"]["nvmlDeviceGetProcessUtilization"] = {"series": [shares, {"error": "NotFound"}]}
    on = bench(gpu)
    found = []
    for _ in range(4):
        found.append(on.session.read().gpu_process[0].sm_busy_ratio)
        on.later(1)
    assert found == [0.97, 0.97, 0.97, 0.0]


def test_processes_without_a_pid_are_counted_and_not_listed(bench: Callable[..., Bench]) -> None:
    gpu = full_gpu()
    nameless = {"pid": 0, "usedGpuMemory": NO_VALUE}
    gpu["answers"] |= {
        "nvmlDeviceGetComputeRunningProcesses": [nameless, nameless],
        "nvmlDeviceGetGraphicsRunningProcesses": [],
    }
    reading = bench(gpu).session.read()
    assert (reading.gpu[0].processes, reading.gpu_process) == (2, [])


def test_in_a_container_a_pid_that_has_no_gpu_open_is_not_believed(proc: Path) -> None:
    (proc / "self" / "ns").mkdir(parents=True)
    (proc / "self" / "ns" / "pid").symlink_to("pid:[4026532999]")
    rows = Bench({"devices": [full_gpu()]}, proc).session.read().gpu_process
    assert [(row.comm, row.owner_kind) for row in rows] == [(None, "unattributed"), (None, "unattributed")]
    (proc / "4242" / "fd").mkdir()
    (proc / "4242" / "fd" / "7").symlink_to("/dev/nvidia0")
    rows = Bench({"devices": [full_gpu()]}, proc).session.read().gpu_process
    assert [(row.comm, row.owner_kind) for row in rows] == [("python3", "slurm"), (None, "unattributed")]


def test_what_is_not_supported_is_left_out_and_asked_once(bench: Callable[..., Bench]) -> None:
    on = bench(plain_gpu())
    row = GpuSample(
        elapsed_ms=100_000,
        gpu_uuid="GPU-2",
        gpu_index=0,
        gpu_name="NVIDIA T400",
        pci_bus_id="00000000:3B:00.0",
        gpu_busy_ratio=0.0,
        memory_busy_ratio=0.0,
        memory_used_bytes=1048576,
        memory_total_bytes=2147483648,
        temperature_celsius=31.0,
    )
    assert on.session.read().gpu == [row]
    on.fake.calls.clear()
    on.later(60)
    assert on.session.read().gpu == [row._replace(elapsed_ms=160_000)]
    answered = ["nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTemperature"]
    assert on.fake.calls == ["nvmlEventSetWait_v2", *answered]


def test_a_driver_that_is_opened_anew_is_asked_everything_again(bench: Callable[..., Bench]) -> None:
    on = bench(plain_gpu())
    on.session.read()
    on.session.close()
    on.fake.scene["devices"][0]["answers"]["nvmlDeviceGetPowerUsage"] = 20_000
    assert on.open().read().gpu[0].power_watts == 20.0


def test_slow_values_are_asked_every_few_seconds_and_stand_in_between(bench: Callable[..., Bench]) -> None:
    on = bench(full_gpu())
    answers = on.fake.scene["devices"][0]["answers"]
    on.session.read()
    answers |= {"nvmlDeviceGetEnforcedPowerLimit": 500_000, "nvmlDeviceGetPowerUsage": 100_000}
    on.later(1)
    sample = on.session.read().gpu[0]
    assert (sample.power_watts, sample.power_limit_watts) == (100.0, 700.0)
    on.later(4)
    assert on.session.read().gpu[0].power_limit_watts == 500.0


def test_slow_values_are_read_once_a_second_and_kept_in_between(bench: Callable[..., Bench]) -> None:
    gpu = full_gpu()
    gpu["answers"]["nvmlDeviceGetTotalEnergyConsumption"] = {"series": [1000, 2000, 3000]}
    on = bench(gpu)
    found = []
    for _ in range(11):
        found.append(on.session.read().gpu[0].energy_joules_total)
        on.later(0.2)
    assert found == [1.0] * 5 + [2.0] * 5 + [3.0]
    assert on.fake.calls.count("nvmlDeviceGetProcessUtilization") == 3


def test_impossible_values_are_dropped_and_counted(bench: Callable[..., Bench]) -> None:
    gpu = full_gpu()
    gpu["answers"] |= {
        "nvmlDeviceGetUtilizationRates": {"gpu": 4294967295, "memory": 101},
        "nvmlDeviceGetPowerUsage": 0xFFFFFFFF,
        "nvmlDeviceGetTotalEnergyConsumption": NO_VALUE,
        "nvmlDeviceGetTotalEccErrors 0 0": 0x7FFFFFFFFFFFFFF0,
        f"nvmlDeviceGetTemperature {pynvml.NVML_TEMPERATURE_GPU}": 255,
    }
    gpu["fields"][f"{pynvml.NVML_FI_DEV_PERF_POLICY_POWER} 0"] = [NO_VALUE]
    gpu["gpm"] |= {
        str(pynvml.NVML_GPM_METRIC_SM_UTIL): float("nan"),
        str(pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL): 140737488355328.0,
        str(pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL): 100.2,
    }
    on = bench(gpu)
    on.session.read()
    assert on.driver.values_dropped == 7
    on.later(1)
    dropped = (
        "gpu_busy_ratio",
        "memory_busy_ratio",
        "power_watts",
        "energy_joules_total",
        "ecc_corrected_total",
        "temperature_celsius",
        "power_violation_seconds_total",
        "sm_active_ratio",
        "dram_active_ratio",
    )
    expected: dict[str, Any] = {**ACTIVITY, "graphics_active_ratio": 1.0, **dict.fromkeys(dropped)}
    assert on.session.read().gpu == [FULL._replace(elapsed_ms=101_000, **expected)]
    assert on.driver.values_dropped == 7 + 8  # the slow one is not asked twice


NUMBERS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from((0xFFFFFFFF, 0x7FFFFFF0, NO_VALUE, 100, 101)))


@given(st.data())
@settings(max_examples=cases(50))
def test_whatever_the_driver_says_only_what_can_be_true_is_in_a_row(data: st.DataObject) -> None:
    gpu = full_gpu()
    for call, answer in gpu["answers"].items():
        if isinstance(answer, int) and call.startswith("nvmlDeviceGet") and "Nv" not in call and "Event" not in call:
            gpu["answers"][call] = data.draw(NUMBERS)
    gpu["answers"]["nvmlDeviceGetUtilizationRates"] = {"gpu": data.draw(NUMBERS), "memory": data.draw(NUMBERS)}
    gpu["fields"] = {field: [data.draw(NUMBERS), data.draw(NUMBERS)] for field in gpu["fields"]}
    gpu["gpm"] = {metric: data.draw(st.floats()) for metric in gpu["gpm"]}
    on = Bench({"devices": [gpu]}, Path("/nonexistent"))
    on.session.read()
    on.later(1)
    [sample] = on.session.read().gpu
    numbers = {name: value for name, value in sample._asdict().items() if isinstance(value, int | float)}
    assert {name: value for name, value in numbers.items() if not is_plausible(name, value)} == {}


def test_each_mig_instance_has_its_row_and_its_processes(bench: Callable[..., Bench]) -> None:
    on = bench(mig_gpu())
    on.session.read()
    on.later(1)
    reading = on.session.read()
    whole, first, second = reading.gpu
    assert whole == FULL._replace(elapsed_ms=101_000, gpu_busy_ratio=None, memory_busy_ratio=None, **ACTIVITY)
    common: dict[str, Any] = {
        "elapsed_ms": 101_000,
        "gpu_index": 0,
        "pci_bus_id": "00000000:1B:00.0",
        "parent_uuid": "GPU-1",
    }
    assert first == GpuSample(
        **common,
        gpu_uuid="MIG-a",
        gpu_name="NVIDIA H200 MIG 1g.18gb",
        mig_profile="1g.18gb",
        gpu_instance_id=7,
        sm_active_ratio=0.5,
        memory_used_bytes=7 << 20,
        memory_total_bytes=18 << 30,
        processes=1,
    )
    assert second == GpuSample(
        **common,
        gpu_uuid="MIG-b",
        gpu_name="NVIDIA H200",
        mig_profile="1c.2g.35gb",
        gpu_instance_id=9,
        sm_active_ratio=0.0,
        memory_used_bytes=9 << 20,
        memory_total_bytes=18 << 30,
        processes=1,
    )
    assert [(row.gpu_uuid, row.pid, row.memory_used_bytes, row.sm_busy_ratio) for row in reading.gpu_process] == [
        ("MIG-a", 4007, 7 << 20, None),
        ("MIG-b", 4009, 9 << 20, None),
    ]


def test_an_instance_that_is_destroyed_leaves_with_its_rows(bench: Callable[..., Bench]) -> None:
    on = bench(mig_gpu())
    on.session.read()
    on.fake.scene["devices"][0]["instances"][0] = None
    on.later(5)
    assert [sample.gpu_uuid for sample in on.session.read().gpu] == ["GPU-1", "MIG-b"]


def test_an_xid_is_an_event_with_its_number_and_gpu(bench: Callable[..., Bench]) -> None:
    whole = {"gpuInstanceId": 0xFFFFFFFF, "computeInstanceId": 0xFFFFFFFF}
    events = [
        {"device": 1, "eventType": pynvml.nvmlEventTypeXidCriticalError, "eventData": 79, **whole},
        {"device": 0, "eventType": pynvml.nvmlEventTypeXidCriticalError, "eventData": 13, "gpuInstanceId": 3},
        {"device": 0, "eventType": pynvml.nvmlEventTypeDoubleBitEccError, "eventData": 0, **whole},
    ]
    on = bench(full_gpu(), full_gpu("GPU-3", "00000000:9B:00.0"), events=events)
    first, other = "00000000:1B:00.0", "00000000:9B:00.0"
    assert on.session.read().event == [
        NodeEvent(100_000, "xid", other, 79, None, f"NVML: Xid 79 on {other}", "nvml"),
        NodeEvent(100_000, "xid", first, 13, None, f"NVML: Xid 13 on {first}, GPU instance 3", "nvml"),
        NodeEvent(
            100_000, "ecc", first, None, None, f"NVML: a memory error that could not be corrected on {first}", "nvml"
        ),
    ]
    assert on.session.read().event == []


def test_a_lost_gpu_is_said_once_and_the_others_go_on(bench: Callable[..., Bench], tmp_path: Path) -> None:
    on = bench(full_gpu(), plain_gpu(), lost=str(tmp_path / "lost"))
    assert [sample.gpu_uuid for sample in on.session.read().gpu] == ["GPU-1", "GPU-2"]
    (tmp_path / "lost").touch()
    reading = on.session.read()
    bus = "00000000:1B:00.0"
    assert reading.event == [NodeEvent(100_000, "gpu_lost", bus, None, None, f"NVML: {bus}: GPU is lost", "nvml")]
    assert [sample.gpu_uuid for sample in reading.gpu] == ["GPU-2"]
    reading = on.session.read()
    assert ([sample.gpu_uuid for sample in reading.gpu], reading.event) == (["GPU-2"], [])
    assert not on.session.is_stale
    on.later(60)
    assert on.session.is_stale
    (tmp_path / "lost").unlink()
    assert [sample.gpu_uuid for sample in on.open().read().gpu] == ["GPU-1", "GPU-2"]


def test_a_gpu_that_cannot_be_opened_is_lost_under_the_name_it_had(bench: Callable[..., Bench]) -> None:
    on = bench(full_gpu(), plain_gpu())
    on.fake.scene["devices"][1]["open"] = "GpuIsLost"
    reading = on.open().read()
    assert [sample.gpu_uuid for sample in reading.gpu] == ["GPU-1"]
    assert [(event.kind, event.subject) for event in reading.event] == [("gpu_lost", "00000000:3B:00.0")]


def test_a_gpu_that_the_driver_lists_no_more_is_lost(bench: Callable[..., Bench]) -> None:
    on = bench(full_gpu(), plain_gpu())
    del on.fake.scene["devices"][0]
    reading = on.open().read()
    assert [(sample.gpu_uuid, sample.gpu_index) for sample in reading.gpu] == [("GPU-2", 0)]
    assert [(event.kind, event.subject) for event in reading.event] == [("gpu_lost", "00000000:1B:00.0")]


@pytest.mark.parametrize("error", ["LibraryNotFound", "DriverNotLoaded", "LibRmVersionMismatch"])
def test_a_host_without_a_driver_has_no_gpus(bench: Callable[..., Bench], error: str) -> None:
    with pytest.raises(NoGpus, match=r"NVML: \w+"):
        bench(init=error)


def test_a_driver_without_gpus_has_none(bench: Callable[..., Bench]) -> None:
    with pytest.raises(NoGpus, match="the driver lists no GPU"):
        bench()


def test_a_driver_that_fails_to_open_is_not_an_absent_one(bench: Callable[..., Bench]) -> None:
    with pytest.raises(CannotOpen, match="Unknown Error"):
        bench(full_gpu(), init="Unknown")


def test_a_call_without_permission_is_named(bench: Callable[..., Bench]) -> None:
    gpu = full_gpu()
    gpu["answers"]["nvmlDeviceGetTotalEnergyConsumption"] = {"error": "NoPermission"}
    on = bench(gpu)
    assert on.session.read().gpu[0].energy_joules_total is None
    assert on.driver.refused == {"nvmlDeviceGetTotalEnergyConsumption"}


def test_every_call_is_noted_before_it_begins(bench: Callable[..., Bench]) -> None:
    on = bench(full_gpu())
    on.session.read()
    assert [note.split(" ")[0] for note in on.notes] == on.fake.calls
    assert "nvmlDeviceGetPowerUsage 00000000:1B:00.0" in on.notes
    assert "nvmlDeviceGetPcieThroughput" not in on.fake.calls
