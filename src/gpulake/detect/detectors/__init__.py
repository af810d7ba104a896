"""One file a detector. It scores a series, each point by what came before it."""

from __future__ import annotations

from collections.abc import Callable

from gpulake.core.registry import Registry
from gpulake.detect.series import Detector

DETECTORS: Registry[Callable[..., Detector]] = Registry("detector", "gpulake.detect.detectors")
DEFAULT = "surprise"
