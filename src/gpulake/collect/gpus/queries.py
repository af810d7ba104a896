"""Queries of one GPU: nvml.toml lists them, with the fields of GpuSample that their answers become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from gpulake.collect.gpus.driver import Device, Unanswered, Unsupported, nvml_names

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
