"""Log files, plain or compressed: a file, a folder of files, or standard input."""

from __future__ import annotations

import codecs
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from gpulake.core.errors import InputError
from gpulake.diagnose.logs.shapes import cleaned, is_binary, readable

CHUNK_BYTES = 1 << 20
# Decompressed at a time: of a truncated stream, the last portion is lost.
UNPACKED_BYTES = 1 << 14
STANDARD_INPUT = "-"
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# Files beside logs that are none.
_OTHER_ENDINGS = (
    ".pt .pth .ckpt .safetensors .bin .npy .npz .pkl .pickle .parquet .arrow .h5 .onnx .pb .idx .png .jpg .jpeg .gif"
    " .svg .pdf .html .css .js .py .pyc .so .o .a .whl .zip .tar .tgz .bz2 .xz .7z .csv .tsv .yaml .yml .toml .ini .cfg"
    " .md .db .sqlite .db-wal .db-shm .mp4 .wav .lock .tmp .swp .prom"
)
_NO_LOGS = frozenset(_OTHER_ENDINGS.split())
_FLIGHT_DUMP = re.compile(r"(?:^|[_\W])(?:dump_?|trace_rank_?|nccl_trace.*?rank_?)\d+(?:\.json)?$|_dump_\d+\.json$")
_SNIFFED_BYTES = 8192
_RUN_OF_DIGITS = re.compile(r"(\d+)")


