"""What the samples of a run show, and how they change its diagnosis.

The log takes precedence. Samples decide what it cannot contain (why a process was killed, why a log ends midway),
whether the machine failed behind an error of CUDA or NCCL, and whether memory leaked. All else is only reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from gpulake.core.diagnosis import CATEGORY_OF, Diagnosis
from gpulake.core.words import label, opened
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry.activity import gone_nodes, hang, starvation
from gpulake.diagnose.telemetry.hardware import broken_hardware, heat
from gpulake.diagnose.telemetry.memory import gpu_memory, host_memory
from gpulake.diagnose.telemetry.samples import Samples
from gpulake.diagnose.telemetry.scene import Decision, Finding, Scene, set_scene

MOST_SENTENCES = 12


def consult(
    diagnosis: Diagnosis,
    story: Story,
    samples: Samples,
    rulebook: Rulebook | None = None,
    now: datetime | None = None,
) -> Diagnosis:
    """The diagnosis with what the samples say. `rulebook` knows what to do about an Xid; with `now`, a node that has
    been silent since the log stopped is one that went down."""
    scene, sentences = set_scene(diagnosis, story, samples)
    findings = list(_findings(diagnosis, story, scene, rulebook, now)) if scene is not None else []
    sentences += [finding.sentence for finding in findings]
    # Names of processes, GPUs and nodes are not trusted: they must not control a terminal.
    plain = [label(opened(sentence)) for sentence in sentences[:MOST_SENTENCES]]
    described = replace(diagnosis, telemetry=(*diagnosis.telemetry, *plain))
    decision = next((finding.decision for finding in findings if finding.decision is not None), None)
    if decision is None or scene is None:
        return described
    # A node that the log does not name may be another job's: it must not be drained.
    return _decided(described, story, decision if scene.is_named else replace(decision, node=None))


def _findings(
    diagnosis: Diagnosis, story: Story, scene: Scene, rulebook: Rulebook | None, now: datetime | None
) -> Iterator[Finding]:
    """The first that decides counts: a broken machine explains a kill and a hang, and neither explains it."""
    yield from broken_hardware(diagnosis, story, scene, rulebook)
    yield from host_memory(diagnosis, story, scene)
    yield from gone_nodes(diagnosis, story, scene, now)
    yield from hang(diagnosis, story, scene)
    yield from gpu_memory(diagnosis, scene)
    yield from heat(scene)
    yield from starvation(diagnosis, scene)


def _decided(diagnosis: Diagnosis, story: Story, decision: Decision) -> Diagnosis:
    """The lines of the log stay as evidence: they are where the fault struck. One that just stops ends with one."""
    is_new = decision.reason != diagnosis.reason
    return replace(
        diagnosis,
        verdict="failed",
        category=CATEGORY_OF[decision.reason],
        reason=decision.reason,
        cause=label(opened(decision.cause)),
        remedy=label(decision.remedy),
        evidence=diagnosis.evidence or story.last_lines[-1:],
        node=label(decision.node) if decision.node else diagnosis.node,
        is_node_claimed=diagnosis.is_node_claimed and not decision.node,
        recovery=decision.recovery,
        confidence=decision.confidence,
        method="telemetry",
        rule="" if is_new else diagnosis.rule,
    )
