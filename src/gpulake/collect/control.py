"""Start, stop and inspect collectors of other processes: by the lock of their RUN_DIR, never by a bare pid."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpulake
from gpulake.collect import lock
from gpulake.collect.identity import read_boot_id
from gpulake.collect.machine.procfs import start_ticks_of
from gpulake.collect.rundir import RunDir, open_file, prepare, read_file, read_object
from gpulake.collect.session import check, identity_of, try_sources
from gpulake.collect.settings import Settings
from gpulake.core.errors import GpulakeError, UsageError

GRACE_SECONDS = 5.0
PATIENCE_SECONDS = 15.0  # until the first tick is acknowledged
KILL_SECONDS = 5.0  # a killed process may have to wait for its disk
LOG_LINES = 3


@dataclass(frozen=True)
class Stopped:
    run: RunDir
    pid: int | None  # None: nothing ran
    signal: str  # TERM or KILL


@dataclass(frozen=True)
class Started:
    run: RunDir
    pid: int
    is_acknowledged: bool  # a first tick is on the disk
    replaced: Stopped


@dataclass(frozen=True)
class RunStatus:
    """A run of a node: whether it is being collected, and the last status of its collector."""

    run: RunDir
    state: str  # running, stopped, died, or hidden: not accessible
    status: dict[str, Any]


def find_runs(base: Path, run_id: str = "", node_id: str = "") -> list[RunDir]:
    """The runs under the folder; the newest first."""
    locks = [path for path in base.glob("*/*/collector.lock") if path.is_file()]
    wanted = [path for path in locks if run_id in ("", path.parent.parent.name) and node_id in ("", path.parent.name)]
    return [RunDir(path.parent) for path in sorted(wanted, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def run_status(run: RunDir) -> RunStatus:
    status = read_object(run.status)
    try:
        if lock.is_held(run.lock):
            return RunStatus(run, "running", status)
    except OSError:
        return RunStatus(run, "hidden", status)
    # A collector writes "running" first and "stopped" last.
    return RunStatus(run, "stopped" if status.get("state") == "stopped" else "died", status)


def is_here(run: RunDir) -> bool:
    """Whether its collector runs on this host; several hosts may share the folder over a network."""
    holder = lock.holder_of(run.lock)
    return holder is not None and _is_alive(holder, read_boot_id(Path("/proc")))


def stop(run: RunDir, *, grace_seconds: float = GRACE_SECONDS) -> Stopped:
    """Sends TERM, and KILL after the grace period."""
    try:
        if not lock.is_held(run.lock):
            return Stopped(run, None, "")
    except PermissionError as error:
        raise GpulakeError(
            f"{run.path} is another user's", "ask as the user who started its collector, or as root"
        ) from error
    except OSError as error:
        raise GpulakeError(f"no lock in {run.path}: {error.strerror}", "remove it, or choose another --dir") from error
    holder = _live_holder(run, read_boot_id(Path("/proc")))
    if holder is None:
        return Stopped(run, None, "")
    for name, seconds in (("TERM", grace_seconds), ("KILL", KILL_SECONDS)):
        _signal(holder, name)
        if lock.until(lambda: not lock.is_held(run.lock) and start_ticks_of(holder.pid) != holder.start_ticks, seconds):
            return Stopped(run, holder.pid, name)
    raise GpulakeError(
        f"process {holder.pid} was killed and is still there", "it waits inside the kernel, for a disk or a driver"
    )


def start(settings: Settings, *, more: Sequence[str] = (), grace_seconds: float = GRACE_SECONDS) -> Started:
    """Starts a collector in the background and returns once its first tick is acknowledged. A running collector of the
    same run is replaced. `more` are further arguments of the command line."""
    check(settings)
    identity = identity_of(settings)
    try_sources(settings)  # before the running one is stopped
    run = RunDir(settings.base / identity.run_id / identity.node_id)
    replaced = stop(run, grace_seconds=grace_seconds)
    try:
        prepare(run)
        answer = _spawn(run, [*settings.arguments(), *more])
    except OSError as error:
        raise GpulakeError(f"no files in {run.path}: {error.strerror}", "choose another --dir, or make room") from error
    if answer.get("error"):
        raise _failure(answer)
    holder = lock.holder_of(run.lock)
    if not answer and not lock.is_held(run.lock):
        raise GpulakeError("the collector ended at its start", f"its last words, in {run.log}: {_last_lines(run)}")
    return Started(run, holder.pid if holder else 0, bool(answer), replaced)


def collect_command() -> list[str]:
    """The command line that runs `gpulake collect` the way it runs now: from packages, or from a bundle."""
    flags = [flag for flag, is_set in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if is_set]
    root = Path(gpulake.__file__).parent.parent
    if root.is_file():
        return [sys.executable, *flags, str(root)]
    # -P: never import from the current folder.
    return [sys.executable, "-P", *flags, "-m", "gpulake.cli.collect"]


def answer_to(descriptor: int, answer: dict[str, Any]) -> None:
    """Sends the answer of a background collector to the process that started it, which may have ended."""
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, json.dumps(answer).encode() + b"\n")
    os.close(descriptor)


def _spawn(run: RunDir, arguments: Sequence[str]) -> dict[str, Any]:
    """The first answer of the collector, empty if it gave none. The spawned process forks, so that nobody waits for
    the collector."""
    with os.fdopen(open_file(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as log:
        answers, ask = os.pipe()
        try:
            spawned = subprocess.Popen(  # noqa: S603 - our own command
                [*collect_command(), "run", *arguments, f"--answer-to={ask}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(ask,),
                start_new_session=True,
            )
        finally:
            os.close(ask)
    spawned.wait()
    try:
        return _first_answer(answers)
    finally:
        os.close(answers)


def _first_answer(answers: int) -> dict[str, Any]:
    waiting = select.poll()
    waiting.register(answers, select.POLLIN | select.POLLHUP)
    if not waiting.poll(PATIENCE_SECONDS * 1000):
        return {}
    text = os.read(answers, 65_536)
    answer: dict[str, Any] = json.loads(text) if text else {}
    return answer


def _failure(answer: dict[str, Any]) -> GpulakeError:
    kind = UsageError if answer.get("exit_code") == UsageError.exit_code else GpulakeError
    return kind(str(answer["error"]), str(answer.get("hint", "")))


def _last_lines(run: RunDir) -> str:
    try:
        lines = read_file(run.log).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return " | ".join(lines[-LOG_LINES:])


def _live_holder(run: RunDir, boot_id: str) -> lock.Holder | None:
    """The process that holds the lock; None if it was released. A reused pid is never mistaken for it."""

    def is_settled() -> bool:
        return not lock.is_held(run.lock) or _is_alive(lock.holder_of(run.lock), boot_id)

    lock.until(is_settled, lock.PATIENCE_SECONDS)
    if not lock.is_held(run.lock):
        return None
    holder = lock.holder_of(run.lock)
    if holder is not None and _is_alive(holder, boot_id):
        return holder
    where = (
        f"on {holder.host_name}, or in a container" if holder and holder.boot_id != boot_id else "that is not seen here"
    )
    raise GpulakeError(
        f"{run.path} is held by a process {where}", "stop it where it runs, or give this node another --node-id"
    )


def _is_alive(holder: lock.Holder | None, boot_id: str) -> bool:
    return holder is not None and holder.boot_id == boot_id and start_ticks_of(holder.pid) == holder.start_ticks


def _signal(holder: lock.Holder, name: str) -> None:
    if start_ticks_of(holder.pid) != holder.start_ticks:
        return
    try:
        os.kill(holder.pid, signal.Signals[f"SIG{name}"])
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise GpulakeError(
            f"process {holder.pid} is another user's", "stop it as the user who started it, or as root"
        ) from error
