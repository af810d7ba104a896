"""Memory of the GPU and of the host, in the time before a job died."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulake.core.diagnosis import Diagnosis, Recovery
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry.samples import GpuSample, HostSample, NodeEvent
from gpulake.diagnose.telemetry.scene import SLACK_SECONDS, Decision, Finding, Scene, clock, just_stops, size

KILLED = ("ProcessKilled", "DataloaderKilled", "HostOOMKilled")
FULL_RATIO = 0.9  # of the GPU's memory: an allocation that does not fit is seldom the last gigabyte
BUSY_RATIO = 0.2  # a GPU that loads a model is hardly busy; one that trains is
LOW_RATIO = 0.8  # of the peak
WORKED_SAMPLES = 3
CLIMB_SAMPLES = 2
HIGH_RATIO = 0.95  # of the climb
LAST_SECONDS = 60.0
KILL_SECONDS = 120.0
EMPTY_RATIO = 0.03  # of the host's memory: the kernel kills before it is at zero
EMPTY_BYTES = 1e9  # where its size is not known
PLENTY_RATIO = 0.1
PLENTY_BYTES = 4e9
_MEMORY = re.compile(r"oom|memory", re.IGNORECASE)


def gpu_memory(diagnosis: Diagnosis, scene: Scene) -> Iterator[Finding]:
    """At an out-of-memory error: whether it climbed while the GPU worked (a leak), or was full from the start."""
    if diagnosis.reason != "OutOfMemoryError":
        return
    for name, series in scene.gpus(scene.began, scene.ended + SLACK_SECONDS):
        known = [sample for sample in series if sample.memory_used_bytes is not None and sample.memory_total_bytes]
        top = max(known, key=_used, default=None)
        if top is None or _used(top) < FULL_RATIO * (top.memory_total_bytes or 0):
            continue
        climb = known[: known.index(top) + 1]
        low = [s for s in climb if (s.busy_ratio or 0) >= BUSY_RATIO and _used(s) < LOW_RATIO * _used(top)]
        if len(low) >= WORKED_SAMPLES:
            yield _rise(name, known, climb, low[0], diagnosis)
        else:
            yield Finding(f"{name} was full ({_of_all(top)}) before it had done much work: what it holds is too big.")


def _rise(name: str, known: list[GpuSample], climb: list[GpuSample], first: GpuSample, diagnosis: Diagnosis) -> Finding:
    """It had worked with less; then memory went up, by and by or at once. A leak goes up until the end."""
    top = climb[-1]
    rise = _used(top) - _used(first)
    steps = [s for s in climb if s.at_seconds > first.at_seconds and 0.02 < (_used(s) - _used(first)) / rise < 0.98]
    # The climb itself: from the last time that it was as low as at first.
    foot = max((s for s in climb if _used(s) <= _used(first) + 0.02 * rise), key=lambda s: s.at_seconds)
    risen = f"Memory of {name} rose from {size(_used(foot))} to {_of_all(top)}"
    if len(steps) < CLIMB_SAMPLES:
        return Finding(f"{risen} in one step at {clock(top.at_seconds)}, after it had worked with less.")
    if other := _no_leak(known, foot, top):
        return Finding(f"{risen} {other}.")
    seconds = max(top.at_seconds - foot.at_seconds, 0.001)
    slope = size((_used(top) - _used(foot)) / seconds)
    sentence = f"{risen} in {seconds:.1f} s, {slope} a second, while it worked."
    return Finding(
        sentence,
        Decision(
            reason="OutOfMemoryError",
            cause=f"GPU memory leaks until none is left. {sentence}",
            remedy="Look for tensors that outlive their step: losses kept with their graph, lists, caches, hooks.",
            recovery=Recovery("needs_code_fix", "A restart climbs to the same end."),
            confidence=max(diagnosis.confidence, 0.9),
        ),
    )


def _no_leak(known: list[GpuSample], foot: GpuSample, top: GpuSample) -> str:
    """An allocator that caches climbs once and stays; a job that takes and gives back goes up and down."""
    rise = _used(top) - _used(foot)
    high = [s for s in known if s.at_seconds > foot.at_seconds and _used(s) >= _used(foot) + HIGH_RATIO * rise]
    climbed, stayed = high[0].at_seconds - foot.at_seconds, high[-1].at_seconds - high[0].at_seconds
    fallen = [s for s in known if high[0].at_seconds < s.at_seconds < high[-1].at_seconds]
    if any(_used(s) < _used(foot) + rise / 2 for s in fallen):
        return "and fell again, more than once: this is no leak"
    if stayed > climbed:
        return f"in {climbed:.1f} s, and stayed there for {stayed:.1f} s: this is no leak"
    return ""


def _of_all(sample: GpuSample) -> str:
    return f"{size(_used(sample))} of {size(sample.memory_total_bytes or 0)}"


def _used(sample: GpuSample) -> float:
    return sample.memory_used_bytes or 0.0


def host_memory(diagnosis: Diagnosis, story: Story, scene: Scene) -> Iterator[Finding]:
    """Behind a process that was killed, or a log that just stops: whether the kernel killed it for memory."""
    is_silent = just_stops(diagnosis, story)
    if diagnosis.reason not in KILLED and not is_silent:
        return
    kill = _kill(story, scene)
    if kill:
        yield Finding(kill, _out_of_memory(diagnosis, kill, 0.95))
        return
    before = scene.hosts(scene.ended - LAST_SECONDS, scene.ended + SLACK_SECONDS)
    known = [(sample, sample.memory_available_bytes) for sample in before if sample.memory_available_bytes is not None]
    lowest = min(known, key=lambda pair: pair[1], default=None)
    if lowest is not None and _is_empty(lowest[1], lowest[0].memory_total_bytes):
        total = f" of {size(lowest[0].memory_total_bytes)}" if lowest[0].memory_total_bytes else ""
        end = "the log stops" if is_silent else "the process was killed"
        of = f" of {lowest[0].node}" if lowest[0].node else ""
        sentence = f"Host memory{of} was down to {size(lowest[1])}{total} at {clock(lowest[0].at_seconds)}, as {end}."
        yield Finding(sentence, _out_of_memory(diagnosis, sentence, 0.85))
        return
    least = min((room for sample in before if (room := _room(sample)) is not None), default=None)
    totals = [sample.memory_total_bytes for sample in before if sample.memory_total_bytes]
    if least is not None and least >= (PLENTY_RATIO * max(totals) if totals else PLENTY_BYTES):
        yield _plenty(diagnosis, least, is_silent)


def _plenty(diagnosis: Diagnosis, least: float, is_silent: bool) -> Finding:
    """A log that only says SIGKILL may have been taken for one of the kernel's kills: with memory left it is not."""
    plenty = f"Host memory was plentiful in the last minute, {size(least)} free at the least"
    if is_silent:
        return Finding(f"{plenty}.")
    sentence = f"{plenty}: it was not the kernel, unless a limit of its own was reached."
    is_said = any(_MEMORY.search(quote.text) for quote in diagnosis.evidence)
    if diagnosis.reason != "HostOOMKilled" or is_said:
        return Finding(sentence)
    return Finding(
        sentence,
        Decision(
            reason="ProcessKilled",
            cause=f"A process was killed from outside. {sentence}",
            remedy="Restart it. Ask who or what sends SIGKILL there: a scheduler, a limit of its cgroup, a person.",
            recovery=Recovery("auto_restart", "Nothing of the job's own ended it."),
            confidence=max(diagnosis.confidence, 0.7),
        ),
    )


