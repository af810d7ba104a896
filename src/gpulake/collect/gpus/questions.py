"""What is asked of a GPU: the call, which of its values are taken, and the fields of GpuSample that they become.

A question that a GPU cannot answer is replaced by the next of its list, and left out after the last.
nvmlDeviceGetPcieThroughput is not here: it measures for 20 ms while the caller waits. GPM says the same for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Question(NamedTuple):
    call: str
    arguments: tuple[str, ...]  # names of NVML's constants
    take: Callable[[Any], tuple[int, ...]]
    fields: tuple[tuple[str, Callable[[int], float]], ...]  # name, and from NVML's unit to ours


def same(value: int) -> int:
    return value


def percent(value: float) -> float:
    return value / 100


def milli(value: int) -> float:
    return value / 1000


def nano(value: int) -> float:
    return value / 1_000_000_000


def mega(value: int) -> int:
    return value * 1_000_000


def mebi(value: float) -> float:
    return value * 1048576


def flag(value: int) -> bool:
    return bool(value)


def only(value: int) -> tuple[int]:
    return (value,)


def first(values: list[int]) -> tuple[int]:
    return (values[0],)


def _memory(call_arguments: tuple[str, ...] = ()) -> Question:
    return Question(
        "nvmlDeviceGetMemoryInfo",
        call_arguments,
        lambda memory: (memory.used, memory.total),
        (("memory_used_bytes", same), ("memory_total_bytes", same)),
    )


def _one(field: str, unit: Callable[[int], float], call: str, *arguments: str) -> Question:
    return Question(call, arguments, only, ((field, unit),))


def _ecc(field: str, error: str, counter: str) -> tuple[Question]:
    kind = f"NVML_MEMORY_ERROR_TYPE_{error}"
    return (_one(field, same, "nvmlDeviceGetTotalEccErrors", kind, f"NVML_{counter}_ECC"),)


# The second form counts what the system reserved for itself as free of use, as nvidia-smi does; the first as used.
MEMORY = (_memory(("nvmlMemory_v2",)), _memory())

# At every sample.
QUICK: tuple[tuple[Question, ...], ...] = (
    (
        Question(
            "nvmlDeviceGetUtilizationRates",
            (),
            lambda rates: (rates.gpu, rates.memory),
            (("gpu_busy_ratio", percent), ("memory_busy_ratio", percent)),
        ),
    ),
    MEMORY,
    (_one("power_watts", milli, "nvmlDeviceGetPowerUsage"),),
    (
        _one("temperature_celsius", float, "nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        _one("temperature_celsius", float, "nvmlDeviceGetTemperatureV", "NVML_TEMPERATURE_GPU"),
    ),
    (_one("sm_clock_hertz", mega, "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),),
    (_one("memory_clock_hertz", mega, "nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),),
    (
        _one("clock_event_reasons", same, "nvmlDeviceGetCurrentClocksEventReasons"),
        _one("clock_event_reasons", same, "nvmlDeviceGetCurrentClocksThrottleReasons"),
    ),
)

# Every second: they take milliseconds (on an H200 energy 5, violations 2, and the rest at most 0.1).
STEADY: tuple[tuple[Question, ...], ...] = (
    (_one("energy_joules_total", milli, "nvmlDeviceGetTotalEnergyConsumption"),),
)

# Every few seconds: they change seldom or cost more. The last answer stands in between.
SLOW: tuple[tuple[Question, ...], ...] = (
    (Question("nvmlDeviceGetEncoderUtilization", (), first, (("encoder_busy_ratio", percent),)),),
    (Question("nvmlDeviceGetDecoderUtilization", (), first, (("decoder_busy_ratio", percent),)),),
    (_one("power_limit_watts", milli, "nvmlDeviceGetEnforcedPowerLimit"),),
    (
        _one(
            "slowdown_temperature_celsius",
            float,
            "nvmlDeviceGetTemperatureThreshold",
            "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN",
        ),
    ),
    _ecc("ecc_corrected_total", "CORRECTED", "VOLATILE"),
    _ecc("ecc_uncorrected_total", "UNCORRECTED", "VOLATILE"),
    _ecc("ecc_corrected_lifetime_total", "CORRECTED", "AGGREGATE"),
    _ecc("ecc_uncorrected_lifetime_total", "UNCORRECTED", "AGGREGATE"),
    (
        Question(
            "nvmlDeviceGetRemappedRows",
            (),
            tuple,
            (
                ("remapped_rows_correctable", same),
                ("remapped_rows_uncorrectable", same),
                ("has_remap_pending", flag),
                ("has_remap_failure", flag),
            ),
        ),
    ),
    (_one("pcie_replays_total", same, "nvmlDeviceGetPcieReplayCounter"),),
    (_one("pcie_link_generation", same, "nvmlDeviceGetCurrPcieLinkGeneration"),),
    (_one("pcie_link_width", same, "nvmlDeviceGetCurrPcieLinkWidth"),),
)
