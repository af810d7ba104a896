"""A GPU whose clocks are far below those of the GPUs beside it that work, too: power capped, hot, or broken."""

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

LEAST_SECONDS = 60.0
MEGAHERTZ = 1e6
SLOWER = Straggler(side="low", least_difference=0.1)


@WATCHES.register("slow_gpus")
@dataclass(frozen=True)
class SlowGpus:
    tables: tuple[str, ...] = (SAMPLES,)
    detector: Detector = SLOWER

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        return beside_each_other(read, "sm_clock_hertz", "Hz", SLOWER, subject)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = apart(watched, scores, alarm)
        if seen.seconds < LEAST_SECONDS:
            return None
        name = seen.named(watched.series.subject)
        return Finding(
            kind="slow_gpu",
            subject=name,
            headline=(
                f"{name} runs at {seen.value / MEGAHERTZ:,.0f} MHz, "
                f"where the GPUs beside it run at {seen.rest / MEGAHERTZ:,.0f} MHz"
            ),
            detail=f"{when(watched.series, alarm)}, while it worked; a gang waits for its slowest GPU",
            value=seen.value,
            unit="Hz",
            severity="warning",
            remedy="see why its clocks are held back (nvidia-smi -q -d PERFORMANCE): power, heat or a limit",
        )
