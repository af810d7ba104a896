"""A GPU far hotter than the other busy GPUs of its node: dust, a fan, paste, a blocked slot."""

from __future__ import annotations

from functools import partial

from gpulake.detect.detectors.straggler import Straggler
from gpulake.detect.peers import PeerWatch
from gpulake.detect.watches import WATCHES

WATCHES.register("hot_gpus")(
    partial(
        PeerWatch,
        Straggler(side="high"),
        column="temperature_celsius",
        unit="°C",
        kind="hot_gpu",
        headline="{name} is at {value:.0f} °C, where the GPUs beside it are at {rest:.0f} °C",
        detail="; only busy GPUs are compared",
        remedy="see whether its clocks are held back; clean or reseat it, and look at the fan and air of its slot",
        least_seconds=60.0,
        least_difference=8.0,
    )
)
