"""GPM: activity of multiprocessors, tensor cores, memory and links of a Hopper or newer GPU between two samples."""

from __future__ import annotations

from typing import Any

from gpulake.collect.gpus.driver import Device, Unanswered, Unsupported, nvml_names
from gpulake.collect.gpus.queries import UNITS, Values

SLACK = 1.005  # the two samples of a difference take time: slightly over 100 % is 100 %


class Gpm:
    """GPM of a GPU, or of a MIG instance: then without traffic, which all instances share."""

    def __init__(self, device: Device, gpu_instance_id: int | None = None) -> None:
        """The device is the whole GPU, for a MIG instance too."""
        self._device = device
        self._driver = driver = device.driver
        self._gpu_instance_id = gpu_instance_id
        names = nvml_names()["gpm"]
        self._activity = names["activity"]
        wanted = self._activity if gpu_instance_id is not None else self._activity | names["traffic"]
        numbers = [(field, driver.constant(f"NVML_GPM_METRIC_{name}")) for field, name in wanted.items()]
        self._metrics = [(field, number) for field, number in numbers if number is not None]
        self._samples: list[Any] = []
        self._has_former = False
        self._request: Any = None
        support = device.call_or_none("nvmlGpmQueryDeviceSupport")
        if support is not None and support.isSupportedDevice:
            self._request = driver.nvml.c_nvmlGpmMetricsGet_t()
            samples = [driver.call_or_none("nvmlGpmSampleAlloc", device.bus) for _ in range(2)]
            self._samples = samples if None not in samples else []

    def read(self) -> Values:
        """Averages since the last read; nothing at the first."""
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
        except Unanswered:
            self._has_former = False
        return {}

    def close(self) -> None:
        for sample in self._samples:
            self._driver.call_or_none("nvmlGpmSampleFree", self._device.bus, sample)
        self._samples = []

    def _sample(self, sample: Any) -> None:
        if self._gpu_instance_id is None:
            self._device.call("nvmlGpmSampleGet", sample)
        else:
            self._device.call("nvmlGpmMigSampleGet", self._gpu_instance_id, sample)

    def _difference(self, former: Any, latter: Any) -> Values:
        request = self._request
        request.version = self._driver.constant("NVML_GPM_METRICS_GET_VERSION")
        request.numMetrics = len(self._metrics)
        request.sample1, request.sample2 = former, latter
        for place, (_, number) in enumerate(self._metrics):
            request.metrics[place].metricId = number
        self._driver.call("nvmlGpmMetricsGet", self._device.bus, request)
        found: Values = {}
        left = []
        for place, (field, number) in enumerate(self._metrics):
            metric = request.metrics[place]
            if not self._driver.is_unsupported(metric.nvmlReturn):
                left.append((field, number))
            if metric.nvmlReturn == 0:
                is_share = field in self._activity
                value = 100.0 if is_share and 100 < metric.value <= 100 * SLACK else metric.value
                found[field] = self._driver.clean(field, value, UNITS["percent" if is_share else "mebi"])
        self._metrics = left
        return found
