"""Small data files of a table become one, so that a landing a minute does not leave a file a minute.

A landing keeps the name of its file for good: builds, undo and repairs know its rows by it. An entry in the log says
which file has them now, and where in it; `split` gives them a file of that name again.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gpulake.core.disk import sync
from gpulake.core.tables import Table
from gpulake.lake import delta
from gpulake.lake.blocks import SOURCE_KEY
from gpulake.lake.types import delta_schema

if TYPE_CHECKING:
    import numpy as np

SMALL_BYTES = 8 << 20
LARGEST_BYTES = 64 << 20  # of one file: to take rows out of it, it is written again
FAN_IN = 32  # after so many commits, files of about as many landings become one, if they are half as many
ROW_GROUP_ROWS = 61_440
MEMBERS_KEY = b"gpulake_members"
Members = list[tuple[str, int]]  # files of landings and their rows, in their order
Told = list[tuple[str, int, str]]  # and their sources


class Slice(NamedTuple):
    file: str
    offset: int
    rows: int


@dataclass(frozen=True)
class Rewriting:
    """What becomes of rows, and of what files say of themselves, when files are written anew."""

    masks: Mapping[str, np.ndarray] = field(default_factory=dict)  # by file: True for each row that stays
    change: Callable[[pa.Table], pa.Table] = lambda rows: rows
    change_words: Callable[[str], str] = lambda words: words

    def rows_kept(self, place: Slice) -> int:
        mask = self.masks.get(place.file)
        return place.rows if mask is None else int(mask[place.offset : place.offset + place.rows].sum())


def slices(entries: Iterable[Mapping[str, Any]]) -> dict[str, Slice]:
    """Where the rows of landings are, by the names of their files; of those only that are in another file."""
    found: dict[str, Slice] = {}
    for entry in entries:
        for file, members in entry.get("stored", {}).items():
            offset = 0
            for member, rows in members:
                found[member] = Slice(file, offset, rows)
                offset += rows
    return {member: place for member, place in found.items() if place.file != member}


def told_members(path: Path) -> Told:
    """As the file itself says, should the log not be readable; none: it is of one landing."""
    with suppress(pa.ArrowException, OSError, ValueError):
        words = pq.read_metadata(path).metadata or {}
        return [(file, rows, source) for file, rows, source in json.loads(words.get(MEMBERS_KEY, b"[]"))]
    return []


@dataclass(frozen=True)
class Storage:
    """The data files of one table."""

    table: Table
    folder: Path
    staging: Path

    @cached_property
    def _entries(self) -> list[dict[str, Any]]:
        return delta.history(self.folder)

    @cached_property
    def _live(self) -> dict[str, tuple[int, int]]:
        return delta.live_sizes(self.folder)

    @cached_property
    def _members(self) -> dict[str, Members]:
        """Of each live file."""
        found: dict[str, Members] = {file: [(file, rows)] for file, (_, rows) in self._live.items()}
        inside: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
        for member, place in slices(self._entries).items():
            inside[place.file].append((place.offset, member, place.rows))
        found |= {file: [(name, rows) for _, name, rows in sorted(inside[file])] for file in inside if file in found}
        return found

    @property
    def is_due(self) -> bool:
        return delta.commits_since_sum(self.folder) >= FAN_IN

    def compact(self, built: Collection[str], at: datetime) -> int:
        """The number of files that became others. Files that a build has are not mixed with newer ones, by which it
        is extended."""
        small = [file for file, (size, _) in self._live.items() if size <= SMALL_BYTES]
        groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
        known = set(built)
        order = {entry.get("file"): place for place, entry in enumerate(self._entries)}
        for file in sorted(small, key=lambda file: (order.get(self._members[file][0][0], -1), file)):
            names = {name for name, _ in self._members[file]}
            tier = int(log(len(names), FAN_IN) + 1e-9)
            schema = pq.read_schema(self.folder / file).remove_metadata()
            groups[tier, str(schema), names <= known].append(file)
        parts = [part for group in groups.values() if len(group) >= FAN_IN // 2 for part in self._cut(group)]
        stored: dict[str, list[tuple[Slice, str]]] = {}
        for part in parts:
            stored[f"{uuid.uuid4().hex}.parquet"] = [
                (Slice(file, offset, rows), member) for file in part for offset, member, rows in self._places(file)
            ]
        if stored:
            self._store(stored, [file for part in parts for file in part], at)
            self._vacuum(at)
        delta.sum_up(self.folder)
        return sum(map(len, parts))

    def rewrite(
        self,
        kept: Callable[[Path], np.ndarray | None],
        at: datetime,
        change: Callable[[pa.Table], pa.Table] = lambda rows: rows,
        change_words: Callable[[str], str] = lambda words: words,
    ) -> int:
        """Writes files anew: `kept` has True for each row that stays, or is None if the file stays as it is. The
        landings stay in force, though with fewer rows. The number of rows that went."""
        stored: dict[str, list[tuple[Slice, str]]] = {}
        masks: dict[str, np.ndarray] = {}
        for file in sorted(self._live):
            mask = kept(self.folder / file)
            if mask is not None:
                masks[file] = mask
                new = f"{uuid.uuid4().hex}.parquet"
                stored[new] = [(Slice(file, offset, rows), member) for offset, member, rows in self._places(file)]
        if stored:
            self._store(stored, sorted(masks), at, Rewriting(masks, change, change_words))
        self._vacuum(at)
        return sum(int((~mask).sum()) for mask in masks.values())

    def split(self, files: Collection[str], at: datetime) -> None:
        """These files of landings are files of their own again."""
        places = slices(self._entries)
        spent = {places[file].file for file in files if file in places}
        stored: dict[str, list[tuple[Slice, str]]] = {}
        for whole in sorted(spent):
            rest = f"{uuid.uuid4().hex}.parquet"
            for offset, member, rows in self._places(whole):
                stored.setdefault(member if member in files else rest, []).append((Slice(whole, offset, rows), member))
        if stored:
            self._store(stored, sorted(spent), at)

    def take_apart(self, file: str, hashes: Mapping[str, str], at: datetime) -> None:
        """A compacted file that is damaged: the table has the files that it was made of. Those that are no longer
        there are then damage of their own, of one landing each."""
        members = self._members[file]
        old = {member: self.folder / member for member, _ in members}
        sizes = {member: path.stat().st_size if path.is_file() else 0 for member, path in old.items()}
        added = [delta.DataFile(one, rows, {}, hashes.get(one, "unknown"), size=sizes[one]) for one, rows in members]
        self._commit(added, {member: [(member, rows)] for member, rows in members}, [file], at)

    def say_stored(self, file: str, members: Members, at: datetime) -> None:
        """In a log that was renewed."""
        self._commit([], {file: members}, [], at)

    def _places(self, file: str) -> Iterator[tuple[int, str, int]]:
        offset = 0
        for member, rows in self._members[file]:
            yield offset, member, rows
            offset += rows

    def _cut(self, group: Sequence[str]) -> Iterator[list[str]]:
        """Into parts of at most the largest size."""
        part: list[str] = []
        size = 0
        for file in group:
            if part and size + self._live[file][0] > LARGEST_BYTES:
                yield part
                part, size = [], 0
            part.append(file)
            size += self._live[file][0]
        if len(part) > 1:
            yield part

    def _store(
        self,
        stored: Mapping[str, list[tuple[Slice, str]]],
        instead_of: Sequence[str],
        at: datetime,
        how: Rewriting | None = None,
    ) -> None:
        """One commit, once the files are on the disk: a crash before it leaves files that no commit names."""
        added, said = [], {}
        for file, parts in stored.items():
            said[file] = [(member, how.rows_kept(place) if how else place.rows) for place, member in parts]
            path = self.staging / f"{uuid.uuid4().hex}.parquet"
            added.append(self._write(path, file, [place for place, _ in parts], said[file], how))
            sync(path)
            path.replace(self.folder / file)
        self._commit(added, said, instead_of, at, is_data_change=how is not None)

    def _commit(
        self,
        added: Sequence[delta.DataFile],
        said: Mapping[str, Members],
        instead_of: Sequence[str],
        at: datetime,
        is_data_change: bool = False,
    ) -> None:
        entry = {"stored": said, "instead_of": list(instead_of), "stored_at": at.isoformat()}
        schema = delta_schema(self.table)
        delta.commit(self.folder, schema, added, "stored", entry, instead_of, is_data_change)

    def _write(
        self,
        path: Path,
        file: str,
        places: Sequence[Slice],
        members: Members,
        how: Rewriting | None = None,
    ) -> delta.DataFile:
        how = how or Rewriting()
        schema = pq.read_schema(self.folder / places[0].file)
        sources = {entry.get("file"): entry["source"] for entry in self._entries if "source" in entry}
        told = [(member, rows, sources.get(member, "")) for member, rows in members]
        is_own = told[0][0] == file
        words = {SOURCE_KEY: told[0][2]} if is_own else {MEMBERS_KEY.decode(): json.dumps(told)}
        nulls = dict.fromkeys(schema.names, 0)
        with pq.ParquetWriter(path, schema.remove_metadata(), compression="zstd", store_schema=False) as writer:
            writer.add_key_value_metadata({key: how.change_words(value) for key, value in words.items()})
            for rows in _row_groups(self.folder, places, how.masks):
                block = how.change(rows)
                writer.write_table(block)
                nulls = {name: count + block[name].null_count for name, count in nulls.items()}
        return delta.DataFile(file, sum(rows for _, rows in members), nulls, delta.sha256(path))

    def _vacuum(self, at: datetime) -> None:
        """Removes what became part of another file a week ago, or longer."""
        moved: dict[str, str] = {}
        for entry in self._entries:
            moved |= dict.fromkeys(entry.get("instead_of", ()), entry.get("stored_at", ""))
            for file in entry.get("stored", ()):
                moved.pop(file, None)
        before = (at - timedelta(seconds=delta.KEPT_SECONDS)).isoformat()
        for file, moved_at in moved.items():
            if moved_at < before and file not in self._live:
                (self.folder / file).unlink(missing_ok=True)


def _row_groups(folder: Path, places: Sequence[Slice], masks: Mapping[str, np.ndarray]) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    for place in places:
        for batch in _batches(folder / place.file, place, masks.get(place.file)):
            pending.append(batch)
            if sum(one.num_rows for one in pending) >= ROW_GROUP_ROWS:
                yield pa.Table.from_batches(pending).replace_schema_metadata()
                pending = []
    if pending:
        yield pa.Table.from_batches(pending).replace_schema_metadata()


def _batches(path: Path, place: Slice, mask: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a part of a file that the mask leaves; row groups outside of the part are passed over."""
    with pq.ParquetFile(path) as file:
        begin = 0
        for number in range(file.num_row_groups):
            end = begin + file.metadata.row_group(number).num_rows
            first, last = max(begin, place.offset), min(end, place.offset + place.rows)
            if first < last:
                group = file.read_row_group(number).replace_schema_metadata().slice(first - begin, last - first)
                group = group if mask is None else group.filter(pa.array(mask[first:last]))
                yield from group.to_batches()
            begin = end
