"""From what the user names to plain text files: folders, split parts, gzip, zstd and tar, in any mixture."""

from __future__ import annotations

import errno
import gzip
import io
import re
import shutil
import tarfile
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, pairwise
from pathlib import Path, PurePath
from typing import IO, Any, Self, TypeAlias

from gpulake.core.clock import LATEST_SECOND
from gpulake.core.config import LAKE_MARKER
from gpulake.core.errors import InputError
from gpulake.core.types import FailedFile
from gpulake.formats import wandb_file
from gpulake.formats.tfevents import EVENT_FILE

PART = re.compile(r"(?P<whole>.+)\.part-?(?P<number>[a-z]{2}|\d+)$")
TEXT_SUFFIXES = (".csv", ".json", ".jsonl", ".log", ".prom", ".txt", ".xml")
FOLDER_SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".gz", ".tgz", ".zst", ".tar")
# Philly's files as they are published: without an ending.
BARE_NAMES = ("cluster_job_log", "cluster_machine_list")
KERNEL_LOG = re.compile(r"dmesg|kmsg|kern(?:el)?[._-]", re.IGNORECASE)
NOTES = ("audit.json", "merge_report.json")
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
TAR_MAGIC_AT = 257
HEAD_BYTES = 64 * 1024
# What unpacks to more than this, and to so many times its own size, was made to fill a disk.
LEAST_BOMB_BYTES = 1 << 30
MOST_RATIO = 300
MOST_NAME_BYTES = 1 << 16  # of the name of a member of an archive, and of its other headers
MOST_MEMBERS = 100_000
MOST_NOTES = 1_000  # that an archive tells of all of its members
EXTENDED = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
TAR_SLIPS = (ValueError, RecursionError, OverflowError)  # what tarfile lets out of a damaged header
Buffered: TypeAlias = "io.BufferedReader[Any]"


@dataclass(frozen=True)
class Input:
    """One file as its owner thinks of it, though it may lie in several parts."""

    label: str
    parts: tuple[Path, ...]
    is_named: bool  # by the user, rather than found in a folder


@dataclass(frozen=True)
class PlainFile:
    source: str
    name: str
    folder: PurePath  # the one it lies in, on the disk or in its archive
    path: Path
    is_named: bool  # by the user: it must be recognised
    modified_at: datetime


@contextmanager
def failing_alone(source: str, failed: list[FailedFile] | None) -> Iterator[None]:
    """A file that cannot be landed is added to `failed`; without such a list, its error is raised."""
    try:
        yield
    except InputError as error:
        if failed is None:
            raise
        failed.append(FailedFile(source, error.message, error.hint))


def find_inputs(paths: Sequence[Path], failed: list[FailedFile] | None = None) -> list[Input]:
    found: list[tuple[Path, bool]] = []
    for path in paths:
        with failing_alone(str(path).encode("utf-8", "backslashreplace").decode(), failed):
            found.extend(_files(path))
    return list(_join_parts(found, failed))


def _files(path: Path) -> list[tuple[Path, bool]]:
    """The file, or those in the folder, and whether the user named it."""
    if any("\ud800" <= letter <= "\udfff" for letter in str(path)):
        raise InputError(f"the name of {str(path)!r} is not UTF-8", "rename it")
    if path.is_file():
        return [(path, True)]
    if not path.is_dir():
        raise InputError(f"no file or folder at {path}", "check the path")
    lakes = {marker.parent for marker in path.rglob(LAKE_MARKER)}  # what landed is not to land again
    inside = sorted(file for file in path.rglob("*") if _is_data(file) and lakes.isdisjoint(file.parents))
    if not inside:
        raise InputError(
            f"nothing to land in {path}", f"expected {', '.join(TEXT_SUFFIXES)} files, archives or their parts"
        )
    return [(file, False) for file in inside]


