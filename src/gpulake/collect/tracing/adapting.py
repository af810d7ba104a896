"""Logs into a run: parsed invocations are appended, rejected lines are kept, and the position is remembered.

A log grows and is rotated while it is read. Rows are on the disk before the position is. After a crash in between some
lines are read again and get the same ids: `parse` drops duplicates.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import select
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from gpulake.collect.adapters import ADAPTERS, AdapterOptions, Line, Outcome, Parsed, Rejected, Skipped
from gpulake.collect.rundir import RunDir, read_object
from gpulake.collect.tracing.appending import append_synced
from gpulake.collect.tracing.invocation import id_from
from gpulake.core.errors import GpulakeError, InputError, UsageError

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
        with os.fdopen(os.dup(self._file), "rb") as content:
            content.seek(0)
            return hashlib.file_digest(content, "sha256").hexdigest()[:16]

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


BATCH = 10_000
KEPT_CHARACTERS = 1 << 16  # of a rejected text


@dataclass(frozen=True)
class Tally:
    """Counts of a file. invocations + rejected + left out = lines, rows or spans that were read."""

    file: str
    invocations: int = 0
    rejected: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)  # by reason
    was_read_before: bool = False  # in part, or completely


class LogImport:
    def __init__(self, name: str, run: RunDir, options: AdapterOptions) -> None:
        self._name = name
        self._run = run
        self._options = options
        self._build = ADAPTERS.get(name)
        # With other options, a file is read again.
        self._key = id_from(
            options.format, options.trace_field, options.module, options.zone, options.node, options.stage
        )
        self.is_resumable = self._build(options).is_resumable

    def read(self, path: Path) -> Tally:
        """To the current end of the file."""
        file = GrowingFile(path)
        try:
            return self._read(file, more=lambda: False) if self.is_resumable else self._read_whole(file)
        finally:
            file.close()

    def read_pipe(self, descriptor: int) -> Tally:
        batch = _Batch(self._name, self._run, "-")
        lines = piped_lines(descriptor, batch.write)
        first = next(lines, None)
        if first is None:
            return batch.tally()
        return self._adapt(id_from("-", first.text), chain([first], lines), batch)

    def follow(self, path: Path, wait: Callable[[], bool]) -> Iterator[Tally]:
        """While `wait` returns True; one tally per file that had the name."""
        if not self.is_resumable:
            raise UsageError(f"{self._name} cannot follow a file", "read it again once it is written anew")
        GrowingFile(path).close()  # it may be missing for a while later; at first that is a mistake
        while file := _begun(path, wait):
            last_look = _LastLook(file, wait)
            try:
                yield self._read(file, more=last_look.more)
            finally:
                file.close()
            if last_look.is_stopped:
                return

    def _read(self, file: GrowingFile, more: Callable[[], bool]) -> Tally:
        state = self._state_file(file.source_id)
        offset, number = _position(state)
        lines = Lines(number, offset) if file.has(offset) else Lines()
        batch = _Batch(self._name, self._run, str(file.path), was_read_before=lines.number > 0)

        def checkpoint() -> None:
            batch.write()
            # Lines that the adapter holds back are not processed yet.
            if batch.last_line == lines.number > 0:
                _save(state, {"file": str(file.path), "lines": lines.number, "offset": lines.offset})

        def given() -> Iterator[Line]:
            while True:
                for line in file.lines(lines):
                    yield line
                    if batch.is_full:
                        checkpoint()
                checkpoint()
                if not more():
                    break
            yield from lines.last(is_ended=False)

        return self._adapt(file.source_id, given(), batch)

    def _read_whole(self, file: GrowingFile) -> Tally:
        """For adapters that are not resumable: a file is read once, recognised by its content."""
        digest = file.digest()
        state = self._state_file(digest)
        if state.exists():
            return Tally(str(file.path), was_read_before=True)
        lines = Lines()
        every = chain(file.lines(lines), lines.last(is_ended=False))
        tally = self._adapt(digest, every, _Batch(self._name, self._run, str(file.path)))
        _save(state, {"file": str(file.path), "lines": lines.number})
        return tally

    def _adapt(self, source_id: str, lines: Iterator[Line], batch: _Batch) -> Tally:
        for outcome in self._build(replace(self._options, source_id=source_id)).read(lines):
            batch.add(outcome)
        batch.write()
        return batch.tally()

    def _state_file(self, source_id: str) -> Path:
        return self._run.path / "adapted" / f"{self._name}.{source_id}.{self._key}.json"


class _LastLook:
    """Waits for more lines, until stopped, or until the file was replaced or truncated and read once more."""

    def __init__(self, file: GrowingFile, wait: Callable[[], bool]) -> None:
        self._file = file
        self._wait = wait
        self._is_over = False
        self.is_stopped = False

    def more(self) -> bool:
        if self._is_over:
            return False
        # After a rotation the writer may still write to the old file for a moment.
        self._is_over = self._file.is_replaced()
        self.is_stopped = not self._wait()
        # In a truncated file the offsets are meaningless.
        return not self.is_stopped and not self._file.is_cut


class _Batch:
    """Outcomes that are not written yet."""

    def __init__(self, name: str, run: RunDir, file: str, *, was_read_before: bool = False) -> None:
        self._name = name
        self._run = run
        self._file = file
        self._was_read_before = was_read_before
        self._waiting: list[Outcome] = []
        self._counts: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self.last_line = 0

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= BATCH

    def add(self, outcome: Outcome) -> None:
        self.last_line = outcome.line_number
        self._waiting.append(outcome)
        if len(self._waiting) >= 2 * BATCH:  # the lines that produced them are not checkpointed one by one
            self.write()

    def write(self) -> None:
        parsed = [outcome for outcome in self._waiting if isinstance(outcome, Parsed)]
        rejected = [outcome for outcome in self._waiting if isinstance(outcome, Rejected)]
        self._append(self._run.events(self._name, os.getpid()), [outcome.invocation for outcome in parsed])
        self._append(self._run.placement_events, [event for outcome in parsed for event in outcome.placements])
        kept = [
            {
                "file": self._file,
                "line_number": outcome.line_number,
                "reason": outcome.reason,
                "text": outcome.text[:KEPT_CHARACTERS],
            }
            for outcome in rejected
        ]
        self._append(self._run.path / f"rejected.{self._name}.jsonl", kept)
        self._counts.update(parsed=len(parsed), rejected=len(rejected))
        self._skipped.update(outcome.reason for outcome in self._waiting if isinstance(outcome, Skipped))
        self._waiting = []

    def tally(self) -> Tally:
        counts = self._counts
        skipped = dict(sorted(self._skipped.items()))
        return Tally(self._file, counts["parsed"], counts["rejected"], skipped, self._was_read_before)

    def _append(self, path: Path, rows: list[Any]) -> None:
        if rows:
            with _writing(path):
                append_synced(path, rows)


def _begun(path: Path, wait: Callable[[], bool]) -> GrowingFile | None:
    """The file of that name, once it exists and has a first line; None: stopped."""
    while True:
        if path.exists():
            file = GrowingFile(path)
            if file.is_begun:
                return file
            file.close()
        if not wait():
            return None


def _position(state: Path) -> tuple[int, int]:
    """Offset and line number up to which a file was read; without a valid state it is read from the start."""
    known = read_object(state)
    try:
        return int(known["offset"]), int(known["lines"])
    except (ValueError, KeyError, TypeError):
        return 0, 0


def _save(path: Path, state: Mapping[str, object]) -> None:
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        new.write_text(json.dumps(state), encoding="utf-8")
        # Not synced: a lost or torn state costs a second read, and no row.
        new.replace(path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GpulakeError(
            f"cannot write {str(path)!r}: {error.strerror}", "make room or choose another RUN_DIR, and run it again"
        ) from error
