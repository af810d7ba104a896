"""Cancels a job by the program that the settings name."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.act.commands import MOST_SECONDS, Outcome, run
from gpulake.act.holders import Holder
from gpulake.act.nudges import words_of
from gpulake.core.placeholders import filled


def cancel(command: Sequence[str], holder: Holder, most_seconds: float = MOST_SECONDS) -> Outcome:
    return run(filled(command, words_of(holder)), most_seconds)
