"""An open driver: all GPUs of this machine, read one after the other, and the events that NVML reports.

A lost GPU costs only its own rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from gpulake.collect.gpus.driver import Device, Driver, LostGpu, Unanswered, Unsupported, nvml_names
from gpulake.collect.gpus.gpu import Gpu, Moment, Programs
from gpulake.collect.rows import GpuProcess, GpuSample, NodeEvent
from gpulake.core.clock import Clock

MOST_AT_ONCE = 64


class Events:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._set: Any = driver.call_or_none("nvmlEventSetCreate", "")
        self._xid = driver.constant("nvmlEventTypeXidCriticalError")
        self._ecc = driver.constant("nvmlEventTypeDoubleBitEccError")

    def register(self, device: Device) -> None:
        if self._set is None:
            return
        supported = device.call_or_none("nvmlDeviceGetSupportedEventTypes") or 0
        if types := supported & (self._xid | self._ecc):
            device.call_or_none("nvmlDeviceRegisterEvents", types, self._set)

    def read(self, elapsed_ms: int) -> list[NodeEvent]:
        """Events since the last read; it does not wait."""
        found: list[NodeEvent] = []
        while self._set is not None and len(found) < MOST_AT_ONCE:
            try:
                data = self._driver.call("nvmlEventSetWait_v2", "", self._set, 0)
            except Unsupported:
                self._set = None
            except (Unanswered, LostGpu):  # usually a timeout: no event
                break
            else:
                found.append(self._event(data, elapsed_ms))
        return found

    def close(self) -> None:
        if self._set is not None:
            self._driver.call("nvmlEventSetFree", "", self._set)

    def _event(self, data: Any, elapsed_ms: int) -> NodeEvent:
        try:
            bus = bus_of(self._driver, data.device)
        except (Unsupported, Unanswered, LostGpu):
            bus = ""
        is_xid = data.eventType == self._xid
        part = "" if data.gpuInstanceId == 0xFFFFFFFF else f", GPU instance {data.gpuInstanceId}"
        what = f"Xid {data.eventData}" if is_xid else "a memory error that could not be corrected"
        return NodeEvent(
            elapsed_ms=elapsed_ms,
            kind="xid" if is_xid else "ecc",
            subject=bus,
            code=int(data.eventData) if is_xid else None,
            pid=None,
            message=f"NVML: {what} on {bus or 'a GPU that cannot be named'}{part}",
            source="nvml",
        )


def bus_of(driver: Driver, handle: Any) -> str:
    """The PCI address of the GPU, as nvidia-smi writes it."""
    bus = driver.call("nvmlDeviceGetPciInfo", "", handle).busId
    return bus.decode("ascii", "replace") if isinstance(bus, bytes) else str(bus)


STEADY_SECONDS = 0.9  # between steady queries: a second, less the lateness of timers
SLOW_SECONDS = 4.9  # between slow queries
REOPEN_SECONDS = 60.0  # after which a driver that has lost a GPU is reopened


class NoGpus(Exception):  # noqa: N818 - absence is not an error
    """This machine has no driver or no GPU."""


class CannotOpen(Exception):  # noqa: N818 - reported to the parent, which retries
    """The driver fails to open."""


class Reading(NamedTuple):
    gpu: list[GpuSample]
    gpu_process: list[GpuProcess]
    event: list[NodeEvent]


class Session:
    def __init__(self, driver: Driver, proc: Path, clock: Clock, known: dict[str, int]) -> None:
        """`known` has the GPUs seen before, index by PCI address; GPUs seen now are added to it."""
        self._driver = driver
        self._clock = clock
        self._programs = Programs(proc)
        self._opened_at = clock.elapsed()
        self._steady_at = 0.0
        self._slow_at = 0.0
        self._lost: list[NodeEvent] = []
        self.gpus: list[Gpu] = []
        count = open_driver(driver)
        if count == 0 and not known:
            raise NoGpus("the driver lists no GPU")
        self._events = Events(driver)
        for index in range(count):
            self._add(index, known)
        seen = {event.subject for event in self._lost} | {gpu.bus for gpu in self.gpus}
        self._lost += [self._loss(bus, "the driver lists it no more") for bus in known if bus not in seen]
        known.update((gpu.bus, gpu.index) for gpu in self.gpus)
        self._most = max(len(known), count)

    def read(self) -> Reading:
        begun = self._clock.elapsed()
        is_steady, is_slow = begun >= self._steady_at, begun >= self._slow_at
        if is_steady:
            self._steady_at = begun + STEADY_SECONDS
        if is_slow:
            self._slow_at = begun + SLOW_SECONDS
            self._programs.forget()
        reading = Reading([], [], [*self._lost, *self._events.read(self._elapsed_ms())])
        self._lost = []
        for gpu in list(self.gpus):
            now_us = round(self._clock.now().timestamp() * 1_000_000)
            moment = Moment(self._elapsed_ms(), now_us, is_steady, is_slow)
            try:
                samples, processes = gpu.read(moment)
            except LostGpu as lost:
                self.gpus.remove(gpu)
                reading.event.append(self._loss(gpu.bus, str(lost)))
            else:
                reading.gpu.extend(samples)
                reading.gpu_process.extend(processes)
        return reading

    @property
    def is_stale(self) -> bool:
        """Whether to reopen the driver: only then a GPU that was reset is found."""
        return len(self.gpus) < self._most and self._clock.elapsed() - self._opened_at >= REOPEN_SECONDS

    def close(self) -> None:
        try:
            for gpu in self.gpus:
                gpu.close()
            self._events.close()
            self._driver.call("nvmlShutdown", "")
        except (Unsupported, Unanswered, LostGpu):
            return

    def _add(self, index: int, known: dict[str, int]) -> None:
        name = next((bus for bus, former in known.items() if former == index), f"index {index}")
        try:
            handle = self._driver.call("nvmlDeviceGetHandleByIndex", name, index)
            device = Device(self._driver, handle, bus_of(self._driver, handle))
            gpu = Gpu(device, index, self._programs)
            self._events.register(device)
        except LostGpu as lost:
            self._lost.append(self._loss(name, str(lost)))
        except (Unsupported, Unanswered) as error:
            self._lost.append(self._loss(name, f"it cannot be opened: {error}"))
        else:
            self.gpus.append(gpu)

    def _loss(self, subject: str, reason: str) -> NodeEvent:
        message = f"NVML: {subject}: {reason}"
        return NodeEvent(self._elapsed_ms(), "gpu_lost", subject, None, None, message, "nvml")

    def _elapsed_ms(self) -> int:
        return int(self._clock.elapsed() * 1000)


def open_driver(driver: Driver) -> int:
    """The number of GPUs. Raises NoGpus without a driver, CannotOpen if the driver fails."""
    nvml: Any = driver.nvml
    try:
        driver.note("nvmlInit")
        nvml.nvmlInit()
        driver.note("nvmlDeviceGetCount")
        count: int = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        if error.value in [driver.constant(name) for name in nvml_names()["no_gpus"]]:
            raise NoGpus(f"NVML: {error}") from error
        raise CannotOpen(f"NVML: {error}") from error
    return count
