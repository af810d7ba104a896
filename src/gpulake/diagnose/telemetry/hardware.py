"""Faults of the machine at the time of an error: Xid, memory errors, a GPU that is gone, heat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gpulake.core.diagnosis import Diagnosis, Recovery
from gpulake.core.words import count
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry.samples import GpuSample, NodeEvent
from gpulake.diagnose.telemetry.scene import Decision, Finding, Scene, clock, just_stops

# What a broken GPU looks like from the log of its job.
SEEN_AS = (
    "CUDAError", "XidError", "ECCError", "NVLinkError", "ProcessCrashed", "NCCLTimeoutError", "NCCLRemoteError",
    "HangStraggler", "ConnectionError", "NetworkError",
)  # fmt: skip
BEFORE_SECONDS = 600.0
AFTER_SECONDS = 120.0
MOST_FAULTS = 5
# Where no rule knows the Xid. Those of applications are not among them: the log of the job says more.
MEMORY_XIDS = (48, 64, 94, 95)
LINK_XIDS = (74,)
BOARD_XIDS = (62, 79, 109, 110, 119, 120, 140, 143)
THERMAL_REASONS = 0x20 | 0x40
HOT_CELSIUS = 90.0


@dataclass(frozen=True)
class Fault:
    at_seconds: float
    where: str
    node: str
    code: int | None  # Xid
    text: str  # in the kernel's words, or as it would say it
    sentence: str


def broken_hardware(diagnosis: Diagnosis, story: Story, scene: Scene, rulebook: Rulebook | None) -> Iterator[Finding]:
    since, until = max(scene.began, scene.ended - BEFORE_SECONDS), scene.ended + AFTER_SECONDS
    faults = [*_from_events(scene.events(since, until)), *_from_counters(scene, since, until)]
    is_open = diagnosis.reason in SEEN_AS or just_stops(diagnosis, story)
    reported: set[tuple[str, int | None]] = set()
    for fault in sorted(faults, key=lambda fault: fault.at_seconds):
        if (fault.where, fault.code) in reported or len(reported) >= MOST_FAULTS:
            continue
        reported.add((fault.where, fault.code))
        yield Finding(fault.sentence, _decision(fault, diagnosis, rulebook) if is_open else None)


def _from_events(events: list[NodeEvent]) -> Iterator[Fault]:
    for event in events:
        of = f" of {event.node}" if event.node else ""
        at = clock(event.at_seconds)
        if event.kind == "xid":
            text = event.message or _kernel_line(event.code)
            sentence = f"Xid {event.code} on {event.subject or 'a GPU'}{of} at {at}."
            yield Fault(event.at_seconds, event.subject, event.node, event.code, text, sentence)
        elif event.kind in ("gpu_lost", "gpu_unresponsive"):
            word = "was lost" if event.kind == "gpu_lost" else "did not answer"
            sentence = f"{event.subject or 'A GPU'}{of} {word} at {at}."
            yield Fault(event.at_seconds, event.subject, event.node, 79, _kernel_line(79), sentence)
        elif event.kind == "ecc":
            sentence = f"{event.subject or 'A GPU'}{of} had a memory error that could not be corrected at {at}."
            yield Fault(event.at_seconds, event.subject, event.node, 48, _kernel_line(48), sentence)


def _from_counters(scene: Scene, since: float, until: float) -> Iterator[Fault]:
    for name, series in scene.gpus(scene.began, until):
        for sample in _changed(series, "ecc_uncorrected", since):
            errors = count(sample.ecc_uncorrected or 0, "uncorrected memory error")
            sentence = f"{name} counted {errors} at {clock(sample.at_seconds)}."
            yield Fault(sample.at_seconds, name, sample.node, 48, _kernel_line(48), sentence)
        for sample in _changed(series, "last_xid", since):
            code = sample.last_xid
            sentence = f"Xid {code} on {name} at {clock(sample.at_seconds)}."
            yield Fault(sample.at_seconds, name, sample.node, code, _kernel_line(code), sentence)


def _changed(series: list[GpuSample], name: str, since: float) -> Iterator[GpuSample]:
    """Samples that show more than the one before; what a counter showed before the run, or long before its end, is
    not of its end."""
    known = [sample for sample in series if getattr(sample, name) is not None]
    for earlier, later in pairwise(known):
        before, after = getattr(earlier, name), getattr(later, name)
        has_grown = after > before or (name == "last_xid" and after not in (0, before))
        if has_grown and later.at_seconds >= since:
            yield later


def _kernel_line(code: int | None) -> str:
    return f"NVRM: Xid (PCI:0000:00:00): {code}, pid='<unknown>', name=<unknown>"


def _decision(fault: Fault, diagnosis: Diagnosis, rulebook: Rulebook | None) -> Decision | None:
    """As the rules say of such a line; without one, by what the Xid is about. A fault of the program decides nothing:
    its log says it better."""
    reason, remedy, why = "", "Drain the node, reset the GPU, and run its diagnostics.", "The GPU is faulty."
    for hit in rulebook.hits(fault.text) if rulebook is not None else ():
        if hit.rule.reason and hit.rule.recovery == "cordon_node_and_restart":
            reason, remedy, why = hit.rule.reason, hit.rule.remedy or remedy, hit.rule.why or why
            break
    else:
        if fault.code in MEMORY_XIDS:
            reason = "ECCError"
        elif fault.code in LINK_XIDS:
            reason = "NVLinkError"
        elif fault.code in BOARD_XIDS:
            reason = "XidError"
    if not reason:
        return None
    return Decision(
        reason=reason,
        cause=f"A GPU failed: {fault.sentence}",
        remedy=remedy,
        recovery=Recovery("cordon_node_and_restart", why),
        confidence=max(diagnosis.confidence, 0.9),
        node=fault.node or None,
    )


def heat(scene: Scene) -> Iterator[Finding]:
    for name, series in scene.gpus(scene.began, scene.ended):
        known = [s for s in series if s.temperature_celsius is not None]
        hottest = max(known, key=lambda s: s.temperature_celsius or 0.0, default=None)
        held_back = sum(bool((s.clock_event_reasons or 0) & THERMAL_REASONS) for s in series)
        if hottest is not None and (hottest.temperature_celsius or 0) >= (
            hottest.slowdown_temperature_celsius or HOT_CELSIUS
        ):
            yield Finding(f"{name} reached {hottest.temperature_celsius:.0f} °C at {clock(hottest.at_seconds)}.")
        if held_back:
            share = held_back / len(series)
            yield Finding(f"Clocks of {name} were held back for heat in {share:.0%} of the samples.")
