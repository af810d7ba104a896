"""The one door to NVML: every call is noted before it begins, every answer is a value or one of three refusals, and
impossible values are dropped and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulake.formats.plausible import is_plausible

# Answers that stay the same until the driver is opened anew: the question is left out from then on.
REFUSALS = (
    "NVML_ERROR_NOT_SUPPORTED",
    "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_ERROR_INVALID_ARGUMENT",
    "NVML_ERROR_NO_PERMISSION",
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
    "NVML_ERROR_DEPRECATED",
    "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED",
)
LOSSES = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_GPU_NOT_FOUND")


class Unsupported(Exception):  # noqa: N818 - an answer, not an error
    """This device cannot say; asking again is of no use."""


class Unanswered(Exception):  # noqa: N818 - an answer, not an error
    """Not now: nothing new, not ready, or an error of the moment."""


class LostGpu(Exception):  # noqa: N818 - an answer, not an error
    """The driver does not reach the GPU any more."""


class Driver:
    """NVML as it is, less its ways to fail. `nvml` is the module pynvml or one like it."""

    def __init__(self, nvml: Any, note: Callable[[str], None]) -> None:
        self.nvml = nvml
        self.values_dropped = 0
        self.refused: set[str] = set()  # calls that want more permission
        self.note = note
        self._refusals = self._codes(REFUSALS)
        self._losses = self._codes(LOSSES)

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
            raise self._refusal(name, error) from error
        except UnicodeDecodeError as error:  # a text that is none
            raise Unanswered(name) from error

    def is_unsupported(self, code: int) -> bool:
        return code in self._refusals

    def constant(self, name: str) -> Any:
        """A constant of NVML by name; None if this binding is older than the constant."""
        return getattr(self.nvml, name, None)

    def clean(self, name: str, raw: float | None, unit: Callable[[Any], Any]) -> Any:
        """The value in our unit, or None if it cannot be true; that is counted. Blanks are known before conversion."""
        if raw is None:
            return None
        value = unit(raw)
        if is_plausible("", raw) and is_plausible(name, value):
            return value
        self.values_dropped += 1
        return None

    def _refusal(self, name: str, error: Any) -> Exception:
        if error.value in self._losses:
            return LostGpu(str(error))
        if error.value in self._refusals:
            if error.value == self.constant("NVML_ERROR_NO_PERMISSION"):
                self.refused.add(name)
            return Unsupported(name)
        if error.value == self.constant("NVML_ERROR_UNINITIALIZED"):
            return RuntimeError("the driver was closed under the worker")
        return Unanswered(f"{name}: {error}")

    def _codes(self, names: tuple[str, ...]) -> frozenset[int]:
        return frozenset(code for name in names if (code := self.constant(name)) is not None)
