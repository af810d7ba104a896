"""The end of a file that grows, is truncated, or is replaced by another of its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from gpulake.core.errors import InputError

MOST_BYTES = 64 << 20  # read at one look


class Tail:
    """Reads whole lines; an unfinished one only where nothing was added to it between two reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._place = (0, 0)  # device and inode
        self._offset = 0
        self._open_bytes = 0  # of an unfinished line, at the last read
        self.is_behind = False  # there is more than one read takes

    def read(self) -> bytes:
        """The new lines of the open file, also when another file has its name now."""
        if self._file is None and not self._open():
            return b""
        assert self._file is not None
        content = os.pread(self._file.fileno(), MOST_BYTES, self._offset)
        self.is_behind = len(content) == MOST_BYTES
        end = content.rfind(b"\n") + 1
        rest = len(content) - end
        if self.is_behind and not end:
            end = len(content)
        elif not end and rest == self._open_bytes:
            end = rest  # its writer may be dead
        self._open_bytes = len(content) - end
        self._offset += end
        return content[:end]

    @property
    def is_replaced(self) -> bool:
        """Another file has the name now, or it was truncated. Read the old one to its end before reopening: the last
        lines of a job often come just before its log is rotated."""
        status = self._status()
        if self._file is None or status is None:
            return False
        return (status.st_dev, status.st_ino) != self._place or status.st_size < self._offset

    def reopen(self) -> None:
        """At the begin of the file that has the name now."""
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _open(self) -> bool:
        status = self._status()
        if status is None:
            return False
        try:
            self._file = self._path.open("rb")
        except OSError as error:
            raise InputError(f"cannot read {self._path}: {error.strerror}", "give a log that can be read") from error
        self._place = (status.st_dev, status.st_ino)
        self._offset = self._open_bytes = 0
        return True

    def _status(self) -> os.stat_result | None:
        """None while there is no file of that name."""
        try:
            return self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"cannot read {self._path}: {error.strerror}", "give a log that can be read") from error
