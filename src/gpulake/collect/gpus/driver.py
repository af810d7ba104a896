"""All calls to NVML: the call in progress is noted in shared memory, an answer is a value or one of three exceptions,
and impossible values are dropped and counted."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpulake.core.packaged import packaged_toml
from gpulake.formats.plausible import is_plausible

NOTE_BYTES = 256


def nvml_names() -> dict[str, Any]:
    return packaged_toml("gpulake.collect.gpus", "nvml.toml")


class Unsupported(Exception):  # noqa: N818 - an answer, not an error
    """The device does not support the call; a retry is of no use."""


class Unanswered(Exception):  # noqa: N818 - an answer, not an error
    """No answer now: nothing new, not ready, or a transient error."""


class LostGpu(Exception):  # noqa: N818 - an answer, not an error
    """The driver cannot reach the GPU any more."""


class Note:
    """The call into the driver that the worker made last. It is shared memory: writing costs no system call, and the
    parent can read it when the worker hangs or has died."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, NOTE_BYTES)

    @staticmethod
    def create() -> int:
        """The descriptor of an empty note, to be passed to a child."""
        descriptor = os.memfd_create("gpulake-gpu-note")
        os.ftruncate(descriptor, NOTE_BYTES)
        return descriptor

    def write(self, text: str) -> None:
        self._memory[:] = text.encode("ascii", "replace")[:NOTE_BYTES].ljust(NOTE_BYTES, b"\0")

    def read(self) -> str:
        return self._memory[:].rstrip(b"\0").decode("ascii", "replace")

    def close(self) -> None:
        self._memory.close()


class Driver:
    """NVML with its errors sorted. `nvml` is the module pynvml or one like it."""

    def __init__(self, nvml: Any, note: Callable[[str], None]) -> None:
        self.nvml = nvml
        self.values_dropped = 0
        self.refused: set[str] = set()  # calls that need more permission
        self.note = note
        self._unsupported, self._lost = (
            frozenset(code for name in names if (code := self.constant(name)) is not None)
            for names in (nvml_names()["unsupported"], nvml_names()["lost"])
        )

    def call(self, name: str, subject: str, *arguments: Any) -> Any:
        """One call; the subject is only for the note."""
        function = getattr(self.nvml, name, None)
        if function is None:
            raise Unsupported(name)
        self.note(f"{name} {subject}".rstrip())
        try:
            return function(*arguments)
        except self.nvml.NVMLLibraryMismatchError as error:
            raise Unsupported(name) from error
        except self.nvml.NVMLError as error:
            raise self._exception(name, error) from error
        except UnicodeDecodeError as error:  # the answer is not text
            raise Unanswered(name) from error

    def call_or_none(self, name: str, subject: str, *arguments: Any) -> Any:
        """The same; None where the call is unsupported or unanswered."""
        try:
            return self.call(name, subject, *arguments)
        except (Unsupported, Unanswered):
            return None

    def is_unsupported(self, code: int) -> bool:
        return code in self._unsupported

    def constant(self, name: str) -> Any:
        """A constant of NVML by name; None if this binding is older than the constant."""
        return getattr(self.nvml, name, None)

    def clean(self, name: str, raw: float | None, unit: Callable[[Any], Any]) -> Any:
        """The value in our unit; None, and counted, if it is impossible. Blanks are recognised before conversion."""
        if raw is None:
            return None
        value = unit(raw)
        if is_plausible("", raw) and is_plausible(name, value):
            return value
        self.values_dropped += 1
        return None

    def _exception(self, name: str, error: Any) -> Exception:
        if error.value in self._lost:
            return LostGpu(str(error))
        if self.is_unsupported(error.value):
            if error.value == self.constant("NVML_ERROR_NO_PERMISSION"):
                self.refused.add(name)
            return Unsupported(name)
        if error.value == self.constant("NVML_ERROR_UNINITIALIZED"):
            return RuntimeError("the driver was closed under the worker")
        return Unanswered(f"{name}: {error}")


@dataclass(frozen=True)
class Device:
    """A GPU or MIG instance; `bus` is the PCI address of the GPU."""

    driver: Driver
    handle: Any
    bus: str

    def call(self, name: str, *arguments: Any) -> Any:
        return self.driver.call(name, self.bus, self.handle, *arguments)

    def call_or_none(self, name: str, *arguments: Any) -> Any:
        return self.driver.call_or_none(name, self.bus, self.handle, *arguments)