def unpack(item: Input, staging: Path) -> list[PlainFile]:
    """The plain files of an input. Compressed ones are unpacked whole before anything of them lands."""
    with _readable(item), ExitStack() as stack:
        raw = stack.enter_context(io.BufferedReader(_Joined(item.parts), HEAD_BYTES))
        head = raw.peek(HEAD_BYTES)
        if not head:
            raise InputError(f"{item.label} is empty", "nothing was landed from it")
        is_plain = not head.startswith((GZIP, ZSTD)) and not _is_tar(head)
        if is_plain and len(item.parts) == 1:
            path = item.parts[0]
            return [PlainFile(item.label, path.name, path.parent, path, item.is_named, _modified_at(path))]
        try:
            stream = io.BufferedReader(_Unpacked(item, _decompressed(raw, head)), HEAD_BYTES)
            plain = _write_members(item, stream, staging)
            # The checksum of the compression stands at its very end, behind the end of the archive.
            while stream.read(HEAD_BYTES):
                pass
        except (EOFError, gzip.BadGzipFile, tarfile.TarError, zlib.error, _TruncatedError, *TAR_SLIPS) as error:
            raise InputError(
                f"{item.label} is truncated or damaged: {error}", "fetch it again; nothing was landed"
            ) from error
    return plain


@contextmanager
def _readable(item: Input) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # A full disk is the lake's trouble, not the file's.
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise InputError(f"cannot read {item.label}: {error.strerror}", "check the file and its permissions") from error


def _is_bare(file: PurePath) -> bool:
    """By its whole name rather than its ending."""
    return file.name in BARE_NAMES or file.suffix == wandb_file.ENDING or EVENT_FILE.fullmatch(file.name) is not None


def _is_data(file: Path) -> bool:
    is_named_so = _is_bare(file) or file.name.endswith(FOLDER_SUFFIXES) or PART.match(file.name)
    if not file.is_file() or not is_named_so:
        return False
    # An empty text file holds no table, and neither do the reports about a collected run.
    if file.suffix == ".log" and not KERNEL_LOG.search(file.name):  # a log of something else may be anything
        return False
    return file.name not in NOTES and (file.suffix not in TEXT_SUFFIXES[1:] or file.stat().st_size > 0)


def _join_parts(found: list[tuple[Path, bool]], failed: list[FailedFile] | None) -> Iterator[Input]:
    # A path that is named twice, or named and found in a folder, is one file.
    once = {path.absolute(): is_named for path, is_named in sorted(found, key=lambda entry: entry[1])}
    for label, group in groupby(sorted(once, key=lambda path: (_whole(path), _part_number(path))), key=_whole):
        paths = list(group)
        # A file that lies beside the parts that it was joined from is read once.
        parts = paths if PART.match(paths[0].name) else paths[:1]
        if not _is_complete(parts):
            with failing_alone(label, failed):
                raise InputError(f"a part of {label} is missing", f"found: {', '.join(path.name for path in parts)}")
            continue
        yield Input(label, tuple(parts), any(once[path] for path in paths))


def _whole(path: Path) -> str:
    part = PART.match(str(path))
    return part["whole"] if part else str(path)


def _part_number(path: Path) -> int:
    """-1 for a whole file, so that it comes before its parts."""
    part = PART.match(path.name)
    if part is None:
        return -1
    number = part["number"]
    return int(number) if number.isdigit() else (ord(number[0]) - ord("a")) * 26 + ord(number[1]) - ord("a")


def _is_complete(parts: list[Path]) -> bool:
    """Parts follow each other from the first one, which is aa, 0, 00 and so on, or a plain 1."""
    numbers = [_part_number(path) for path in parts]
    starts_well = numbers[0] < 1 or parts[0].name.endswith((".part1", ".part-1"))
    return starts_well and all(after - before == 1 for before, after in pairwise(numbers))


def _is_tar(head: bytes) -> bool:
    return head[TAR_MAGIC_AT : TAR_MAGIC_AT + 5] == b"ustar"


class _TruncatedError(Exception):
    """The zstd reader's plain OSError, told apart from a disk's."""


