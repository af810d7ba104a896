"""Log files that other programs append to and rotate: read to their current end, and on from there."""

from __future__ import annotations

import errno
import hashlib
import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

from gpulake.collect.adapters import Line
from gpulake.collect.tracing.invocation import id_from
from gpulake.core.errors import InputError

CHUNK_BYTES = 1 << 18
LONGEST_LINE_BYTES = 64 << 20  # longer lines are cut: a line without an end must not exhaust memory


class Lines:
    """Splits bytes into lines and tracks the number and the end offset of the last complete line."""

    def __init__(self, number: int = 0, offset: int = 0) -> None:
        self.number = number
        self.offset = offset  # behind the last line
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Line]:
        whole, end, rest = (self._rest + chunk).rpartition(b"\n")
        self._rest = rest
        if end:
            for text in whole.split(b"\n"):
                yield self._line(text, len(text) + 1)
        if len(self._rest) > LONGEST_LINE_BYTES:
            yield from self.last(is_ended=True)

    def last(self, *, is_ended: bool) -> Iterator[Line]:
        """The last line without an end; if it may still be written, the offset stays before it."""
        if self._rest:
            offset = self.offset
            yield self._line(self._rest, len(self._rest), is_ended=is_ended)
            self.offset = self.offset if is_ended else offset
            self._rest = b""

    def _line(self, text: bytes, size: int, *, is_ended: bool = True) -> Line:
        self.number += 1
        self.offset += size
        # Invalid UTF-8 is escaped as nginx does it.
        return Line(self.number, text.removesuffix(b"\r").decode("utf-8", "backslashreplace"), is_ended)


class GrowingFile:
    """An open file: it stays the same when it is renamed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._first = self._read_first()
        except OSError as error:
            hint = (
                "pipe it in, and write - for it"
                if error.errno == errno.ESPIPE
                else "check the path and who may read it"
            )
            raise InputError(f"cannot read {str(path)!r}: {error.strerror}", hint) from error
        self._number = os.fstat(self._file).st_ino
        self._read_to = 0

    @property
    def source_id(self) -> str:
        """Identifies the file also after a rename; changes when the file is truncated and rewritten."""
        return id_from(self._number, self._first.decode("utf-8", "backslashreplace"))

    @property
    def is_begun(self) -> bool:
        """Whether its first line is complete or long enough to identify the file."""
        return self._first.endswith(b"\n") or len(self._first) >= CHUNK_BYTES

    @property
    def is_cut(self) -> bool:
        """Whether it was truncated since it was opened, even if it has grown again."""
        return os.fstat(self._file).st_size < self._read_to or not self._read_first().startswith(self._first)

    def has(self, offset: int) -> bool:
        """Whether it reaches that far: a truncated log may begin with the same line again."""
        return os.fstat(self._file).st_size >= offset

    def is_replaced(self) -> bool:
        """Whether another file has its name now. A missing name may come back."""
        try:
            return self.path.stat().st_ino != self._number
        except FileNotFoundError:
            return False

    def lines(self, lines: Lines) -> Iterator[Line]:
        """From the offset of `lines` to the current end."""
        self._read_to = max(self._read_to, lines.offset)
        while chunk := os.pread(self._file, CHUNK_BYTES, self._read_to):
            self._read_to += len(chunk)
            yield from lines.feed(chunk)

    def digest(self) -> str:
        """Of the whole content."""
        digest = hashlib.sha256()
        offset = 0
        while chunk := os.pread(self._file, CHUNK_BYTES, offset):
            digest.update(chunk)
            offset += len(chunk)
        return digest.hexdigest()[:16]

    def close(self) -> None:
        os.close(self._file)

    def _read_first(self) -> bytes:
        found = os.pread(self._file, CHUNK_BYTES, 0)
        line, end, _ = found.partition(b"\n")
        return line + end


def piped_lines(descriptor: int, pause: Callable[[], None]) -> Iterator[Line]:
    """Lines of a pipe to its end; `pause` is called before waiting for the next one."""
    lines = Lines()
    while chunk := os.read(descriptor, CHUNK_BYTES):
        yield from lines.feed(chunk)
        if not select.select([descriptor], [], [], 0)[0]:
            pause()
    yield from lines.last(is_ended=True)
