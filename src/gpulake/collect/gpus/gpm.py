"""GPM: what the multiprocessors, tensor cores, memory and links of a Hopper or newer GPU did between two samples."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from gpulake.collect.gpus.asker import Values
from gpulake.collect.gpus.driver import Driver, Unanswered, Unsupported
from gpulake.collect.gpus.questions import mebi, percent

# The two samples of a difference are not taken in no time: a little over the most is the most.
SLACK = 1.005

ACTIVITY: tuple[tuple[str, str, Callable[[float], float]], ...] = (
    ("graphics_active_ratio", "NVML_GPM_METRIC_GRAPHICS_UTIL", percent),
    ("sm_active_ratio", "NVML_GPM_METRIC_SM_UTIL", percent),
    ("sm_occupancy_ratio", "NVML_GPM_METRIC_SM_OCCUPANCY", percent),
    ("tensor_active_ratio", "NVML_GPM_METRIC_ANY_TENSOR_UTIL", percent),
    ("dram_active_ratio", "NVML_GPM_METRIC_DRAM_BW_UTIL", percent),
)
TRAFFIC: tuple[tuple[str, str, Callable[[float], float]], ...] = (
    ("pcie_tx_bytes_per_second", "NVML_GPM_METRIC_PCIE_TX_PER_SEC", mebi),
    ("pcie_rx_bytes_per_second", "NVML_GPM_METRIC_PCIE_RX_PER_SEC", mebi),
    ("nvlink_rx_bytes_per_second", "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", mebi),
    ("nvlink_tx_bytes_per_second", "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", mebi),
)


class Gpm:
    """Of a GPU, or of the part of it that a MIG instance has: then traffic is not asked, since all parts share it."""

    def __init__(self, driver: Driver, handle: Any, subject: str, gpu_instance_id: int | None = None) -> None:
        """The handle is the GPU's, of a MIG instance too."""
        self._driver = driver
        self._handle = handle
        self._subject = subject
        self._gpu_instance_id = gpu_instance_id
        wanted = ACTIVITY if gpu_instance_id is not None else ACTIVITY + TRAFFIC
        self._metrics = [
            (field, number, unit) for field, name, unit in wanted if (number := driver.constant(name)) is not None
        ]
        self._samples: list[Any] = []
        self._has_former = False
        self._request: Any = None
        with contextlib.suppress(Unsupported, Unanswered):
            if driver.call("nvmlGpmQueryDeviceSupport", subject, handle).isSupportedDevice:
                self._request = driver.nvml.c_nvmlGpmMetricsGet_t()
                self._samples = [driver.call("nvmlGpmSampleAlloc", subject) for _ in range(2)]

    def read(self) -> Values:
        """Since the read before; nothing at the first."""
        if not self._samples:
            return {}
        former, latter = self._samples
        try:
            self._sample(latter)
            self._samples = [latter, former]
            if not self._has_former:
                self._has_former = True
                return {}
            return self._difference(former, latter)
        except Unsupported:
            self.close()
            return {}
        except Unanswered:
            self._has_former = False
            return {}

    def close(self) -> None:
        for sample in self._samples:
            with contextlib.suppress(Unsupported, Unanswered):
                self._driver.call("nvmlGpmSampleFree", self._subject, sample)
        self._samples = []

    def _sample(self, sample: Any) -> None:
        if self._gpu_instance_id is None:
            self._driver.call("nvmlGpmSampleGet", self._subject, self._handle, sample)
        else:
            self._driver.call("nvmlGpmMigSampleGet", self._subject, self._handle, self._gpu_instance_id, sample)

    def _difference(self, former: Any, latter: Any) -> Values:
        request = self._request
        request.version = self._driver.constant("NVML_GPM_METRICS_GET_VERSION")
        request.numMetrics = len(self._metrics)
        request.sample1 = former
        request.sample2 = latter
        for place, (_, number, _) in enumerate(self._metrics):
            request.metrics[place].metricId = number
        self._driver.call("nvmlGpmMetricsGet", self._subject, request)
        found: Values = {}
        left = []
        for place, (field, number, unit) in enumerate(self._metrics):
            metric = request.metrics[place]
            if not self._driver.is_unsupported(metric.nvmlReturn):
                left.append((field, number, unit))
            if metric.nvmlReturn == 0:
                value = metric.value
                if unit is percent and 100 < value <= 100 * SLACK:
                    value = 100.0
                found[field] = self._driver.clean(field, value, unit)
        self._metrics = left
        return found
