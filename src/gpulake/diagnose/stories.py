"""Digests become stories: who said what when, and which run of the log it belongs to."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.diagnose.digest import Digest
from gpulake.diagnose.rulebook import Rulebook
from gpulake.diagnose.story import Story


def read_stories(digests: Sequence[Digest], rulebook: Rulebook, time_zone: str = "UTC") -> list[Story]:
    """The runs of a log, oldest first; files of a folder are told together. Times without a zone are of time_zone."""
    raise NotImplementedError