class _Joined(io.RawIOBase):
    """The parts of a file, read as one."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._rest = list(parts)
        self._open = self._rest.pop(0).open("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._open.readinto(buffer)
        while not count and self._rest:
            self._open.close()
            self._open = self._rest.pop(0).open("rb", buffering=0)
            count = self._open.readinto(buffer)
        return int(count or 0)

    def close(self) -> None:
        self._open.close()
        super().close()


class _Zstd(io.RawIOBase):
    def __init__(self, raw: Buffered) -> None:
        import pyarrow as pa

        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._stream.read(len(buffer))
        except OSError as error:
            raise _TruncatedError(str(error)) from error
        buffer[: len(block)] = block
        return len(block)


class _Unpacked(io.RawIOBase):
    """What comes out of an input, as long as it is in proportion to what went in."""

    def __init__(self, item: Input, stream: Buffered) -> None:
        self._label = item.label
        self._stream = stream
        self._most = max(LEAST_BOMB_BYTES, MOST_RATIO * sum(part.stat().st_size for part in item.parts))
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._count += count
        if self._count > self._most:
            raise InputError(
                f"{self._label} unpacks to more than {self._most} bytes, {MOST_RATIO} times its size",
                "unpack it yourself and land the files in it, if that is what it should hold",
            )
        return count


class _Member(tarfile.TarInfo):
    """Headers of a member are held in memory before they can be checked: their size is limited."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in EXTENDED and found.size > MOST_NAME_BYTES:
            raise tarfile.ReadError(f"a name of {found.size} bytes")
        if found.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a file with holes")
        return found

    def _proc_gnusparse_10(self, *_: object) -> None:
        """Its list of holes may be as long as the archive."""
        raise tarfile.ReadError("a file with holes")


def _decompressed(raw: Buffered, head: bytes) -> Buffered:
    if head.startswith(GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), HEAD_BYTES)
    if head.startswith(ZSTD):
        return io.BufferedReader(_Zstd(raw), HEAD_BYTES)
    return raw


def _write_members(item: Input, stream: Buffered, staging: Path) -> list[PlainFile]:
    if not _is_tar(stream.peek(HEAD_BYTES)):
        path = _write(stream, staging)
        label, at = Path(item.label), _modified_at(item.parts[0])
        return [PlainFile(item.label, _bare_name(item.label), label.parent, path, item.is_named, at)]
    # Of several members of one name the last one counts, as it does for tar.
    plain: dict[str, PlainFile] = {}
    others = []
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
        for count, member in enumerate(archive):
            if count > MOST_MEMBERS or len(archive.pax_headers or ()) > MOST_NOTES or member.sparse is not None:
                raise tarfile.ReadError("too many members or notes, or a file with holes")
            content = archive.extractfile(member) if member.isfile() else None
            if content is None:
                continue
            inside = Path(member.name)
            if inside.suffix not in TEXT_SUFFIXES and not _is_bare(inside):
                others.append(member.name)
                continue
            path = _write(content, staging)
            # A note that comes with the tables is no reason to refuse them; a table of an unknown kind is.
            is_named = item.is_named and inside.suffix == ".csv"
            source = f"{item.label}!{member.name}"
            at = _instant(member.mtime)
            plain[member.name] = PlainFile(source, inside.name, inside.parent, path, is_named, at)
    if not plain or any(name.endswith(FOLDER_SUFFIXES) for name in others):
        held = f"; it holds {', '.join(others[:5])}" if others else ""
        raise InputError(
            f"{item.label} holds no {', '.join(TEXT_SUFFIXES)} file, or not only{held}",
            "unpack it and land the files in it",
        )
    return list(plain.values())


def _write(content: IO[bytes], staging: Path) -> Path:
    path = staging / f"{uuid.uuid4().hex}.txt"
    with path.open("wb") as out:
        shutil.copyfileobj(content, out, 1 << 20)
    return path


def _modified_at(path: Path) -> datetime:
    return _instant(path.stat().st_mtime)


def _instant(seconds: float) -> datetime:
    """An archive may say anything; what the lake could not hold becomes its nearest bound."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), LATEST_SECOND - 1), UTC)


def _bare_name(label: str) -> str:
    return Path(label).name.removesuffix(".gz").removesuffix(".zst")
