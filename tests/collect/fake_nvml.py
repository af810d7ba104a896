"""A driver for tests: pynvml's names, structures and errors, with answers from a scene instead of a GPU.

A scene is plain data, so that it can be a JSON file: FAKE_NVML names it for a worker. What it does not say is not
supported. A device's answers are by call, and by call and arguments where they matter ("nvmlDeviceGetClockInfo 1");
{"error": "GpuIsLost"} is an answer that fails. Three files, named in the scene, make it go wrong while they exist:
"hang" (calls for power do not return, and "hanging" is made), "crash" (the process dies of SIGSEGV), "lost" (the first
GPU is lost).
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

VALUES = {int: ("ullVal", pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG), float: ("dVal", pynvml.NVML_VALUE_TYPE_DOUBLE)}


class Fake:
    """Stands in for the module pynvml. Constants, structures and errors are those of the real one."""

    def __init__(self, scene: Mapping[str, Any]) -> None:
        self.scene = scene
        self.calls: list[str] = []
        self._events = list(scene.get("events", []))
        self._reads: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(pynvml, name)  # a name that pynvml does not have is a mistake of ours
        if not name.startswith("nvml") or not callable(real) or isinstance(real, type):
            return real

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            self._go_wrong(name)
            own: Callable[..., Any] | None = getattr(type(self), f"_{name}", None)
            return own(self, *arguments) if own else self._answer(name, *arguments)

        return call

    def _go_wrong(self, name: str) -> None:
        if self._exists("crash"):
            os.kill(os.getpid(), signal.SIGSEGV)
        if self._exists("hang") and name == "nvmlDeviceGetPowerUsage":
            Path(self.scene["hanging"]).touch()
            while self._exists("hang"):
                time.sleep(0.005)

    def _exists(self, what: str) -> bool:
        return what in self.scene and Path(self.scene[what]).exists()

    def _answer(self, name: str, device: Mapping[str, Any], *arguments: Any) -> Any:
        if self._exists("lost") and device is self.scene["devices"][0]:
            raise _error("GpuIsLost")
        answers = device["answers"]
        answer = answers.get(" ".join([name, *map(str, arguments)]), answers.get(name))
        if answer is None:
            raise _error("NotSupported")
        if isinstance(answer, dict) and "series" in answer:
            turn = self._reads[name] = self._reads.get(name, -1) + 1
            answer = answer["series"][min(turn, len(answer["series"]) - 1)]
        if isinstance(answer, dict) and "error" in answer:
            raise _error(answer["error"])
        return _structure(answer)

    def _nvmlInit(self) -> None:  # noqa: N802
        if "init" in self.scene:
            raise _error(self.scene["init"])

    def _nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def _nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.scene["devices"])

    def _nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
        device = self.scene["devices"][index]
        if "open" in device:
            raise _error(device["open"])
        return device

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, device: Mapping[str, Any], place: int) -> Any:  # noqa: N802
        instance = device["instances"][place]
        if instance is None:
            raise _error("NotFound")
        return instance

    def _nvmlDeviceGetFieldValues(self, device: Mapping[str, Any], wanted: list[tuple[int, int]]) -> Any:  # noqa: N802
        values = (pynvml.c_nvmlFieldValue_t * len(wanted))()
        for value, (number, scope) in zip(values, wanted, strict=True):
            series = device.get("fields", {}).get(f"{number} {scope}")
            value.fieldId, value.scopeId = number, scope
            if series is None:
                value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
                continue
            turn = self._reads[f"{number} {scope}"] = self._reads.get(f"{number} {scope}", -1) + 1
            answer = series[min(turn, len(series) - 1)]
            name, value.valueType = VALUES[type(answer)]
            setattr(value.value, name, answer)
            value.timestamp = 1_000_000 * turn
        return values

    def _nvmlGpmQueryDeviceSupport(self, device: Mapping[str, Any]) -> Any:  # noqa: N802
        return SimpleNamespace(isSupportedDevice=int("gpm" in device))

    def _nvmlGpmSampleAlloc(self) -> Any:  # noqa: N802
        return pynvml.c_nvmlGpmSample_t(pynvml.struct_c_nvmlGpmSample_t())

    def _nvmlGpmSampleFree(self, sample: Any) -> None:  # noqa: N802
        pass

    def _nvmlGpmSampleGet(self, device: Mapping[str, Any], sample: Any) -> None:  # noqa: N802, ARG002
        self._gpm = device["gpm"]

    def _nvmlGpmMigSampleGet(self, device: Mapping[str, Any], part: int, sample: Any) -> None:  # noqa: N802, ARG002
        self._gpm = device["gpm_of_instance"][str(part)]

    def _nvmlGpmMetricsGet(self, request: Any) -> None:  # noqa: N802
        assert request.version == pynvml.NVML_GPM_METRICS_GET_VERSION
        for metric in request.metrics[: request.numMetrics]:
            answer = self._gpm.get(str(metric.metricId))
            metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED if answer is None else pynvml.NVML_SUCCESS
            metric.value = float(answer or 0.0)

    def _nvmlEventSetCreate(self) -> Any:  # noqa: N802
        return SimpleNamespace()

    def _nvmlEventSetFree(self, events: Any) -> None:  # noqa: N802
        pass

    def _nvmlDeviceRegisterEvents(self, device: Any, types: int, events: Any) -> None:  # noqa: N802
        pass

    def _nvmlEventSetWait_v2(self, events: Any, timeout_ms: int) -> Any:  # noqa: N802, ARG002
        if not self._events:
            raise _error("Timeout")
        event = self._events.pop(0)
        return SimpleNamespace(**{**event, "device": self.scene["devices"][event["device"]]})


def _structure(answer: Any) -> Any:
    if isinstance(answer, dict):
        return SimpleNamespace(**answer)
    return [_structure(part) for part in answer] if isinstance(answer, list) else answer


def _error(name: str) -> Exception:
    words = re.findall("[A-Z][a-z]*", name)
    error: Exception = pynvml.NVMLError(getattr(pynvml, "NVML_ERROR_" + "_".join(words).upper()))
    return error


_fake = (
    Fake(json.loads(Path(os.environ["FAKE_NVML"]).read_text(encoding="utf-8"))) if "FAKE_NVML" in os.environ else None
)


def __getattr__(name: str) -> Any:
    return getattr(_fake, name)
