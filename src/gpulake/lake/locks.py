"""Locks of files: they go with the process, so that a crash never leaves one behind."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gpulake.core.errors import LakeBusyError
from gpulake.lake.engine import lake_errors

MOST_WAIT_SECONDS = 3.0  # for others who are done in a fraction of a second
LOOK_SECONDS = 0.02


@contextmanager
def locked(path: Path, busy: LakeBusyError, is_patient: bool = False) -> Iterator[None]:
    """One at a time. Who is patient waits a while for the others; else, and after that, it is busy."""
    deadline = time.monotonic() + (MOST_WAIT_SECONDS if is_patient else 0.0)
    with lake_errors(f"locking {path}"):
        lock = path.open("a")
    with lock:
        while not _is_taken(lock):
            if time.monotonic() >= deadline:
                raise busy
            time.sleep(LOOK_SECONDS)
        yield


def _is_taken(lock: IO[Any]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
