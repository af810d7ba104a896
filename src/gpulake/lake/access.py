"""Who may read the lake: its owner alone, unless the setting lake_access says otherwise when it is made.

From then on the mode of the lake's folder rules: files are made with no more rights than it has. So a lake that was
made before, or whose mode was changed with chmod, stays as open as it is, and `gpulake doctor` says so.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpulake.core.config import LAKE_MODES
from gpulake.core.disk import make_folder

_turn = threading.Lock()
_within = 0
_usual = -1


def make_root(root: Path, access: str) -> None:
    """A folder that was there, and is empty, is made as private."""
    make_folder(root, LAKE_MODES["owner"])
    # Some file systems have no modes; `gpulake doctor` reports the result.
    with suppress(OSError):
        root.chmod(LAKE_MODES[access])


@contextmanager
def as_private_as(root: Path) -> Iterator[None]:
    """What is written meanwhile has no more rights than the folder. The umask is the process's: the last one out
    gives it back."""
    global _within, _usual  # noqa: PLW0603 - there is one umask
    with _turn:
        if _within == 0:
            _usual = os.umask(0o777 & ~stat.S_IMODE(root.stat().st_mode))
        _within += 1
    try:
        yield
    finally:
        with _turn:
            _within -= 1
            if _within == 0:
                os.umask(_usual)
                _usual = -1


def usual_umask() -> int:
    """Umask for child processes: their files are not part of the lake. -1: unchanged."""
    return _usual


def too_open(root: Path, access: str) -> int:
    """The rights that the folder gives beyond the setting."""
    return stat.S_IMODE(root.stat().st_mode) & 0o777 & ~LAKE_MODES[access]
