"""The time and the nodes of a run, as its log and its samples have them in common, and what samples say of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, pairwise
from statistics import median

from gpulake.core.diagnosis import Diagnosis, Recovery
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry.samples import GpuSample, HostSample, NodeEvent, Samples, Window

BEFORE_SECONDS = 300.0
AFTER_SECONDS = 1800.0  # a hang is seen after the last line
MOST_SHIFT_HOURS = 14
SLACK_SECONDS = 5.0  # between the clock of a log and that of a sampler; and for what a buffer held back
GAP_SECONDS = 5.0  # between two jobs, at least
UUID_CHARACTERS = len("GPU-01234567")  # distinguish the GPUs of a machine
HELD_RATIO = 0.01  # of a GPU's memory: less is what the driver takes
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F]{8}-")


@dataclass(frozen=True)
class Scene:
    samples: Samples  # of the nodes of the run
    others: Samples  # of all nodes that were sampled
    began: float  # seconds of the epoch
    ended: float  # the last time in the log
    is_timed: bool  # by the log; else by the samples themselves
    is_named: bool = True  # the log names these nodes, or there is only one

    def gpus(self, since: float, until: float) -> Iterator[tuple[str, list[GpuSample]]]:
        """Samples in this time, by the name that a sentence gives their GPU."""
        for (node, gpu), series in self.samples.gpus.items():
            found = [sample for sample in series if since <= sample.at_seconds <= until]
            if found:
                yield self.gpu_name(node, gpu), found

    def gpu_name(self, node: str, gpu: str) -> str:
        """As operators call it: a whole UUID is too long to read."""
        name = gpu if gpu.startswith(("GPU", "MIG")) else f"GPU {gpu}"
        if _UUID.match(gpu):
            is_alone = sum(other == node for other, _ in self.samples.gpus) == 1
            name = "the GPU" if is_alone else gpu[:UUID_CHARACTERS]
        return f"{name} of {node}" if node else name

    def hosts(self, since: float, until: float) -> list[HostSample]:
        every = (sample for series in self.samples.hosts.values() for sample in series)
        return [sample for sample in every if since <= sample.at_seconds <= until]

    def events(self, since: float, until: float) -> list[NodeEvent]:
        return [event for event in self.samples.events if since <= event.at_seconds <= until]


@dataclass(frozen=True)
class Decision:
    reason: str  # the same as before, where only the cause is clearer
    cause: str
    remedy: str
    recovery: Recovery
    confidence: float
    node: str | None = None


@dataclass(frozen=True)
class Finding:
    """What samples say of a run: a sentence, and, where it decides something, what the diagnosis becomes."""

    sentence: str
    decision: Decision | None = None


def just_stops(diagnosis: Diagnosis, story: Story) -> bool:
    """The log ends in the midst of work, and its lines do not say why: others have to."""
    return diagnosis.is_silent and not story.is_whole


def window_of(story: Story) -> Window:
    """The part of the telemetry that is read; all of it where the log has no times."""
    if story.began_at is None or story.ended_at is None:
        return Window()
    return Window(story.began_at.timestamp() - BEFORE_SECONDS, story.ended_at.timestamp() + AFTER_SECONDS)


def set_scene(diagnosis: Diagnosis, story: Story, samples: Samples) -> tuple[Scene | None, list[str]]:
    """None where the samples cannot be of this run; the sentences say why."""
    notes = list(samples.notes)
    of_run, is_named = _of_run(diagnosis, story, samples)
    if not is_named:
        notes.append(_whose(of_run))
        if of_run.is_empty:
            return None, notes
    if story.began_at is not None and story.ended_at is not None:
        began, ended = story.began_at.timestamp(), story.ended_at.timestamp()
        if _has_any(of_run, began - SLACK_SECONDS, ended + SLACK_SECONDS):
            return Scene(of_run, samples, began, ended, True, is_named), notes
        if samples.first_seconds is not None:
            notes.append(_why_apart(began, ended, samples))
        return None, notes
    stretches = _stretches(of_run)
    if len(stretches) != 1:
        if not samples.is_empty:
            notes.append("The log tells no time, and the samples do not show one job alone: they say nothing of it.")
        return None, notes
    notes.append("The log tells no time: the one job that the samples show is taken for it.")
    return Scene(of_run, samples, *stretches[0], False, is_named), notes


def _of_run(diagnosis: Diagnosis, story: Story, samples: Samples) -> tuple[Samples, bool]:
    """Samples of the nodes that the log names, and whether it does; of all that were sampled, where it names none.

    A log of the whole cluster's kernels tells of many nodes: those that the log does not name are not the job's.
    """
    named = {short(name) for name in (*story.hosts, *([diagnosis.node] if diagnosis.node else []))}
    nodes_seen = {*samples.nodes, *(event.node for event in samples.events)} - {""}
    nodes = {node for node in nodes_seen if short(node) in named}
    if not named or not nodes_seen:
        return samples, len(nodes_seen) <= 1
    kept = {*(nodes or samples.nodes), ""}
    return (
        Samples(
            gpus={key: series for key, series in samples.gpus.items() if key[0] in kept},
            hosts={node: series for node, series in samples.hosts.items() if node in kept},
            events=tuple(event for event in samples.events if event.node in kept),
        ),
        bool(nodes),
    )


def _whose(samples: Samples) -> str:
    if samples.is_empty:
        return "The telemetry tells of no node that the log names: it says nothing of it."
    if len(samples.nodes) == 1:
        return f"The log does not name {samples.nodes[0]}, whose samples these are."
    return f"The log names none of the {len(samples.nodes)} nodes that were sampled: all are looked at."


def short(name: str) -> str:
    return name.split(".")[0].lower()


def _has_any(samples: Samples, since: float, until: float) -> bool:
    times = chain(
        (sample.at_seconds for series in samples.gpus.values() for sample in series),
        (sample.at_seconds for series in samples.hosts.values() for sample in series),
        (event.at_seconds for event in samples.events),
    )
    return any(since <= at <= until for at in times)


def _why_apart(began: float, ended: float, samples: Samples) -> str:
    """That a zone was forgotten is the usual reason; which one it was is for people to say."""
    first, last = samples.first_seconds or 0.0, samples.last_seconds or 0.0
    hours = [hour for size in range(1, MOST_SHIFT_HOURS + 1) for hour in (size, -size)]
    fitting = next((hour for hour in hours if began + hour * 3600 <= last and ended + hour * 3600 >= first), None)
    apart = f"No sample lies in the minutes of the log, {clock(began)} to {clock(ended)};"
    if fitting is None:
        return f"{apart} they are from {moment(first)} to {moment(last)}."
    word = "hour" if abs(fitting) == 1 else "hours"
    return f"{apart} some would if its clock were {abs(fitting)} {word} {'later' if fitting > 0 else 'earlier'}."


def _stretches(samples: Samples) -> list[tuple[float, float]]:
    """The times in which any GPU was held."""
    held: list[tuple[float, float]] = []
    for series in samples.gpus.values():
        least = baseline(series)
        step = interval(series)
        held += [(sample.at_seconds, sample.at_seconds + step) for sample in series if is_held(sample, least)]
    found: list[tuple[float, float]] = []
    for since, until in sorted(held):
        if found and since <= found[-1][1] + GAP_SECONDS:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return found


def baseline(series: tuple[GpuSample, ...]) -> float:
    return min((sample.memory_used_bytes for sample in series if sample.memory_used_bytes is not None), default=0.0)


def is_held(sample: GpuSample, least: float) -> bool:
    """Somebody is on it. What was there throughout does not stand out from the least: then its size says it."""
    used, total = sample.memory_used_bytes, sample.memory_total_bytes
    if sample.pids:  # that none is listed proves nothing: a container does not see them
        return True
    if used is None:
        return sample.busy_ratio is not None and sample.busy_ratio > 0
    return used > least + HELD_RATIO * (total or 0.0) or (total is not None and least > 0.05 * total)


def interval(series: tuple[GpuSample, ...] | tuple[HostSample, ...]) -> float:
    """The usual time between two samples; 0 where there are not two."""
    times = [sample.at_seconds for sample in series[-200:]]
    return median([later - earlier for earlier, later in pairwise(times)]) if len(times) > 1 else 0.0


def clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def size(number: float) -> str:
    """Bytes as people say them."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}"
    return f"{number:.0f} bytes"
