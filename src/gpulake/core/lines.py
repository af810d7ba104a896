"""Lines and documents of text files, each within a limit: a longer line is a BadRow, never held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gpulake.core.errors import InputError
from gpulake.core.types import BadRow

LONGEST_LINE_BYTES = 1 << 20
LARGEST_DOCUMENT_BYTES = 16 << 20  # of JSON: in memory it takes up to twenty times as much
KEPT_BYTES = 4096  # of a line that is too long
SKIPPED_BYTES = 1 << 18  # at a time
BLOCK_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"


def byte_lines(path: Path, longest: int = LONGEST_LINE_BYTES) -> Iterator[tuple[int, bytes | BadRow]]:
    """Number and line, with its end: a line feed alone ends one."""
    with path.open("rb") as file:
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        for number, line in enumerate(iter(lambda: file.readline(longest + 2), b""), start=1):
            if len(line) <= longest or line.endswith(b"\n"):
                yield number, line
                continue
            size = len(line) + _skipped(file)
            kept = line[:KEPT_BYTES].decode("utf-8", "replace")
            yield number, BadRow(number, f"row of {size} bytes; the longest allowed has {longest}", kept)


def line_blocks(path: Path) -> Iterator[tuple[int, bytes | BadRow]]:
    """The same lines, many at a time: the number of the first, and whole lines with their ends."""
    with path.open("rb") as file:
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        number, rest = 1, b""
        while chunk := file.read(BLOCK_BYTES):
            chunk = rest + chunk
            end = chunk.find(b"\n")
            if end > LONGEST_LINE_BYTES + 1 or (end < 0 and len(chunk) > LONGEST_LINE_BYTES + 1):
                is_whole = end >= 0
                size = end - chunk.endswith(b"\r", 0, end) if is_whole else len(chunk) + _skipped(file)
                kept = chunk[:KEPT_BYTES].decode("utf-8", "replace")
                reason = f"row of {size} bytes; the longest allowed has {LONGEST_LINE_BYTES}"
                yield number, BadRow(number, reason, kept)
                number, chunk = number + 1, chunk[end + 1 :] if is_whole else b""
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield number, chunk[:cut]
                number += chunk.count(b"\n", 0, cut)
            rest = chunk[cut:]
        if rest:
            yield number, rest


def _skipped(file: IO[bytes]) -> int:
    """How many bytes the rest of the line has, without its end."""
    size = 0
    while more := file.readline(SKIPPED_BYTES):
        size += len(more)
        if more.endswith(b"\n"):
            return size - (2 if more.endswith(b"\r\n") else 1)
    return size


def text_lines(path: Path, longest: int = LONGEST_LINE_BYTES) -> Iterator[tuple[int, str | BadRow]]:
    """The same as text; what is no UTF-8 is replaced."""
    for number, line in byte_lines(path, longest):
        yield number, line if isinstance(line, BadRow) else line.decode("utf-8", "replace")


def document(path: Path) -> str:
    """All of a small file."""
    size = path.stat().st_size
    if size > LARGEST_DOCUMENT_BYTES:
        message = f"a document of {size} bytes; the largest allowed has {LARGEST_DOCUMENT_BYTES}"
        raise InputError(message, "is this file what its name says?")
    return path.read_text(encoding="utf-8-sig", errors="replace")
