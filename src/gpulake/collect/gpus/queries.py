"""What is queried of a GPU: the call, which of its values are taken, and the fields of GpuSample that they become.

Queries for the same fields are alternatives: the first that a GPU supports is used; unsupported ones are dropped.
nvmlDeviceGetPcieThroughput is not here: it measures for 20 ms while the caller waits. GPM returns the same for free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from gpulake.collect.gpus.driver import Driver, Unanswered, Unsupported

Values: TypeAlias = dict[str, Any]  # fields of GpuSample
Unit: TypeAlias = Callable[[Any], float]  # from NVML's unit to ours


class Query(NamedTuple):
    call: str
    units: Mapping[str, Unit]  # by field, in the order of the values
    arguments: tuple[str, ...] = ()  # names of NVML's constants
    values: Callable[[Any], Iterable[int]] = lambda answer: (answer,)


def _per(divisor: int) -> Unit:
    return lambda value: value / divisor


def _times(factor: int) -> Unit:
    return lambda value: value * factor


percent, milli, nano = _per(100), _per(1000), _per(1_000_000_000)
mega, mebi = _times(1_000_000), _times(1 << 20)


def _one(field: str, unit: Unit, call: str, *arguments: str) -> Query:
    return Query(call, {field: unit}, arguments)


def _ecc(field: str, error: str, counter: str) -> Query:
    kind = f"NVML_MEMORY_ERROR_TYPE_{error}"
    return _one(field, int, "nvmlDeviceGetTotalEccErrors", kind, f"NVML_{counter}_ECC")


# The second version counts memory that the driver reserves as unused, as nvidia-smi does; the first counts it as used.
MEMORY = tuple(
    Query(
        "nvmlDeviceGetMemoryInfo",
        {"memory_used_bytes": int, "memory_total_bytes": int},
        version,
        lambda memory: (memory.used, memory.total),
    )
    for version in (("nvmlMemory_v2",), ())
)

# At every sample.
QUICK = (
    Query(
        "nvmlDeviceGetUtilizationRates",
        {"gpu_busy_ratio": percent, "memory_busy_ratio": percent},
        values=lambda rates: (rates.gpu, rates.memory),
    ),
    *MEMORY,
    _one("power_watts", milli, "nvmlDeviceGetPowerUsage"),
    _one("temperature_celsius", float, "nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
    _one("temperature_celsius", float, "nvmlDeviceGetTemperatureV", "NVML_TEMPERATURE_GPU"),
    _one("sm_clock_hertz", mega, "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
    _one("memory_clock_hertz", mega, "nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
    _one("clock_event_reasons", int, "nvmlDeviceGetCurrentClocksEventReasons"),
    _one("clock_event_reasons", int, "nvmlDeviceGetCurrentClocksThrottleReasons"),
)
# Every second: they take milliseconds (on an H200 energy 5, violations 2, and the rest at most 0.1).
STEADY = (_one("energy_joules_total", milli, "nvmlDeviceGetTotalEnergyConsumption"),)
# Every few seconds: they change rarely or cost more. The last answer is repeated in between.
SLOW = (
    Query("nvmlDeviceGetEncoderUtilization", {"encoder_busy_ratio": percent}, values=lambda answer: answer[:1]),
    Query("nvmlDeviceGetDecoderUtilization", {"decoder_busy_ratio": percent}, values=lambda answer: answer[:1]),
    _one("power_limit_watts", milli, "nvmlDeviceGetEnforcedPowerLimit"),
    _one(
        "slowdown_temperature_celsius",
        float,
        "nvmlDeviceGetTemperatureThreshold",
        "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN",
    ),
    _ecc("ecc_corrected_total", "CORRECTED", "VOLATILE"),
    _ecc("ecc_uncorrected_total", "UNCORRECTED", "VOLATILE"),
    _ecc("ecc_corrected_lifetime_total", "CORRECTED", "AGGREGATE"),
    _ecc("ecc_uncorrected_lifetime_total", "UNCORRECTED", "AGGREGATE"),
    Query(
        "nvmlDeviceGetRemappedRows",
        {
            "remapped_rows_correctable": int,
            "remapped_rows_uncorrectable": int,
            "has_remap_pending": bool,
            "has_remap_failure": bool,
        },
        values=tuple,
    ),
    _one("pcie_replays_total", int, "nvmlDeviceGetPcieReplayCounter"),
    _one("pcie_link_generation", int, "nvmlDeviceGetCurrPcieLinkGeneration"),
    _one("pcie_link_width", int, "nvmlDeviceGetCurrPcieLinkWidth"),
)


class Queries:
    """The queries that one GPU supports, of those given."""

    def __init__(self, driver: Driver, handle: Any, subject: str, queries: Iterable[Query]) -> None:
        self._driver = driver
        self._handle = handle
        self._subject = subject
        known = []
        for query in queries:
            arguments = tuple(driver.constant(name) for name in query.arguments)
            if None not in arguments:
                known.append((query, arguments))
        self._alternatives = [list(group) for _, group in groupby(known, key=lambda pair: tuple(pair[0].units))]

    def read(self) -> Values:
        """Current values: None where there is no answer now, no field where the GPU never answers."""
        found: Values = {}
        for alternatives in self._alternatives:
            self._read_first(alternatives, found)
        return found

    def _read_first(self, alternatives: list[tuple[Query, tuple[Any, ...]]], found: Values) -> None:
        while alternatives:
            query, arguments = alternatives[0]
            try:
                answer = self._driver.call(query.call, self._subject, self._handle, *arguments)
            except Unsupported:
                alternatives.pop(0)
                continue
            except Unanswered:
                found.update(dict.fromkeys(query.units))
                return
            for (name, unit), raw in zip(query.units.items(), query.values(answer), strict=True):
                found[name] = self._driver.clean(name, raw, unit)
            return


class FieldValue(NamedTuple):
    raw: float
    at_us: int  # the driver's wall clock


# NVML's value types, in its order.
VALUE_OF_TYPE = dict(enumerate(("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")))


class FieldQueries:
    """Many values in one call, by NVML's field numbers. Fields that a GPU does not have are queried once."""

    def __init__(self, driver: Driver, handle: Any, subject: str, wanted: Mapping[Any, tuple[str, int]]) -> None:
        """Wanted fields by our key: the name of NVML's number, and the scope, such as a link."""
        self._driver = driver
        self._handle = handle
        self._subject = subject
        numbers = {key: (driver.constant(name), scope) for key, (name, scope) in wanted.items()}
        self._left = {key: field for key, field in numbers.items() if field[0] is not None}

    def read(self) -> dict[Any, FieldValue]:
        if not self._left:
            return {}
        try:
            answers = self._driver.call(
                "nvmlDeviceGetFieldValues", self._subject, self._handle, list(self._left.values())
            )
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
            elif self._driver.is_unsupported(answer.nvmlReturn):
                del self._left[key]
        return found
