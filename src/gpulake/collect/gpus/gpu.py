"""One GPU with its MIG instances: a complete sample."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpulake.collect.gpus.driver import Driver, Unanswered, Unsupported
from gpulake.collect.gpus.events import bus_of
from gpulake.collect.gpus.gpm import Gpm
from gpulake.collect.gpus.nvlink import NvLink
from gpulake.collect.gpus.processes import GpuProcesses, Programs
from gpulake.collect.gpus.queries import MEMORY, QUICK, SLOW, STEADY, FieldQueries, Queries, Unit, Values, nano
from gpulake.collect.rows import GpuProcess, GpuSample

FIELDS = {"memory_temperature_celsius": ("NVML_FI_DEV_MEMORY_TEMP", 0)}
STEADY_FIELDS = {
    "power_violation_seconds_total": ("NVML_FI_DEV_PERF_POLICY_POWER", 0),
    "thermal_violation_seconds_total": ("NVML_FI_DEV_PERF_POLICY_THERMAL", 0),
}
UNITS: dict[str, Unit] = {
    "memory_temperature_celsius": float,
    "power_violation_seconds_total": nano,
    "thermal_violation_seconds_total": nano,
}


class Moment(NamedTuple):
    """When a sample is taken, and which queries are due."""

    elapsed_ms: int
    now_us: int
    is_steady: bool  # those of every second
    is_slow: bool  # those of every few seconds


class Gpu:
    def __init__(self, driver: Driver, handle: Any, index: int, programs: Programs) -> None:
        self._driver = driver
        self._handle = handle
        self._programs = programs
        self.index = index
        self.bus = bus_of(driver, handle)
        self.uuid: str = driver.call("nvmlDeviceGetUUID", self.bus, handle)
        self._name: str | None = driver.call_or_none("nvmlDeviceGetName", self.bus, handle)
        self._quick = Queries(driver, handle, self.bus, QUICK)
        self._steady = Queries(driver, handle, self.bus, STEADY)
        self._slow = Queries(driver, handle, self.bus, SLOW)
        self._fields = FieldQueries(driver, handle, self.bus, FIELDS)
        self._steady_fields = FieldQueries(driver, handle, self.bus, STEADY_FIELDS)
        self._nvlink = NvLink(driver, handle, self.bus)
        self._gpm = Gpm(driver, handle, self.bus)
        self._processes = GpuProcesses(driver, handle, self.uuid, self.bus, programs)
        self._steady_values: Values = {}
        self._slow_values: Values = {}
        self._instances: dict[str, MigInstance] = {}
        self._may_have_instances = True

    def read(self, moment: Moment) -> tuple[list[GpuSample], list[GpuProcess]]:
        """The samples of the GPU and of its instances, and the processes on them."""
        if moment.is_slow:
            self._slow_values = self._slow.read() | self._nvlink.read_slow()
            self._find_instances()
        if moment.is_steady:
            self._steady_values = self._steady.read() | self._values(self._steady_fields)
        values = self._slow_values | self._steady_values | self._quick.read() | self._values(self._fields)
        values |= self._nvlink.read_traffic() | self._gpm.read()
        samples: list[GpuSample] = []
        processes: list[GpuProcess] = []
        count: int | None
        if self._instances:
            for instance in self._instances.values():
                sample, its_processes = instance.read(moment, self)
                samples.append(sample)
                processes += its_processes
            count = sum(sample.processes or 0 for sample in samples)
        else:
            count, processes = self._processes.read(moment.elapsed_ms, moment.now_us if moment.is_steady else None)
        whole = GpuSample(
            elapsed_ms=moment.elapsed_ms,
            gpu_uuid=self.uuid,
            gpu_index=self.index,
            gpu_name=self._name,
            pci_bus_id=self.bus,
            processes=count,
            **values,
        )
        return [whole, *samples], processes

    def close(self) -> None:
        self._gpm.close()
        for instance in self._instances.values():
            instance.close()

    def _values(self, fields: FieldQueries) -> Values:
        return {name: self._driver.clean(name, value.raw, UNITS[name]) for name, value in fields.read().items()}

    def _find_instances(self) -> None:
        """Instances are created and destroyed while the GPU runs; those that stay keep their state."""
        found: dict[str, MigInstance] = {}
        for handle in self._mig_handles():
            try:
                uuid = self._driver.call("nvmlDeviceGetUUID", self.bus, handle)
                if uuid in self._instances:
                    found[uuid] = self._instances.pop(uuid)
                else:
                    found[uuid] = MigInstance(self._driver, self._handle, handle, uuid, self.bus, self._programs)
            except (Unsupported, Unanswered):
                continue
        for gone in self._instances.values():
            gone.close()
        self._instances = found

    def _mig_handles(self) -> list[Any]:
        if not self._may_have_instances:
            return []
        try:
            mode, _ = self._driver.call("nvmlDeviceGetMigMode", self.bus, self._handle)
            if mode != self._driver.constant("NVML_DEVICE_MIG_ENABLE"):
                return []
            most = self._driver.call("nvmlDeviceGetMaxMigDeviceCount", self.bus, self._handle)
        except Unsupported:
            self._may_have_instances = False
            return []
        except Unanswered:
            return []
        call = "nvmlDeviceGetMigDeviceHandleByIndex"
        handles = (self._driver.call_or_none(call, self.bus, self._handle, place) for place in range(most))
        return [handle for handle in handles if handle is not None]


class MigInstance:
    """A part of a GPU: its memory, activity and processes. Everything else is measured for the whole GPU only."""

    def __init__(self, driver: Driver, parent: Any, handle: Any, uuid: str, bus: str, programs: Programs) -> None:
        self._number: int = driver.call("nvmlDeviceGetGpuInstanceId", bus, handle)
        self._uuid = uuid
        self._name: str | None = driver.call_or_none("nvmlDeviceGetName", bus, handle)
        self._profile = _profile(driver, handle, bus, self._name or "")
        self._memory = Queries(driver, handle, bus, MEMORY)
        self._gpm = Gpm(driver, parent, bus, self._number)
        self._processes = GpuProcesses(driver, handle, uuid, bus, programs)

    def read(self, moment: Moment, parent: Gpu) -> tuple[GpuSample, list[GpuProcess]]:
        count, processes = self._processes.read(moment.elapsed_ms, moment.now_us if moment.is_steady else None)
        sample = GpuSample(
            elapsed_ms=moment.elapsed_ms,
            gpu_uuid=self._uuid,
            gpu_index=parent.index,
            gpu_name=self._name,
            pci_bus_id=parent.bus,
            parent_uuid=parent.uuid,
            mig_profile=self._profile,
            gpu_instance_id=self._number,
            processes=count,
            **self._memory.read(),
            **self._gpm.read(),
        )
        return sample, processes

    def close(self) -> None:
        self._gpm.close()


def _profile(driver: Driver, handle: Any, bus: str, name: str) -> str | None:
    """The driver writes it behind the name; with older drivers it is derived from the sizes."""
    _, mark, profile = name.partition(" MIG ")
    if mark:
        return profile
    sizes = driver.call_or_none("nvmlDeviceGetAttributes_v2", bus, handle)
    if sizes is None:
        return None
    gigabytes = round(sizes.memorySizeMB / 1024)
    whole = f"{sizes.gpuInstanceSliceCount}g.{gigabytes}gb"
    is_whole = sizes.computeInstanceSliceCount == sizes.gpuInstanceSliceCount
    return whole if is_whole else f"{sizes.computeInstanceSliceCount}c.{whole}"
