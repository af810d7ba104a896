"""GPU samples of some clusters: who holds a GPU they do not say, only that its memory is in use or not."""

from __future__ import annotations

from pathlib import Path
from random import Random

from oracle.facts import HOUR, Facts, Sampled

STEP = 600
LEAST_EXCESS = 0.05
MODEL = "NVIDIA Sample"


def add_samples(facts: Facts) -> None:
    """Of half of the clusters, most machines that an inventory or a job names."""
    rng = Random(f"samples {facts.seed} {facts.cluster}")
    if rng.random() < 0.5:
        return
    at_work = [one for one in facts.attempts if one.status != "waiting" and one.began is not None]
    known = {one.machine for one in at_work if one.machine is not None} if facts.has_placement else set()
    moments = [moment for one in at_work for moment in (one.began, one.ended) if moment is not None]
    for machine in sorted(known | set(facts.machines)):
        if not moments or rng.random() < 0.2:
            continue
        first = rng.randint(min(moments), max(moments))
        count = rng.randint(1, 24 * HOUR // STEP)
        facts.sampled[machine] = Sampled(first, count, [_spread(rng, count) for _ in range(rng.choice((1, 2, 4)))])


def _spread(rng: Random, count: int) -> list[bool]:
    """Whether the GPU is in use at each sample, for some samples in a row."""
    found: list[bool] = []
    while len(found) < count:
        found += [rng.random() < 0.5] * rng.randint(1, 30)
    return found[:count]


def write_samples(every: list[Facts], folder: Path) -> None:
    for facts in every:
        for machine, sampled in facts.sampled.items():
            lines = [
                f'DCGM_FI_DEV_FB_USED{{gpu="{gpu}",UUID="{machine}-{gpu}",Hostname="{machine}",modelName="{MODEL}"}}'
                f" {4096 if is_used else 3} {(sampled.first + STEP * number) * 1000}\n"
                for gpu, uses in enumerate(sampled.uses)
                for number, is_used in enumerate(uses)
            ]
            (folder / f"{machine}.prom").write_text("".join(lines))


def sample_spans(sampled: Sampled) -> list[tuple[int, int, bool]]:
    """Begin and end of what each sample covers, and whether the GPU was in use; the last covers no time."""
    return [
        (sampled.first + STEP * number, sampled.first + STEP * min(number + 1, sampled.count - 1), is_used)
        for uses in sampled.uses
        for number, is_used in enumerate(uses)
    ]


def in_use_hours(sampled: Sampled, since: int, until: int) -> float:
    spans = [(first, last) for first, last, is_used in sample_spans(sampled) if is_used]
    return sum(max(0, min(last, until) - max(first, since)) for first, last in spans) / HOUR


def held_when_sampled_hours(sampled: Sampled, held: list[tuple[float, int, int]], since: int, until: int) -> float:
    """GPU-hours that jobs held at the moments of the samples, each for the time that it covers. `held` has GPUs, first
    and last second. All GPUs are sampled at the same moments, so that one of them tells."""
    spans = sample_spans(sampled)[: sampled.count]
    return sum(
        gpus * max(0, min(last, until) - max(first, since)) / HOUR
        for first, last, _ in spans
        for gpus, began, ended in held
        if began <= first < ended
    )


def seen_hours(sampled: Sampled) -> list[tuple[int, int]]:
    """Hours in which a sample was taken: the machine was up."""
    numbers = {(sampled.first + STEP * number) // HOUR for number in range(sampled.count)}
    return [(number * HOUR, (number + 1) * HOUR) for number in sorted(numbers)]
