"""One GPU, with its MIG instances: all that a sample of it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpulake.collect.gpus.asker import Asker, FieldAsker, Values
from gpulake.collect.gpus.driver import Driver, Unanswered, Unsupported
from gpulake.collect.gpus.events import bus_of
from gpulake.collect.gpus.gpm import Gpm
from gpulake.collect.gpus.nvlink import NvLink
from gpulake.collect.gpus.processes import GpuProcesses, Programs
from gpulake.collect.gpus.questions import MEMORY, QUICK, SLOW, STEADY, nano
from gpulake.collect.rows import GpuProcess, GpuSample

FIELDS = {"memory_temperature_celsius": ("NVML_FI_DEV_MEMORY_TEMP", 0)}
STEADY_FIELDS = {
    "power_violation_seconds_total": ("NVML_FI_DEV_PERF_POLICY_POWER", 0),
    "thermal_violation_seconds_total": ("NVML_FI_DEV_PERF_POLICY_THERMAL", 0),
}
UNITS: dict[str, Callable[[Any], float]] = {
    "memory_temperature_celsius": float,
    "power_violation_seconds_total": nano,
    "thermal_violation_seconds_total": nano,
}


class Moment(NamedTuple):
    """When a sample is taken, and what is due to be asked with it."""

    elapsed_ms: int
    now_us: int
    is_steady: bool  # what is asked every second
    is_slow: bool  # what is asked every few seconds


class Gpu:
    def __init__(self, driver: Driver, handle: Any, index: int, programs: Programs) -> None:
        self._driver = driver
        self._handle = handle
        self._programs = programs
        self.index = index
        self.bus = bus_of(driver, handle)
        self.uuid: str = driver.call("nvmlDeviceGetUUID", self.bus, handle)
        self._name = _name(driver, handle, self.bus)
        self._quick = Asker(driver, handle, self.bus, QUICK)
        self._steady = Asker(driver, handle, self.bus, STEADY)
        self._slow = Asker(driver, handle, self.bus, SLOW)
        self._fields = FieldAsker(driver, handle, self.bus, FIELDS)
        self._steady_fields = FieldAsker(driver, handle, self.bus, STEADY_FIELDS)
        self._nvlink = NvLink(driver, handle, self.bus)
        self._gpm = Gpm(driver, handle, self.bus)
        self._processes = GpuProcesses(driver, handle, self.uuid, self.bus, programs)
        self._steady_values: Values = {}
        self._slow_values: Values = {}
        self._instances: dict[str, MigInstance] = {}
        self._may_have_instances = True

    def read(self, moment: Moment) -> tuple[list[GpuSample], list[GpuProcess]]:
        """Its own sample, those of its instances, and the processes on them."""
        if moment.is_slow:
            self._slow_values = self._slow.ask() | self._nvlink.read_slow()
            self._find_instances()
        if moment.is_steady:
            self._steady_values = self._steady.ask() | self._values(self._steady_fields)
        values = self._slow_values | self._steady_values | self._quick.ask() | self._values(self._fields)
        activity = self._gpm.read()
        values |= self._nvlink.read_traffic() | activity
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
        own = GpuSample(
            elapsed_ms=moment.elapsed_ms,
            gpu_uuid=self.uuid,
            gpu_index=self.index,
            gpu_name=self._name,
            pci_bus_id=self.bus,
            processes=count,
            **values,
        )
        return [own, *samples], processes

    def close(self) -> None:
        self._gpm.close()
        for instance in self._instances.values():
            instance.close()

    def _values(self, fields: FieldAsker) -> Values:
        return {name: self._driver.clean(name, value.raw, UNITS[name]) for name, value in fields.ask().items()}

    def _find_instances(self) -> None:
        """Instances come and go while the GPU runs; those that stay keep what was learnt of them."""
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
        places = (self._mig_handle(place) for place in range(most))
        return [handle for handle in places if handle is not None]

    def _mig_handle(self, place: int) -> Any:
        try:
            return self._driver.call("nvmlDeviceGetMigDeviceHandleByIndex", self.bus, self._handle, place)
        except (Unsupported, Unanswered):  # there is none at this place
            return None


class MigInstance:
    """A part of a GPU: its memory, activity and processes. The rest is known of the whole GPU only."""

    def __init__(self, driver: Driver, parent: Any, handle: Any, uuid: str, bus: str, programs: Programs) -> None:
        self._number: int = driver.call("nvmlDeviceGetGpuInstanceId", bus, handle)
        self._uuid = uuid
        self._name = _name(driver, handle, bus)
        self._profile = _profile(driver, handle, bus, self._name or "")
        self._memory = Asker(driver, handle, bus, (MEMORY,))
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
            **self._memory.ask(),
            **self._gpm.read(),
        )
        return sample, processes

    def close(self) -> None:
        self._gpm.close()


def _name(driver: Driver, handle: Any, bus: str) -> str | None:
    try:
        name: str = driver.call("nvmlDeviceGetName", bus, handle)
    except (Unsupported, Unanswered):
        return None
    return name


def _profile(driver: Driver, handle: Any, bus: str, name: str) -> str | None:
    """The driver writes it behind the name; older ones do not, and it is put together from the sizes."""
    _, mark, profile = name.partition(" MIG ")
    if mark:
        return profile
    try:
        sizes = driver.call("nvmlDeviceGetAttributes_v2", bus, handle)
    except (Unsupported, Unanswered):
        return None
    gigabytes = round(sizes.memorySizeMB / 1024)
    whole = f"{sizes.gpuInstanceSliceCount}g.{gigabytes}gb"
    is_whole = sizes.computeInstanceSliceCount == sizes.gpuInstanceSliceCount
    return whole if is_whole else f"{sizes.computeInstanceSliceCount}c.{whole}"
