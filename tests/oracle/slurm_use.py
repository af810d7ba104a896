"""docs/slurm.md, "What a job used": steps of a run that were measured, or a summary of jobstats, and what they tell."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from oracle import making


@dataclass(frozen=True)
class Step:
    name: str
    began: int
    ended: int
    percent: int | None  # of each of the run's GPUs; None: it was not measured


@dataclass(frozen=True)
class Use:
    """Either steps, or the utilisation in percent of each GPU by node."""

    steps: tuple[Step, ...] = ()
    gpus_by_node: dict[str, list[int]] | None = None

    def gpus_on(self, node: str, gpus: int, nodes: Sequence[str]) -> float:
        return gpus / len(nodes) if self.gpus_by_node is None else float(len(self.gpus_by_node[node]))

    def used_on(self, node: str, gpus: int, nodes: Sequence[str], began: int, ended: int) -> float | None:
        """GPUs used on the node, the mean over the life of the run; None: nobody measured it."""
        if self.gpus_by_node is not None:
            return sum(self.gpus_by_node[node]) / 100
        if all(step.percent is None for step in self.steps):
            return None
        cuts = sorted({began, ended, *(moment for step in self.steps for moment in (step.began, step.ended))})
        busy = 0.0
        for since, until in pairwise(cuts):
            percents = [step.percent or 0 for step in self.steps if step.began <= since and until <= step.ended]
            # Steps that run at the same time add up, to no more than the GPUs of the node.
            busy += (until - since) * min(1.0, sum(percents) / 100)
        return busy / (ended - began) * gpus / len(nodes)

    def comment(self) -> str:
        """AdminComment as jobstats leaves it."""
        if self.gpus_by_node is None:
            return ""
        nodes = {
            node: {"gpu_utilization": {str(number): percent for number, percent in enumerate(percents)}}
            for node, percents in self.gpus_by_node.items()
        }
        text = json.dumps({"nodes": nodes, "gpus": sum(map(len, self.gpus_by_node.values()))})
        return "JS1:" + base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def make_use(rng: Random, zone: str, gpus: int, nodes: Sequence[str], began: int, ended: int) -> Use:
    kind = rng.random()
    share = making.share_of_use(rng)
    percent = None if share is None else min(100, round(100 * share))
    if kind < 0.2 and gpus >= len(nodes):
        return Use(gpus_by_node=_spread(rng, gpus, nodes))
    if kind < 0.5 and ended - began > 60:
        first, second = sorted((rng.randint(began + 1, ended - 1), rng.randint(began + 1, ended - 1)))
        if not making.is_twice(first, zone) and not making.is_twice(second, zone):
            other = rng.choice((None, 0, 30, 80))
            # One after the other, or the second within the first.
            last = rng.choice((ended, second))
            return Use((Step("batch", began, max(first, second), percent), Step("0", first, last, other)))
    return Use((Step("batch", began, ended, percent),))


def _spread(rng: Random, gpus: int, nodes: Sequence[str]) -> dict[str, list[int]]:
    """At least one GPU on each node, the others anywhere."""
    found = {node: [rng.randint(0, 100)] for node in nodes}
    for _ in range(gpus - len(nodes)):
        found[rng.choice(list(nodes))].append(rng.randint(0, 100))
    return found
