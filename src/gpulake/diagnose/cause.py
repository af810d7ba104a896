"""The root cause of a story, and not its last symptom."""

from __future__ import annotations

from gpulake.core.diagnosis import Diagnosis
from gpulake.diagnose.story import Story


def explain(story: Story) -> Diagnosis:
    """By rules alone. What they cannot tell is unknown."""
    raise NotImplementedError
