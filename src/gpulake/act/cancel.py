"""Cancels a job by the program that the settings name. Never through a shell."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from gpulake.act.holders import Holder
from gpulake.act.nudges import Outcome, words_of
from gpulake.core.config import PLACEHOLDER
from gpulake.core.words import label

MOST_SECONDS = 60.0
MOST_WORDS = 300


def cancel(command: Sequence[str], holder: Holder, most_seconds: float = MOST_SECONDS) -> Outcome:
    """Runs the command for the job. One that does not end in time may have done its work: nobody can tell."""
    arguments = [_filled(part, words_of(holder)) for part in command]
    try:
        answer = subprocess.run(  # noqa: S603 - a list from the settings, and ids that were checked
            arguments, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=most_seconds
        )
    except subprocess.TimeoutExpired:
        return Outcome("unknown", detail=f"did not end within {most_seconds:g} seconds")
    except OSError as error:
        return Outcome("failed", detail=f"cannot run {command[0]}: {error.strerror}")
    said = label((answer.stderr or answer.stdout).decode(errors="replace").strip(), MOST_WORDS)
    return Outcome("failed" if answer.returncode else "done", answer.returncode, said)


def _filled(part: str, words: Mapping[str, str]) -> str:
    """In one pass: what a placeholder stands for is not looked into for others."""
    return PLACEHOLDER.sub(lambda found: words[found[1]], part)
