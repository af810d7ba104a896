"""Whether the job still works: a log that is silent while GPUs idle or spin, a node that is gone, a starved GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median

from gpulake.core.diagnosis import Diagnosis, Recovery
from gpulake.core.words import opened
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry.samples import GpuSample, Samples
from gpulake.diagnose.telemetry.scene import (
    AFTER_SECONDS,
    SLACK_SECONDS,
    Decision,
    Finding,
    Scene,
    baseline,
    clock,
    interval,
    is_held,
    just_stops,
)

HANGS = ("HangStraggler", "NCCLTimeoutError")
# What the others say when a node is gone.
LOST_PEER = (*HANGS, "NCCLRemoteError", "ConnectionError", "NetworkError")
IDLE_RATIO = 0.02
SPINNING_RATIO = 0.99  # a collective that waits keeps the GPU busy, and cool
SPINNING_POWER = 0.75  # of what it drew while it worked
LONG_SILENCE_SECONDS = 300.0
SHORT_SILENCE_SECONDS = 20.0
RHYTHM = 20  # usual times between two steps
RHYTHM_STEPS = 5
PAUSES = 2  # times the longest time between two steps so far
LAST_LINES = 3
_PAUSE = re.compile(r"check-?point|\bsav(?:e|ing)|\beval|\bvalid|\btest(?:ing)?\b", re.IGNORECASE)
MOST_NAMED = 8
GONE_SECONDS = 120.0
STARVED_RATIO = 0.2
STARVED_IDLE_SHARE = 0.3
STARVED_SAMPLES = 10
WORKS_RATIO = 0.05


@dataclass(frozen=True)
class Quiet:
    """A GPU in the time after the last line, while the job still held it."""

    name: str
    node: str
    seconds: float
    busy_ratio: float
    is_spinning: bool  # busy, and at little power: it waits in a collective


def hang(diagnosis: Diagnosis, story: Story, scene: Scene) -> Iterator[Finding]:
    """Of a log that just stops, or that says that a collective timed out. With several runs only the last can stop."""
    is_silent = just_stops(diagnosis, story) and story.run == story.runs
    if not scene.is_timed or not (is_silent or diagnosis.reason in HANGS):
        return
    since = scene.ended
    if not is_silent and story.last_progress_at is not None:  # the log ends with the timeout; the hang began before
        since = story.last_progress_at.timestamp()
    until = scene.ended + AFTER_SECONDS if is_silent else scene.ended
    quiet = list(_quiet(scene, since, until, patience(story)))
    sentence, node = _describe_silence(quiet, "line" if is_silent else "step")
    if not sentence:
        return
    decision = Decision(
        reason="HangStraggler",
        cause=f"The job hangs. {opened(sentence)}",
        remedy="Take the stacks of its processes (py-spy dump) and NCCL's flight recorder, then restart it.",
        recovery=Recovery("auto_restart", "A hang is over once it is started again."),
        confidence=0.8,
        node=node,
    )
    yield Finding(sentence, decision if is_silent else None)


def patience(story: Story) -> float:
    """Seconds of silence that are more than this log's rhythm, and than any pause that it made before. Where it
    has none, or was about to save or to evaluate, more than that takes."""
    progress = [event for event in story.events if event.hit.rule.role == "progress"]
    steps = sorted(event.at.timestamp() for event in progress if event.at is not None)
    between = [later - earlier for earlier, later in pairwise(steps) if later > earlier]
    if progress and not steps and story.began_at is not None and story.ended_at is not None:
        # Its lines tell no time: the mean, with all that came before the first step.
        between = [(story.ended_at - story.began_at).total_seconds() / len(progress)] * len(progress)
    is_paused = any(_PAUSE.search(quote.text) for quote in story.last_lines[-LAST_LINES:])
    usual = RHYTHM * median(between) if len(between) >= RHYTHM_STEPS and not is_paused else LONG_SILENCE_SECONDS
    longest = PAUSES * max(between, default=0.0)
    return max(min(max(usual, SHORT_SILENCE_SECONDS), LONG_SILENCE_SECONDS), longest)


def _describe_silence(quiet: list[Quiet], last: str) -> tuple[str, str | None]:
    """The silence in a sentence, and the node that it comes from, where one stands out."""
    idle = [gpu for gpu in quiet if gpu.busy_ratio <= IDLE_RATIO]
    spinning = [gpu for gpu in quiet if gpu.is_spinning]
    if not quiet or len(idle) + len(spinning) < len(quiet):
        return "", None
    names = ", ".join(gpu.name for gpu in idle[:MOST_NAMED])
    silence = f"for {min(gpu.seconds for gpu in quiet):.0f} s after the last {last}, while the job held it"
    if idle and spinning:
        return f"{names} idled {silence}; {len(spinning)} others waited in a collective.", idle[0].node or None
    if idle:
        return f"{names if len(idle) == 1 else f'Each of {len(idle)} GPUs'} idled {silence}.", None
    one = spinning[0].name if len(spinning) == 1 else f"Each of {len(spinning)} GPUs"
    return f"{one} spun at little power {silence}: all wait in a collective.", None


def _quiet(scene: Scene, since: float, until: float, enough: float) -> Iterator[Quiet]:
    for (node, gpu), series in scene.samples.gpus.items():
        least = baseline(series)
        during = [s for s in series if scene.began <= s.at_seconds <= since]
        if not during or not is_held(during[-1], least):
            continue
        pids = during[-1].pids
        after: list[GpuSample] = []
        for sample in series:
            if since + SLACK_SECONDS < sample.at_seconds <= until:
                if not is_held(sample, least) or (pids and sample.pids and not pids & sample.pids):
                    break  # it left: what follows is another's
                after.append(sample)
        busy = [sample.busy_ratio for sample in after if sample.busy_ratio is not None]
        seconds = after[-1].at_seconds - since if after else 0.0
        if busy and seconds >= enough:
            yield Quiet(scene.gpu_name(node, gpu), node, seconds, fmean(busy), _is_spinning(during, after, busy))


def _is_spinning(during: list[GpuSample], after: list[GpuSample], busy: list[float]) -> bool:
    if fmean(busy) < SPINNING_RATIO:
        return False
    worked = [s.power_watts for s in during if s.power_watts is not None and (s.busy_ratio or 0) > 0.5]
    waits = [s.power_watts for s in after if s.power_watts is not None]
    return not worked or not waits or median(waits) < SPINNING_POWER * median(worked)


def gone_nodes(diagnosis: Diagnosis, story: Story, scene: Scene, now: datetime | None) -> Iterator[Finding]:
    """A node whose samples stop when the log does. Somebody must have gone on looking: another node, or the clock."""
    is_silent = just_stops(diagnosis, story)
    if not scene.is_timed or not (is_silent or diagnosis.reason in LOST_PEER):
        return
    last = _last_seen(scene.others)
    seen = _last_seen(scene.samples)
    latest = max(last.values(), default=0.0)
    for node, seconds in sorted(seen.items()):
        if abs(seconds - scene.ended) > max(30.0, 3 * _interval(scene.samples, node)):
            continue
        others_go_on = latest - seconds >= GONE_SECONDS
        is_old = is_silent and now is not None and now.timestamp() - seconds >= 300.0
        if not others_go_on and not is_old:
            continue
        shown = node or "the node"
        sentence = f"Samples of {shown} stop at {clock(seconds)}, as the log does"
        if not others_go_on:  # a sampler that the job itself had started ends with it, too
            yield Finding(f"{sentence}: the node went down, or its sampler ended with the job.")
            continue
        sentence = f"{sentence}, while those of others go on."
        yield Finding(
            sentence,
            Decision(
                reason="NodeFailure",
                cause=f"The node went down. {sentence}",
                remedy=f"Look at {shown}: its console, its power, its kernel's last words. Restart without it.",
                recovery=Recovery("cordon_node_and_restart", "The node does not answer."),
                confidence=0.8,
                node=node or None,
            ),
        )


def _last_seen(samples: Samples) -> dict[str, float]:
    found: dict[str, float] = {}
    gpus = [(node, series[-1].at_seconds) for (node, _), series in samples.gpus.items()]
    hosts = [(node, series[-1].at_seconds) for node, series in samples.hosts.items()]
    for node, at in (*gpus, *hosts):
        found[node] = max(found.get(node, 0.0), at)
    return found


def _interval(samples: Samples, node: str) -> float:
    gpus = [interval(series) for (owner, _), series in samples.gpus.items() if owner == node]
    hosts = [interval(series) for owner, series in samples.hosts.items() if owner == node]
    return max([*gpus, *hosts], default=0.0)


def starvation(diagnosis: Diagnosis, scene: Scene) -> Iterator[Finding]:
    """Of a run that ended well: a GPU that waited most of the time between its first and its last work."""
    if diagnosis.verdict != "healthy":
        return
    for name, series in scene.gpus(scene.began, scene.ended):
        busy = [sample.busy_ratio for sample in series if sample.busy_ratio is not None]
        worked = [place for place, ratio in enumerate(busy) if ratio >= WORKS_RATIO]
        between = busy[worked[0] : worked[-1] + 1] if worked else []
        idle = sum(ratio < WORKS_RATIO for ratio in between)
        if len(between) < STARVED_SAMPLES or idle < STARVED_IDLE_SHARE * len(between):
            continue
        if fmean(between) < STARVED_RATIO:
            yield Finding(
                f"{name} was busy {fmean(between):.0%} of the time between its first and its last work, and idle in"
                f" {idle / len(between):.0%} of the samples: it waits for data or for the CPU."
            )
