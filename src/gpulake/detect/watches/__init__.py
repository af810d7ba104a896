"""One file a watch: which series of the lake's tables a detector scores, and how its alarms are described."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from gpulake.core.registry import Registry
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.series import Detector, Scores, Series

Read = Callable[[str], pa.Table]  # runs a query on the build: Staging.read or LakeReader.query
# The job that holds a GPU, in silver_gpu_samples; null where a process, several jobs or nothing known does.
HOLDER = "CASE WHEN owner_kind IN ('slurm', 'pod', 'container', 'trace') THEN owner_id END"


class Watch(Protocol):
    @property
    def tables(self) -> tuple[str, ...]:
        """What it reads. A watch with a missing or empty table is skipped."""
        ...

    @property
    def detector(self) -> Detector: ...

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        """Every series, or that of one subject."""
        ...

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        """What an alarm means; None where it is not worth a person's time."""
        ...


def about(name: str) -> str:
    """The first line of the docstring of a watch's file."""
    module = sys.modules.get(f"{__name__}.{name}") or sys.modules[type(WATCHES.get(name)()).__module__]
    return (module.__doc__ or "").strip().partition("\n")[0]


WATCHES: Registry[Callable[[], Watch]] = Registry("watch", "gpulake.detect.watches")