def _room(sample: HostSample) -> float | None:
    """What nothing uses is room for sure; that it is little says nothing, since caches use the rest."""
    return sample.memory_available_bytes if sample.memory_available_bytes is not None else sample.memory_free_bytes


def _is_empty(available: float, total: float | None) -> bool:
    return available <= (EMPTY_RATIO * total if total else EMPTY_BYTES)


def _kill(story: Story, scene: Scene) -> str:
    """The kernel's word that it killed for memory, in the time of the run."""
    pids = {event.pid for event in story.events if event.pid is not None}
    kills = [e for e in scene.events(scene.began, scene.ended + KILL_SECONDS) if e.kind == "oom_kill"]
    ours = [event for event in kills if event.pid in pids and event.pid is not None]
    near = [event for event in kills if event.at_seconds >= scene.ended - KILL_SECONDS]
    if chosen := next(iter([*ours, *near]), None):
        return f"The kernel killed {_process(chosen)} for memory at {clock(chosen.at_seconds)}."
    for node, series in scene.samples.hosts.items():
        counts = [s for s in series if s.oom_kills is not None and s.at_seconds <= scene.ended + KILL_SECONDS]
        # What was killed before the run began was another's.
        since = max(scene.began, scene.ended - KILL_SECONDS)
        before = [s for s in counts if s.at_seconds <= since] or counts[:1]
        if counts and before and (counts[-1].oom_kills or 0) > (before[-1].oom_kills or 0):
            of = f" of {node}" if node else ""
            return f"The kernel{of} killed a process for memory between the last samples."
    return ""


def _process(event: NodeEvent) -> str:
    process = f"process {event.pid}" if event.pid is not None else "a process"
    named = f" ({event.subject})" if event.subject else ""
    return f"{process}{named}" + (f" of {event.node}" if event.node else "")


def _out_of_memory(diagnosis: Diagnosis, sentence: str, confidence: float) -> Decision:
    return Decision(
        reason="HostOOMKilled",
        cause=f"The host ran out of memory. {sentence}",
        remedy="Ask for more host memory, or use less: fewer loader workers, no copies of the data set in each.",
        recovery=Recovery("needs_config_change", "The same job needs the same memory again."),
        confidence=max(diagnosis.confidence, confidence),
    )
