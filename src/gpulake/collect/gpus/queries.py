"""Queries of one GPU: nvml.toml lists them, with the fields of GpuSample that their answers become.

NvLink: links that are up, errors, and traffic from counters where GPM does not report it. Gpm: activity of
multiprocessors, tensor cores, memory and links of a Hopper or newer GPU between two samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from gpulake.collect.gpus.driver import Device, Unanswered, Unsupported, nvml_names

ALL_LINKS = 0xFFFFFFFF  # the scope that sums over links; scope 0 is link 0 alone


class NvLink:
    def __init__(self, device: Device) -> None:
        self._device = device
        self._links = self._present_links()
        names = nvml_names()["nvlink"]
        traffic = {field: (name, ALL_LINKS) for field, name in names["traffic"].items()}
        errors = {name: (name, 0) for name in names["errors"]}
        of_link = {(name, link): (name, link) for name in names["errors_of_link"] for link in self._links}
        self._traffic = FieldQueries(device, traffic if self._links else {})
        self._errors = FieldQueries(device, errors if self._links else {})
        self._errors_of_link = FieldQueries(device, of_link)
        self._former: dict[str, FieldValue] = {}

    def read_slow(self) -> Values:
        if not self._links:
            return {}
        errors = self._errors.read() or self._errors_of_link.read()
        total = sum(int(error.raw) for error in errors.values()) if errors else None
        return {
            "nvlink_links_active": sum(self._is_up(link) for link in self._links),
            "nvlink_errors_total": self._device.driver.clean("nvlink_errors_total", total, int),
        }

    def read_traffic(self) -> Values:
        """Bytes a second since the last read."""
        found: Values = {}
        now = self._traffic.read()
        for field, latter in now.items():
            former = self._former.get(field)
            if former and latter.at_us > former.at_us and latter.raw >= former.raw:
                rate = (latter.raw - former.raw) * 1024 * 1_000_000 / (latter.at_us - former.at_us)
                found[field] = self._device.driver.clean(field, rate, float)
        self._former = now
        return found

    def _present_links(self) -> list[int]:
        links = []
        for link in range(self._device.driver.constant("NVML_NVLINK_MAX_LINKS") or 0):
            try:
                self._device.call("nvmlDeviceGetNvLinkState", link)
            except Unsupported:
                break
            except Unanswered:
                continue
            links.append(link)
        return links

    def _is_up(self, link: int) -> bool:
        return bool(self._device.call_or_none("nvmlDeviceGetNvLinkState", link) == 1)


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


Values: TypeAlias = dict[str, Any]  # fields of GpuSample
UNITS: dict[str, Callable[[Any], float]] = {  # from NVML's unit to ours
    "percent": lambda value: value / 100,
    "milli": lambda value: value / 1000,
    "nano": lambda value: value / 1_000_000_000,
    "mega": lambda value: value * 1_000_000,
    "mebi": lambda value: value * (1 << 20),
    "int": int,
    "float": float,
    "bool": bool,
}


class Queries:
    """The queries that one GPU supports, of those of some groups."""

    def __init__(self, device: Device, *groups: str) -> None:
        self._device = device
        known = []
        for query in (query for group in groups for query in nvml_names()["queries"][group]):
            arguments = [device.driver.constant(name) for name in query.get("arguments", ())]
            if None not in arguments:
                known.append((query, arguments))
        self._alternatives = [list(group) for _, group in groupby(known, key=lambda pair: tuple(pair[0]["fields"]))]

    def read(self) -> Values:
        """Current values: None where there is no answer now, no field where the GPU never answers."""
        found: Values = {}
        for alternatives in self._alternatives:
            self._read_first(alternatives, found)
        return found

    def _read_first(self, alternatives: list[tuple[dict[str, Any], list[Any]]], found: Values) -> None:
        while alternatives:
            query, arguments = alternatives[0]
            try:
                answer = self._device.call(query["call"], *arguments)
            except Unsupported:
                alternatives.pop(0)
                continue
            except Unanswered:
                found.update(dict.fromkeys(query["fields"]))
                return
            for (name, unit), raw in zip(query["fields"].items(), _parts(query, answer), strict=True):
                found[name] = self._device.driver.clean(name, raw, UNITS[unit])
            return


def _parts(query: Mapping[str, Any], answer: Any) -> Iterable[Any]:
    if "parts" not in query:
        return (answer,)
    return [getattr(answer, part) if isinstance(part, str) else answer[part] for part in query["parts"]]


class FieldValue(NamedTuple):
    raw: float
    at_us: int  # the driver's wall clock


# NVML's value types, in its order.
VALUE_OF_TYPE = dict(enumerate(("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")))


class FieldQueries:
    """Many values in one call, by NVML's field numbers. Fields that a GPU does not have are queried once."""

    def __init__(self, device: Device, wanted: Mapping[Any, tuple[str, int]]) -> None:
        """Wanted fields by our key: the name of NVML's number, and the scope, such as a link."""
        self._device = device
        numbers = {key: (device.driver.constant(name), scope) for key, (name, scope) in wanted.items()}
        self._left = {key: field for key, field in numbers.items() if field[0] is not None}

    def read(self) -> dict[Any, FieldValue]:
        if not self._left:
            return {}
        try:
            answers = self._device.call("nvmlDeviceGetFieldValues", list(self._left.values()))
        except Unsupported:
            self._left = {}
            return {}
        except Unanswered:
            return {}
        found = {}
        for key, answer in zip(list(self._left), answers, strict=True):
            if answer.nvmlReturn == 0:
                value = getattr(answer.value, VALUE_OF_TYPE.get(answer.valueType, "ullVal"))
                found[key] = FieldValue(value, answer.timestamp)
            elif self._device.driver.is_unsupported(answer.nvmlReturn):
                del self._left[key]
        return found
