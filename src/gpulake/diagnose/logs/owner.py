"""Who wrote a log, as far as the file system tells."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

ROOT = 0  # speaks for everybody, and so says nothing of whose job it is


def sole_writer(log: Path) -> str | None:
    """The user whose file it is, and whom alone it can be from; None where there is doubt. Of a folder, all files and
    the folder itself."""
    try:
        paths = [log, *(log.rglob("*") if log.is_dir() else ())]
        found = [os.lstat(path) for path in paths]
        owners = {entry.st_uid for entry in found}
        is_open = any(entry.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for entry in found)
        is_plain = all(stat.S_ISREG(entry.st_mode) or stat.S_ISDIR(entry.st_mode) for entry in found)
        if len(owners) != 1 or is_open or not is_plain or owners == {ROOT}:
            return None
        return pwd.getpwuid(owners.pop()).pw_name
    except (OSError, KeyError):
        return None
