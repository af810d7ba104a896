"""A GPU far hotter than those beside it that work as hard: dust, a fan, paste, a blocked slot."""

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

LEAST_CELSIUS = 8.0
LEAST_SECONDS = 60.0
HOTTER = Straggler(side="high")


@WATCHES.register("hot_gpus")
@dataclass(frozen=True)
class HotGpus:
    tables: tuple[str, ...] = (SAMPLES,)
    detector: Detector = HOTTER

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        return beside_each_other(read, "temperature_celsius", "°C", HOTTER, subject)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = apart(watched, scores, alarm)
        if seen.value - seen.rest < LEAST_CELSIUS or seen.seconds < LEAST_SECONDS:
            return None
        name = seen.named(watched.series.subject)
        return Finding(
            kind="hot_gpu",
            subject=name,
            headline=f"{name} is at {seen.value:.0f} °C, where the GPUs beside it are at {seen.rest:.0f} °C",
            detail=f"{when(watched.series, alarm)}; only GPUs that work are compared",
            value=seen.value,
            unit="°C",
            severity="warning",
            remedy="see whether its clocks are held back; clean or reseat it, and look at the fan and air of its slot",
        )
