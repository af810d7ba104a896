"""Events that NVML reports: Xid errors and uncorrectable memory errors."""

from __future__ import annotations

from typing import Any

from gpulake.collect.gpus.driver import Device, Driver, LostGpu, Unanswered, Unsupported
from gpulake.collect.rows import NodeEvent

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
