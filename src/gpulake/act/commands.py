"""Starts the programs that act on a cluster: a list of arguments, never a shell, and a limit on all that they do."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from gpulake.core.words import label
from gpulake.lake.access import usual_umask

MOST_SECONDS = 60.0
MOST_WORDS = 300
MOST_BYTES = 1 << 16  # of a program's output that are kept, the first ones
# Safe as an argument: a program cannot take it for an option, a list or a pattern.
SAFE = re.compile(r"\w[\w.:+@/-]*", re.ASCII)
# The user and the cluster: all that the cluster's programs need of our environment.
PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "KRB5CCNAME", "SLURM_CONF", "SLURM_CLUSTERS"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
)
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Outcome:
    """The result of a program that acts."""

    status: Literal["done", "failed", "unknown"]
    exit_code: int | None = None
    detail: str = ""


def small_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    every = os.environ if environment is None else environment
    return {name: every[name] for name in PASSED_ON if name in every}


def run(
    arguments: Sequence[str], most_seconds: float = MOST_SECONDS, environment: Mapping[str, str] | None = None
) -> Outcome:
    """Runs a program to its end. The result of one that does not end in time is unknown: it may have done its work."""
    return _ran(arguments, most_seconds, environment)[0]


def ask(
    arguments: Sequence[str], most_seconds: float = MOST_SECONDS, environment: Mapping[str, str] | None = None
) -> str | None:
    """The output of a program that succeeds; None where it is cut off: half a name is another name."""
    outcome, output = _ran(arguments, most_seconds, environment)
    is_whole = outcome.status == "done" and len(output) < MOST_BYTES
    return output.decode(errors="replace") if is_whole else None


def _ran(arguments: Sequence[str], most_seconds: float, environment: Mapping[str, str] | None) -> tuple[Outcome, bytes]:
    try:
        process = subprocess.Popen(  # noqa: S603 - a list from the settings, and words that were checked
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            umask=usual_umask(),
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Outcome("failed", detail=f"cannot run {label(arguments[0])}: {reason}"), b""
    with process:
        try:
            output, errors = _output(process, time.monotonic() + most_seconds)
        finally:
            if process.poll() is None:
                # With its children, which would go on. What one that has ended leaves behind is meant to stay.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if output is None:
        return Outcome("unknown", detail=f"did not end within {most_seconds:g} seconds"), b""
    # Of a failure stderr has the reason. Of a success both may matter: stderr may hold an unrelated warning.
    text = errors or output if process.returncode else output.strip() + b" " + errors
    words = label(text.decode(errors="replace").strip(), MOST_WORDS)
    return Outcome("failed" if process.returncode else "done", process.returncode, words), output


def _output(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes | None, bytes]:
    """Stdout and stderr, each cut off; None where the program does not end in time."""
    assert process.stdout is not None
    assert process.stderr is not None
    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ)
        while True:
            has_ended = process.poll() is not None
            ready = selector.select(0 if has_ended else min(_LOOK_SECONDS, max(deadline - time.monotonic(), 0)))
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fileobj)
                pipe = process.stdout if key.fileobj is process.stdout else process.stderr
                kept[pipe] += chunk[: MOST_BYTES - len(kept[pipe])]
            if has_ended and not ready:
                return bytes(kept[process.stdout]), bytes(kept[process.stderr])
            if time.monotonic() >= deadline:
                return None, b""
