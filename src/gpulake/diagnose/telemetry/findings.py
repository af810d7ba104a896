"""What samples say of a run: a sentence, and, where it decides something, what the diagnosis becomes."""

from __future__ import annotations

from dataclasses import dataclass

from gpulake.core.diagnosis import Diagnosis, Recovery
from gpulake.diagnose.story.events import Story


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
    sentence: str
    decision: Decision | None = None


def just_stops(diagnosis: Diagnosis, story: Story) -> bool:
    """The log ends in the midst of work, and its lines do not say why: others have to."""
    return diagnosis.is_silent and not story.is_whole
