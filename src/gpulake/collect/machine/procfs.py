"""Files of /proc and /sys that are read repeatedly: opened once, then each read costs one call, pread.

The kernel generates the content again for every read from the start.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

CHUNK_BYTES = 1 << 16
MOST_BYTES = 1 << 22  # no file of the kernel is longer; the environment of a process may be
SPARE_DESCRIPTORS = 256  # reserved for segments, sockets, the GPU driver and other users of this process


class KeptFile:
    """One file, opened when it is first read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def read(self) -> bytes | None:
        """The content; None if the file is missing, not readable, or has no value now."""
        try:
            if self._file < 0:
                self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            return _whole(self._file)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV, errno.ESRCH):
                self.close()  # a file that reappears under this name is another one
            return None

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Descriptors:
    """Limits how many files are kept open: what this process is allowed, less a reserve."""

    def __init__(self, most: int | None = None) -> None:
        if most is None:
            limit = raise_limit()
            most = max(limit - SPARE_DESCRIPTORS, limit // 2)
        self._left = most

    def open(self, path: str) -> int:
        """A descriptor, or -1 if none is left: then read with `read_once`."""
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
    """Raises the limit of open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, 1 << 20)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def read_once(path: str | Path) -> bytes:
    """The content of a file that is not kept open. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _whole(file)
    finally:
        os.close(file)


def read_if_any(path: str | Path) -> bytes | None:
    """The content of a file, or None if it cannot be read."""
    try:
        return read_once(path)
    except OSError:
        return None


def read_text(path: str | Path) -> str:
    """The same as text; empty if it cannot be read."""
    return (read_if_any(path) or b"").decode("utf-8", "replace")


def start_ticks_of(pid: int) -> int | None:
    """When the process started, in ticks since boot; None if there is none, or only a zombie."""
    # The name stands in brackets and may contain brackets and spaces.
    fields = (read_if_any(f"/proc/{pid}/stat") or b"").rpartition(b")")[2].split()
    return None if len(fields) < 20 or fields[0] in (b"Z", b"X") else int(fields[19])


def number_in(text: bytes | None) -> int | None:
    """The content of a file as one number."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _whole(file: int) -> bytes:
    text = os.pread(file, CHUNK_BYTES, 0)
    # The kernel may return less than there is: only an empty read is the end. A short file comes in one piece.
    while len(text) > 1024 and (more := os.pread(file, CHUNK_BYTES, len(text))):
        text += more
        if len(text) >= MOST_BYTES:
            break
    return text
