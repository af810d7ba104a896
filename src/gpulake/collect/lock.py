"""The lock of a RUN_DIR: held by its collector as long as that lives, whatever becomes of its files."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gpulake.collect.rundir import open_file, read_file

PATIENCE_SECONDS = 1.0  # who only looks holds the lock for a moment, and a holder writes its name after it took it
PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class Holder:
    """Who holds a lock. A pid is reused; together with its start and the boot it is not."""

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
    os.utime(file)  # when the run was last begun
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
    """What the lock's file says; it says it of the past too, when nobody holds the lock."""
    try:
        return Holder(**json.loads(read_file(path)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def start_ticks_of(pid: int) -> int | None:
    """When the process began, in ticks since boot; None if there is none, or only a dead one that nobody buried."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # Its name stands in brackets and may hold any letter, brackets too.
    fields = stat[stat.rindex(b")") :].split()
    return None if fields[1] in (b"Z", b"X") else int(fields[20])


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true in so many seconds."""
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
