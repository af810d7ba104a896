"""A GPU that draws far less power than the other busy GPUs of its node: it waits, or is broken."""

from __future__ import annotations

from functools import partial

from gpulake.detect.detectors.straggler import Straggler
from gpulake.detect.peers import PeerWatch
from gpulake.detect.watches import WATCHES

WATCHES.register("weak_gpus")(
    partial(
        PeerWatch,
        Straggler(side="low", least_difference=0.25),
        column="power_watts",
        unit="W",
        kind="weak_gpu",
        headline="{name} draws {value:.0f} W, where the GPUs beside it draw {rest:.0f} W",
        detail=", while it counts as busy as they do",
        remedy="see whether its rank waits for others (a hang spins at full utilisation), then its power limit",
        least_seconds=120.0,
    )
)
