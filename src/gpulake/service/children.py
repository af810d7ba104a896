"""One command of gpulake as a process: it never outlives the service, and what it says is kept."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpulake.core.redaction import redacted

KILL_SECONDS = 10.0  # from the polite signal to the other one
MOST_WORDS = 400  # of an error
PROGRAM = (sys.executable, "-P", "-m", "gpulake")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Ended:
    code: int
    document: Mapping[str, Any]  # what it printed for machines
    error: str


async def start(
    words: Sequence[str],
    niceness: int = 0,
    is_lasting: bool = False,
    is_read: bool | None = None,
    cores: Set[int] = frozenset(),
) -> Process:
    """A lasting one writes to where the service writes; of others, and of one that is read, the output is kept."""
    return await asyncio.create_subprocess_exec(
        *PROGRAM,
        *words,
        stdin=DEVNULL,
        stdout=PIPE if (not is_lasting if is_read is None else is_read) else None,
        stderr=None if is_lasting else PIPE,
        start_new_session=True,  # Ctrl-C is for the service, which ends them in order
        preexec_fn=partial(_bind, ctypes.CDLL(None), os.getpid(), niceness, cores),
    )


def _bind(libc: Any, parent: int, niceness: int, cores: Set[int]) -> None:
    """In the child: it gets the signal when the service is killed, too."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # killed in between
        os._exit(1)
    os.nice(niceness)
    if cores:
        os.sched_setaffinity(0, cores)


async def finish(child: Process, most_seconds: float) -> Ended:
    try:
        output, errors = await asyncio.wait_for(child.communicate(), most_seconds)
    except TimeoutError:
        await end(child)
        return Ended(-signal.SIGTERM, {}, f"stopped after {most_seconds:g} seconds: most_seconds of [run]")
    code = child.returncode or 0
    return Ended(code, document(output), _error(errors.decode(errors="replace"), code) if code else "")


def tell(child: Process, number: signal.Signals) -> None:
    """Not `send_signal`: that reaps a child that has just ended, whose exit code nobody knows then."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(child.pid, number)


async def end(child: Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        tell(child, number)
        with suppress(TimeoutError):
            # A pipe that nobody reads would keep it from ending.
            await asyncio.wait_for(child.communicate() if child.stdout else child.wait(), KILL_SECONDS)
            return


def document(output: bytes) -> Mapping[str, Any]:
    with suppress(ValueError):
        found = json.loads(output)
        if isinstance(found, dict):
            return found
    return {}


def _error(text: str, code: int) -> str:
    """The command's own words: its last error and the way out."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("error:", "Error:", "hint:"))] or lines[-1:]
    words = "; ".join(said[-2:]).removeprefix("error: ")
    return redacted(words)[:MOST_WORDS] or f"exit code {code}"
