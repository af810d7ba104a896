"""The lock of a RUN_DIR: held by its collector while it lives, even if its files are deleted."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gpulake.collect.machine.procfs import start_ticks_of
from gpulake.collect.rundir import open_file, read_object

PATIENCE_SECONDS = 1.0  # a check takes the lock for a moment, and a holder writes its name after it took it
PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock. Pids are reused; pid, start and boot together are unique."""

    pid: int
    start_ticks: int
    boot_id: str
    host_id: str
    host_name: str


class LockedError(Exception):
    """Another collector holds the lock."""

    def __init__(self, holder: Holder | None) -> None:
        super().__init__("the lock is held")
        self.holder = holder


def take(path: Path, *, boot_id: str, host_id: str, host_name: str) -> int:
    """The open file, which holds the lock until it is closed or the process ends."""
    file = open_file(path, os.O_RDWR | os.O_CREAT)
    if not until(lambda: _try(file, fcntl.LOCK_EX), PATIENCE_SECONDS):
        os.close(file)
        raise LockedError(holder_of(path))
    holder = Holder(os.getpid(), start_ticks_of(os.getpid()) or 0, boot_id, host_id, host_name)
    page = json.dumps(asdict(holder)).encode().ljust(512) + b"\n"
    os.pwrite(file, page, 0)
    os.utime(file)  # when the run was last started
    return file


def is_held(path: Path) -> bool:
    try:
        file = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _try(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def holder_of(path: Path) -> Holder | None:
    """The holder written in the lock file; the last one, when the lock is free."""
    try:
        return Holder(**read_object(path))
    except TypeError:
        return None


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition became true within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def _try(file: int, operation: int) -> bool:
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
