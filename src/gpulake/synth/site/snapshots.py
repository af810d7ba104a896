"""The site at some moments: what runs, and which nodes are out of service. Hourly, and at every change of a node."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from gpulake.synth.site.plan import HOUR_SECONDS, Outage, Plan
from gpulake.synth.site.schedule import History, Run


@dataclass(frozen=True)
class Snapshot:
    second: int
    alive: list[Run]
    outages: dict[int, Outage]  # by node; a node that is to be drained does not take jobs while its last ones run


def snapshots(plan: Plan, history: History) -> Iterator[Snapshot]:
    site = plan.site
    changes = {second for one in history.outages for second in (one.started_at, one.ended_at)}
    gap = site.snapshot_hours * HOUR_SECONDS
    hourly = range(-(-site.begins_at // gap) * gap, site.ends_at, gap)
    moments = sorted({*hourly, *(second for second in changes if second < site.ends_at), site.ends_at - 1})
    starts = sorted(history.runs, key=lambda run: run.started_at)
    keys = [run.started_at for run in starts]
    alive: list[Run] = []
    done = 0
    for second in moments:
        until = bisect_right(keys, second)
        alive = [run for run in (*alive, *starts[done:until]) if run.ended_at is None or run.ended_at > second]
        done = until
        closing = [one for one in plan.outages if one.state == "DRAIN"]
        out = {one.node: one for one in (*closing, *history.outages) if one.started_at <= second < one.ended_at}
        yield Snapshot(second, alive, out)
