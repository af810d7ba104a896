"""The end of a file that grows, is cut, or is replaced by another of its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from gpulake.core.errors import InputError

MOST_BYTES = 64 << 20  # read at one look


class Tail:
    """Whole lines only: the rest of a line is read when it is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._place = (0, 0)  # device and inode
        self._offset = 0

    def read(self) -> tuple[bytes, bool]:
        """What is new, and whether it is another file, or the same one from its beginning, since the last look."""
        is_new = self._reopen()
        return self._rest(), is_new

    def _rest(self) -> bytes:
        if self._file is None:
            return b""
        content = os.pread(self._file.fileno(), MOST_BYTES, self._offset)
        end = content.rfind(b"\n") + 1
        if not end and len(content) == MOST_BYTES:
            end = len(content)
        self._offset += end
        return content[:end]

    def _reopen(self) -> bool:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            # Between its being moved away and the next one.
            return False
        except OSError as error:
            raise InputError(f"cannot read {self._path}: {error.strerror}", "give a log that can be read") from error
        place = (status.st_dev, status.st_ino)
        if self._file is not None and place == self._place and status.st_size >= self._offset:
            return False
        is_first = self._file is None
        if self._file is not None:
            self._file.close()
        try:
            self._file = self._path.open("rb")
        except OSError as error:
            raise InputError(f"cannot read {self._path}: {error.strerror}", "give a log that can be read") from error
        self._place = place
        self._offset = 0
        return not is_first
