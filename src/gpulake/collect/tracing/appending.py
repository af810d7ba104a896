"""Appending to files that several processes write: a line goes out in one write, so that others do not tear it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import is_dataclass
from pathlib import Path

from gpulake.collect.rundir import open_file
from gpulake.core.disk import make_folder, sync


class Appender:
    """Appends rows as lines of JSON. What was appended outlives this process; after `sync`, the machine, too.

    Where a writer was killed or the disk was full in the middle of a line, the next line begins on its own.
    """

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self._file = open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(self._file).st_size
        if not size:
            sync(path.parent)  # of a file that is new, the name
        self._is_torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def append(self, rows: Iterable[object]) -> None:
        """All rows in one write. Raises OSError if not all of them were written."""
        content = b"".join(line_of(row) for row in rows)
        if not content:
            return
        if self._is_torn:
            content = b"\n" + content
        self._is_torn = True
        written = os.write(self._file, content)
        while written < len(content):
            written += os.write(self._file, content[written:])
        self._is_torn = False

    def sync(self) -> None:
        os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)


def append_synced(path: Path, rows: Iterable[object]) -> None:
    """Appends, and returns once the rows are on the disk."""
    file = Appender(path)
    try:
        file.append(rows)
        file.sync()
    finally:
        file.close()


def line_of(row: object) -> bytes:
    """A row as a line of JSON; what is no text in Unicode is replaced, so that every reader can read it."""
    # The rows of dataclasses are flat: no need to copy them first.
    content = vars(row) if is_dataclass(row) else row
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"
