"""A GPU that draws far less power than those beside it although it counts as busy: it waits, or is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.straggler import Straggler
from gpulake.detect.peers import SAMPLES, apart, beside_each_other
from gpulake.detect.series import Detector, Scores
from gpulake.detect.telling import when
from gpulake.detect.watches import WATCHES, Read, Watched

LEAST_SECONDS = 120.0
WEAKER = Straggler(side="low", least_difference=0.25)


@WATCHES.register("weak_gpus")
@dataclass(frozen=True)
class WeakGpus:
    tables: tuple[str, ...] = (SAMPLES,)
    detector: Detector = WEAKER

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        return beside_each_other(read, "power_watts", "W", WEAKER, subject)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = apart(watched, scores, alarm)
        if seen.seconds < LEAST_SECONDS:
            return None
        name = seen.named(watched.series.subject)
        return Finding(
            kind="weak_gpu",
            subject=name,
            headline=f"{name} draws {seen.value:.0f} W, where the GPUs beside it draw {seen.rest:.0f} W",
            detail=f"{when(watched.series, alarm)}, while it counts as busy as they do",
            value=seen.value,
            unit="W",
            severity="warning",
            remedy="see whether its rank waits for others (a hang spins at full utilisation), then its power limit",
        )
