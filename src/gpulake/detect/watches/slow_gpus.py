"""A GPU whose clocks are far below those of the other busy GPUs of its node: power capped, hot, or broken."""

from __future__ import annotations

from functools import partial

from gpulake.detect.detectors.straggler import Straggler
from gpulake.detect.peers import PeerWatch
from gpulake.detect.watches import WATCHES

WATCHES.register("slow_gpus")(
    partial(
        PeerWatch,
        Straggler(side="low", least_difference=0.1),
        column="sm_clock_hertz",
        unit="Hz",
        kind="slow_gpu",
        headline="{name} runs at {value:,.0f} MHz, where the GPUs beside it run at {rest:,.0f} MHz",
        detail=", while it was busy; a gang waits for its slowest GPU",
        remedy="see why its clocks are held back (nvidia-smi -q -d PERFORMANCE): power, heat or a limit",
        least_seconds=60.0,
        shown_in=1e6,
    )
)
