"""Files of /proc and /sys that are read again and again: opened once, then a reading costs one call, pread.

The kernel writes such a file anew for every read from its start.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

CHUNK_BYTES = 1 << 16
MOST_BYTES = 1 << 22  # no file here is that long; a stranger's environment may be
SPARE_DESCRIPTORS = 256  # for segments, sockets, the GPU driver and whoever else opens files in this process


class KeptFile:
    """One file, opened when it is first read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def read(self) -> bytes | None:
        """All of it; None if it is not there, not ours to read, or says nothing now."""
        try:
            if self._file < 0:
                self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            return _whole(self._file)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV, errno.ESRCH):
                self.close()  # what comes back under this name is another file
            return None

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Descriptors:
    """How many files may be kept open: those that this process is allowed, less a few."""

    def __init__(self, most: int | None = None) -> None:
        if most is None:
            limit = raise_limit()
            most = max(limit - SPARE_DESCRIPTORS, limit // 2)
        self._left = most

    def open(self, path: str) -> int:
        """A descriptor, or -1 where there is none left: then it is to be read with `read_once`."""
        if self._left <= 0:
            return -1
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._left = 0
            return -1
        self._left -= 1
        return file

    def close(self, file: int) -> None:
        if file >= 0:
            os.close(file)
            self._left += 1


def raise_limit() -> int:
    """Lets this process open as many files as it may at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, 1 << 20)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def read_once(path: str | Path) -> bytes:
    """All of a file that is not kept open. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _whole(file)
    finally:
        os.close(file)


def read_if_any(path: str | Path) -> bytes | None:
    """All of a file, or None if it cannot be read."""
    try:
        return read_once(path)
    except OSError:
        return None


def number_in(text: bytes | None) -> int | None:
    """The number that is all that a file says."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _whole(file: int) -> bytes:
    text = os.pread(file, CHUNK_BYTES, 0)
    # The kernel may answer with less than there is: only an empty answer is the end. A short file comes in one piece.
    while len(text) > 1024 and (more := os.pread(file, CHUNK_BYTES, len(text))):
        text += more
        if len(text) >= MOST_BYTES:
            break
    return text
