"""The user who wrote a log, according to the file system."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

ROOT = 0  # writes for every user


def sole_writer(log: Path) -> str | None:
    """The owner, where no other user can write the file; else None. Of a folder, all files and the folder itself."""
    try:
        paths = [log, *(log.rglob("*") if log.is_dir() else ())]
        entries = [os.lstat(path) for path in paths]
        owners = {entry.st_uid for entry in entries}
        is_open = any(entry.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for entry in entries)
        is_plain = all(stat.S_ISREG(entry.st_mode) or stat.S_ISDIR(entry.st_mode) for entry in entries)
        if len(owners) != 1 or is_open or not is_plain or owners == {ROOT}:
            return None
        return pwd.getpwuid(owners.pop()).pw_name
    except (OSError, KeyError):
        return None
