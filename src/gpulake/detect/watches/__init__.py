"""One file a watch: which series of the lake's tables a detector looks at, and what its alarms mean to a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from gpulake.core.registry import Registry
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.series import Detector, Scores, Series

Read = Callable[[str], pa.Table]  # one query of the build; Staging.read and LakeReader.query are such


@dataclass(frozen=True)
class Watched:
    """A series, and whom it is about."""

    series: Series
    unit: str = ""
    cluster_id: str | None = None
    node: str | None = None
    job_id: str | None = None


class Watch(Protocol):
    @property
    def tables(self) -> tuple[str, ...]:
        """What it reads: without one of them, or with none of its rows, it sees nothing."""
        ...

    @property
    def detector(self) -> Detector: ...

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        """Every series, or that of one subject."""
        ...

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        """What an alarm means; nothing where it is not worth a person's time."""
        ...


WATCHES: Registry[Callable[[], Watch]] = Registry("watch", "gpulake.detect.watches")
