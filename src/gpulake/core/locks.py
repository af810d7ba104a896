"""File locks: released with the process, so that a crash never leaves one behind."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gpulake.core.errors import LakeBusyError

MOST_WAIT_SECONDS = 3.0  # holders usually need a fraction of a second
POLL_SECONDS = 0.02


@contextmanager
def locked(path: Path, busy: LakeBusyError, is_patient: bool = False) -> Iterator[None]:
    """An exclusive lock. A patient caller waits up to MOST_WAIT_SECONDS; then `busy` is raised."""
    deadline = time.monotonic() + (MOST_WAIT_SECONDS if is_patient else 0.0)
    with path.open("a") as lock:
        while not _acquire(lock, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise busy
            time.sleep(POLL_SECONDS)
        yield


def is_locked(path: Path) -> bool:
    """False as well where it cannot be known."""
    if not os.access(path, os.R_OK):
        return False
    with path.open("rb") as lock:
        return not _acquire(lock, fcntl.LOCK_SH)


def _acquire(lock: IO[Any], kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
