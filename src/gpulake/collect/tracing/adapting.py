"""Logs into a run: what an adapter finds is appended, what it rejects is kept, and how far it came is remembered.

What was appended is on the disk before the position is. A reader that was killed in between reads some lines again, and
gives them the same ids: parse drops what it has seen.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpulake.collect.adapters import ADAPTERS, Adapter, Asked, Found, LeftOut, Line, Outcome
from gpulake.collect.rundir import RunDir
from gpulake.collect.tracing.appending import append_synced
from gpulake.collect.tracing.growing import GrowingFile, Lines, piped_lines
from gpulake.collect.tracing.invocation import id_from
from gpulake.core.errors import GpulakeError, UsageError

BATCH = 10_000
KEPT_CHARACTERS = 1 << 16  # of a text that was rejected


@dataclass(frozen=True)
class Tally:
    """What came of a file. invocations + rejected + left out = lines, rows or spans that were read."""

    file: str
    invocations: int = 0
    rejected: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)  # by reason
    was_read_before: bool = False  # some of it, or all


class Adapting:
    def __init__(self, name: str, run: RunDir, asked: Asked) -> None:
        self._name = name
        self._run = run
        self._asked = asked
        self._adapter_of = ADAPTERS.get(name)
        # Read in another way, a file is read again.
        self._how = id_from(asked.format, asked.trace_field, asked.module, asked.zone, asked.node, asked.stage)
        self.is_resumable = self._adapter_of(asked).is_resumable

    def read(self, path: Path) -> Tally:
        """To the present end of the file."""
        file = GrowingFile(path)
        try:
            return self._read(file, more=lambda: False) if self.is_resumable else self._whole(file)
        finally:
            file.close()

    def read_pipe(self, descriptor: int) -> Tally:
        batch = _Batch(self._name, self._run, "-")
        adapter: Adapter | None = None
        lines = piped_lines(descriptor, batch.write)
        first = next(lines, None)
        if first is not None:
            adapter = self._adapter_of(replace(self._asked, source_id=id_from("-", first.text)))
            for outcome in adapter.read(_chained(first, lines)):
                batch.add(outcome)
                if batch.is_full:
                    batch.write()
        batch.write()
        return batch.tally()

    def follow(self, path: Path, wait: Callable[[], bool]) -> Iterator[Tally]:
        """As long as `wait` says so; a tally for each file that had the name."""
        if not self.is_resumable:
            raise UsageError(f"{self._name} cannot follow a file", "read it again once it is written anew")
        GrowingFile(path).close()  # later it may be gone for a while; at first that is a mistake
        while file := _begun(path, wait):
            last_look = _LastLook(file, wait)
            try:
                yield self._read(file, more=last_look.more)
            finally:
                file.close()
            if last_look.is_stopped:
                return

    def _read(self, file: GrowingFile, more: Callable[[], bool]) -> Tally:
        state = self._run.path / "adapted" / f"{self._name}.{file.source_id}.{self._how}.json"
        known = _state(state)
        if not file.has(known.get("offset", 0)):
            known = {}
        lines = Lines(known.get("lines", 0), known.get("offset", 0))
        adapter = self._adapter_of(replace(self._asked, source_id=file.source_id))
        batch = _Batch(self._name, self._run, str(file.path), was_read_before=lines.number > 0)

        def checkpoint() -> None:
            batch.write()
            # An adapter that holds lines back has not read them yet.
            if batch.last_line == lines.number > 0:
                _keep(state, {"file": str(file.path), "lines": lines.number, "offset": lines.offset})

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

        for outcome in adapter.read(given()):
            batch.add(outcome)
        batch.write()
        return batch.tally()

    def _whole(self, file: GrowingFile) -> Tally:
        """A file that means something only as a whole: read once, known by its content."""
        digest = file.digest()
        state = self._run.path / "adapted" / f"{self._name}.{digest}.{self._how}.json"
        if state.exists():
            return Tally(str(file.path), was_read_before=True)
        batch = _Batch(self._name, self._run, str(file.path))
        lines = Lines()

        def given() -> Iterator[Line]:
            yield from file.lines(lines)
            yield from lines.last(is_ended=False)

        for outcome in self._adapter_of(replace(self._asked, source_id=digest)).read(given()):
            batch.add(outcome)
            if batch.is_full:
                batch.write()
        batch.write()
        _keep(state, {"file": str(file.path), "lines": lines.number})
        return batch.tally()


class _LastLook:
    """Waits for more, until told to stop, or until the file is another's or emptied and was looked at once more."""

    def __init__(self, file: GrowingFile, wait: Callable[[], bool]) -> None:
        self._file = file
        self._wait = wait
        self._is_over = False
        self.is_stopped = False

    def more(self) -> bool:
        if self._is_over:
            return False
        # A writer that has not heard of the new file yet still writes to the old one.
        self._is_over = self._file.is_replaced()
        self.is_stopped = not self._wait()
        # Behind the place where it was emptied, nothing is what it seems.
        return not self.is_stopped and not self._file.is_cut


class _Batch:
    """Outcomes on their way to the disk."""

    def __init__(self, name: str, run: RunDir, file: str, *, was_read_before: bool = False) -> None:
        self._name = name
        self._run = run
        self._file = file
        self._was_read_before = was_read_before
        self._waiting: list[Outcome] = []
        self._counts: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self.last_line = 0

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= BATCH

    def add(self, outcome: Outcome) -> None:
        self.last_line = outcome.line_number
        self._waiting.append(outcome)

    def write(self) -> None:
        found = [one for one in self._waiting if isinstance(one, Found)]
        rejected = [one for one in self._waiting if not isinstance(one, Found | LeftOut)]
        self._append(self._run.events(self._name, os.getpid()), [one.invocation for one in found])
        self._append(self._run.placement_events, [event for one in found for event in one.placements])
        kept = [
            {
                "file": self._file,
                "line_number": one.line_number,
                "reason": one.reason,
                "text": one.text[:KEPT_CHARACTERS],
            }
            for one in rejected
        ]
        self._append(rejected_file(self._run, self._name), kept)
        self._counts.update(found=len(found), rejected=len(rejected))
        self._left_out.update(one.reason for one in self._waiting if isinstance(one, LeftOut))
        self._waiting = []

    def tally(self) -> Tally:
        counts = self._counts
        left_out = dict(sorted(self._left_out.items()))
        return Tally(self._file, counts["found"], counts["rejected"], left_out, self._was_read_before)

    def _append(self, path: Path, rows: list[Any]) -> None:
        if rows:
            with _writing(path):
                append_synced(path, rows)


def _begun(path: Path, wait: Callable[[], bool]) -> GrowingFile | None:
    """The file of that name, once it is there and has a first line; None: no need any more."""
    while True:
        if path.exists():
            file = GrowingFile(path)
            if file.is_begun:
                return file
            file.close()
        if not wait():
            return None


def rejected_file(run: RunDir, name: str) -> Path:
    return run.path / f"rejected.{name}.jsonl"


def _chained(first: Line, lines: Iterator[Line]) -> Iterator[Line]:
    yield first
    yield from lines


def _state(path: Path) -> dict[str, int]:
    """How far a file was read; what cannot be read is read from the start, and dropped again by its ids."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {"lines": int(known["lines"]), "offset": int(known["offset"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _keep(path: Path, state: Mapping[str, object]) -> None:
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        new.write_text(json.dumps(state), encoding="utf-8")
        # Not synced: one that is lost or cut short costs a second reading, and no row.
        new.replace(path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GpulakeError(
            f"cannot write {str(path)!r}: {error.strerror}", "make room or choose another RUN_DIR, and run it again"
        ) from error
