"""A diagnosis from a log, without a lake: what scripts and notebooks call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpulake.core.diagnosis import Diagnosis
from gpulake.core.errors import UsageError
from gpulake.core.progress import Report, silent
from gpulake.core.words import count
from gpulake.diagnose.cause import explain
from gpulake.diagnose.digest import Digest
from gpulake.diagnose.reading import open_logs
from gpulake.diagnose.rulebook import Rulebook, shipped
from gpulake.diagnose.scan import scan
from gpulake.diagnose.stories import read_stories
from gpulake.diagnose.story import Story


@dataclass(frozen=True)
class Answer:
    """A diagnosis, and what it was drawn from."""

    diagnosis: Diagnosis
    story: Story
    digests: tuple[Digest, ...]
    notes: tuple[str, ...] = ()  # what the reader should know beside it