@dataclass
class LogFile:
    """One file of a log. Read it once."""

    name: str  # relative to the given folder
    path: Path | None  # None: standard input
    trouble: str = field(default="", compare=False)  # known after reading: why it could not be read to its end

    def chunks(self) -> Iterator[bytes]:
        """Its text, decompressed. A truncated file gives what it has, and `trouble` says so."""
        try:
            with self.path.open("rb") if self.path is not None else nullcontext(sys.stdin.buffer) as file:
                yield from self._sniffed(_as_utf_8(self._unpacked(file)))
        except OSError as error:
            raise _unreadable(self.name, error) from error

    def lines(self) -> Iterator[tuple[int, str]]:
        """Its lines with their numbers, each state of a progress bar, too; of a very long line the beginning."""
        number, held = 1, b""
        for chunk in self.chunks():
            *whole, held = (held + chunk).split(b"\n")
            for line in whole:
                yield from ((number, text) for text in _states(line))
                number += 1
            held = held[:CHUNK_BYTES]
        yield from ((number, text) for text in _states(held))

    def _sniffed(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        first = next(chunks, b"")
        if is_binary(first[:_SNIFFED_BYTES].lstrip(b"\0")):
            self.trouble = f"{self.name} does not look like text: is it a log?"
        return _again(first, chunks)

    def _unpacked(self, file: BinaryIO) -> Iterator[bytes]:
        raw = iter(lambda: file.read(CHUNK_BYTES), b"")
        first = next(raw, b"")
        while 0 < len(first) < len(ZSTD) and (more := next(raw, b"")):
            first += more
        whole = _again(first, raw)
        if first.startswith(GZIP):
            return self._said(_gunzipped(whole), "gzip")
        if first.startswith(ZSTD) or ZSTD_SKIPPABLE.match(first):
            return self._said(_unzstd(whole), "zstd")
        return whole

    def _said(self, chunks: Iterator[bytes], packing: str) -> Iterator[bytes]:
        try:
            yield from chunks
        except (EOFError, zlib.error, ValueError) as error:
            self.trouble = f"{self.name} breaks off: its {packing} stream is incomplete or damaged ({error})"


@dataclass(frozen=True)
class Logs:
    """The logs of a path."""

    files: tuple[LogFile, ...]
    flight_dumps: tuple[Path, ...] = ()  # NCCL flight-recorder dumps, by rank
    is_folder: bool = False


def open_logs(path: str | Path) -> Logs:
    """The logs of a file, a folder of them, or standard input. Nothing is read yet, but for the first bytes."""
    if str(path) == STANDARD_INPUT:
        return Logs((LogFile(STANDARD_INPUT, None),))
    path = Path(path)
    try:
        if path.is_dir():
            return _of_folder(path)
        if not path.exists():
            raise InputError(f"no such log: {path}", "give a file, a folder of files, or - for what is piped in")
        with path.open("rb"):
            pass
    except OSError as error:
        raise _unreadable(str(path), error) from error
    if _is_flight_dump(path):
        return Logs((), (path,))
    return Logs((LogFile(path.name, path),))


def _of_folder(folder: Path) -> Logs:
    found = sorted(
        (path for path in folder.rglob("*") if _is_visible(path, folder)), key=lambda path: _natural(path, folder)
    )
    dumps = tuple(path for path in found if _is_flight_dump(path))
    others = set(dumps)
    files = tuple(
        LogFile(path.relative_to(folder).as_posix(), path) for path in found if path not in others and _is_log(path)
    )
    if not files and not dumps:
        raise InputError(f"no log in {folder}", "text files are logs, plain or packed with gzip or zstd")
    return Logs(files, dumps, is_folder=True)


def _is_visible(path: Path, folder: Path) -> bool:
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _natural(path: Path, folder: Path) -> list[list[tuple[int, str]]]:
    """Rank 10 comes after rank 9."""
    return [
        [(int(word), "") if word.isdecimal() else (-1, word) for word in _RUN_OF_DIGITS.split(part) if word]
        for part in path.relative_to(folder).parts
    ]


def _is_log(path: Path) -> bool:
    if path.suffix.lower() in _NO_LOGS or path.stat().st_size == 0:
        return False
    try:
        first = next(LogFile(path.name, path).chunks(), b"")[:_SNIFFED_BYTES]
    except InputError:
        return True  # the error is raised when it is read
    return not is_binary(first.lstrip(b"\0"))  # a file with a hole at its start may still be a log


def _is_flight_dump(path: Path) -> bool:
    """By its name and its first bytes: a log may have such a name."""
    if not _FLIGHT_DUMP.search(path.name):
        return False
    with path.open("rb") as file:
        first = file.read(_SNIFFED_BYTES)
    return first.lstrip().startswith(b"{") or first.startswith(b"\x80")  # JSON, or PyTorch's pickle


def _states(line: bytes) -> Iterator[str]:
    return (readable(state) for state in cleaned(line[:CHUNK_BYTES]).split(b"\r") if state)


def _again(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _gunzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """All members; zeros at the end are padding."""
    unpacker = zlib.decompressobj(wbits=31)
    is_open = False
    for chunk in chunks:
        data = chunk
        while data:
            if unpacker.eof:
                data = data.lstrip(b"\0")
                if not data:
                    break
                unpacker = zlib.decompressobj(wbits=31)
            if unpacked := unpacker.decompress(data, CHUNK_BYTES):
                yield unpacked
            data = unpacker.unconsumed_tail or unpacker.unused_data
            is_open = not unpacker.eof
    if is_open:
        yield unpacker.flush()
        raise EOFError("the end is missing")


def _unzstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    import pyarrow as pa

    source = pa.PythonFile(_Readable(chunks), mode="r")
    with pa.CompressedInputStream(source, "zstd") as stream:
        try:
            while chunk := stream.read(UNPACKED_BYTES):
                yield chunk
        except OSError as error:
            raise EOFError(str(error)) from error


class _Readable:
    """Chunks as a file object."""

    closed = False

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        while (size < 0 or len(self._held) < size) and (chunk := next(self._chunks, b"")):
            self._held += chunk
        end = len(self._held) if size < 0 else size
        taken, self._held = self._held[:end], self._held[end:]
        return taken

    def close(self) -> None:
        self.closed = True


def _as_utf_8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Converts UTF-16, recognised by its byte order mark, to UTF-8."""
    stream = iter(chunks)
    first = next(stream, b"")
    while 0 < len(first) < 2 and (more := next(stream, b"")):
        first += more
    if encoding := _UTF_16.get(first[:2]):
        decode: Callable[..., str] = codecs.getincrementaldecoder(encoding)("replace").decode
        for chunk in _again(first[2:], stream):
            yield decode(chunk).encode("utf-8", "replace")
        yield decode(b"", final=True).encode("utf-8", "replace")
        return
    yield from _again(first.removeprefix(codecs.BOM_UTF8), stream)


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(f"cannot read {name}: {error.strerror or error}", "check that the file is there and may be read")
