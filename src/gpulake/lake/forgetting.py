"""Takes the name of a user out of everything that a lake holds: rows, sources of landings, journals, old versions.

A name is meant where no letter or digit stands beside it, whatever its case: `alice` in `/home/alice/run`, not in
`alice2`. Values keep the rest of their text. Whatever is interrupted, the same command continues: it looks at all of
the lake each time.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpulake.core.disk import replace as put
from gpulake.core.disk import sync
from gpulake.core.errors import UsageError
from gpulake.core.tables import bronze_tables, written_tables
from gpulake.lake import delta
from gpulake.lake.archive import State
from gpulake.lake.compaction import Storage
from gpulake.lake.delta_log import LOG
from gpulake.lake.journal import to_lines
from gpulake.lake.store import Lake

LEAST_CHARACTERS = 3
_NO_WORD = "[^A-Za-z0-9]"


@dataclass(frozen=True)
class Forgotten:
    where: str  # a table, or a file of the lake
    rows: int  # that named the user, or mentions in a file


@dataclass(frozen=True)
class Name:
    user: str
    instead: str  # a pseudonym
    is_deleting: bool = False  # rows that name the user go; elsewhere the name is replaced

    def __post_init__(self) -> None:
        if len(self.user) < LEAST_CHARACTERS or not self.user.isprintable() or "\\" in self.user or '"' in self.user:
            hint = f"give the name as it stands in the tables, of {LEAST_CHARACTERS} characters or more"
            raise UsageError(f"the user is {self.user!r}", hint)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # As it stands, and as JSON writes it, once and within a text of JSON.
        once = json.dumps(self.user)[1:-1]
        words = "|".join(re.escape(word) for word in dict.fromkeys((self.user, once, json.dumps(once)[1:-1])))
        return re.compile(f"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", re.IGNORECASE)

    def count(self, text: str) -> int:
        return len(self._pattern.findall(text))

    def out_of(self, text: str) -> str:
        return self._pattern.sub(self.instead, text)

    def named(self, rows: pa.Table) -> np.ndarray:
        """Which rows name the user."""
        found = np.zeros(rows.num_rows, dtype=bool)
        for column in _texts(rows.schema):
            has = pc.match_substring_regex(rows[column], f"(^|{_NO_WORD}){self._re2}($|{_NO_WORD})", ignore_case=True)
            found |= pc.fill_null(has, False).to_numpy()
        return found

    def replaced(self, rows: pa.Table) -> pa.Table:
        for place, column in enumerate(rows.schema.names):
            if column in _texts(rows.schema):
                values = rows[column]
                for _ in range(2):  # names side by side share the character between them
                    pattern = f"(?i)(^|{_NO_WORD}){self._re2}($|{_NO_WORD})"
                    values = pc.replace_substring_regex(values, pattern, f"\\1{self.instead}\\2")
                rows = rows.set_column(place, rows.schema.field(place), values)
        return rows

    @property
    def _re2(self) -> str:
        return re.sub(r"([^A-Za-z0-9_])", r"\\\1", self.user) if self.user.isascii() else self.user


def _texts(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]


@dataclass(frozen=True)
class Forgetting:
    """The caller writes to the lake, and then makes a whole build; `clean_up` comes after it."""

    lake: Lake
    name: Name

    def found(self) -> Iterator[Forgotten]:
        """What names the user now."""
        for storage in self._storages():
            rows = sum(int(mask.sum()) for mask in map(self._mask, delta.live_files(storage.folder)))
            rows += self._in_log(storage.folder)
            if rows:
                yield Forgotten(storage.table.name, rows)
        for part in self.lake.archive.state().parts:
            if rows := int(self._mask(self.lake.archive.folder / part.file).sum()):
                yield Forgotten(f"archive/{part.table}", rows)
        for path in self._texts():
            if count := self.name.count(path.read_text(encoding="utf-8", errors="replace")):
                yield Forgotten(path.relative_to(self.lake.root).as_posix(), count)

    def forget(self, at: datetime) -> list[Forgotten]:
        done = list(self.found())
        for storage in self._storages():
            self._forget_rows(storage, at)
            self._forget_log(storage.folder)
        self._forget_archive()
        for path in self._texts():
            self._forget_text(path)
        return done

    def clean_up(self) -> None:
        """Old versions of gold and old builds, once a build without the name is published."""
        for folder in self.lake.gold.glob("gold_*"):
            _drop_old_versions(folder)
        current = self.lake.builds.current()
        for path in self.lake.builds.folder.glob("*.duckdb*"):
            if path != current:
                path.unlink()

    def _storages(self) -> Iterator[Storage]:
        for table in bronze_tables():
            if (self.lake.bronze.folder / table).is_dir():
                yield self.lake.bronze.storage(table)
        if self.lake.quarantine.folder.is_dir():
            yield Storage(written_tables()["quarantine"], self.lake.quarantine.folder, self.lake.staging)

    def _mask(self, path: Path) -> np.ndarray:
        with pq.ParquetFile(path) as file:
            masks = [self.name.named(file.read_row_group(number)) for number in range(file.num_row_groups)]
        return np.concatenate(masks) if masks else np.zeros(0, dtype=bool)

    def _forget_rows(self, storage: Storage, at: datetime) -> None:
        def change(path: Path) -> np.ndarray | None:
            mask = self._mask(path)
            words = str(pq.read_metadata(path).metadata)
            if not mask.any() and not self.name.count(words):
                return None
            return ~mask if self.name.is_deleting else np.ones(len(mask), dtype=bool)

        storage.rewrite(change, at, self.name.replaced, self.name.out_of)

    def _forget_log(self, folder: Path) -> None:
        """Files of earlier versions go, and checkpoints: they follow from the commits."""
        _drop_old_versions(folder)
        log = folder / LOG
        for path in (*log.glob("*.checkpoint*"), log / "_last_checkpoint", log / delta.HISTORY, *log.glob("*.cut")):
            path.unlink(missing_ok=True)
        for path in log.glob("*.json"):
            self._forget_text(path)
        delta.sum_up(folder)

    def _in_log(self, folder: Path) -> int:
        return sum(self.name.count(path.read_text(encoding="utf-8")) > 0 for path in (folder / LOG).glob("*.json"))

    def _forget_archive(self) -> None:
        archive, state = self.lake.archive, self.lake.archive.state()
        parts = []
        for part in state.parts:
            rows = pq.read_table(archive.folder / part.file)
            mask = self.name.named(rows)
            if mask.any():
                rows = self.name.replaced(rows.filter(pa.array(~mask)) if self.name.is_deleting else rows)
                path = archive.folder / f"{part.table}-{uuid.uuid4().hex}.parquet"
                pq.write_table(rows, path, compression="zstd")
                sync(path)
                part = replace(part, file=path.name, rows=rows.num_rows, sha256=delta.sha256(path))  # noqa: PLW2901
            parts.append(part)
        if parts and tuple(parts) != tuple(state.parts):
            archive.put(State(state.horizons, tuple(parts)))

    def _texts(self) -> Iterator[Path]:
        """Journals, settings and pages in the lake's folder, and fitted models."""
        for path in sorted((*self.lake.root.glob("*"), *self.lake.models.glob("*"))):
            if path.is_file() and not path.name.startswith("."):
                yield path

    def _forget_text(self, path: Path) -> None:
        with path.open("rb") as opened:
            text = opened.read().decode(errors="surrogateescape")
            if not self.name.count(text):
                return
            fresh = path.with_name(f".{path.name}.forgetting")
            fresh.write_bytes(self._without(path, text).encode(errors="surrogateescape"))
            put(fresh, path)
            # What was appended until the new file had the name is taken over.
            if late := opened.read().decode(errors="surrogateescape"):
                with path.open("ab") as file:
                    file.write(self._without(path, late).encode(errors="surrogateescape"))

    def _without(self, path: Path, text: str) -> str:
        if path.suffix != ".jsonl":
            return self.name.out_of(text)
        return "".join(self._line(line) for line in text.splitlines(keepends=True))

    def _line(self, line: str) -> str:
        """A line of a journal ends with its checksum."""
        if not self.name.count(line):
            return line
        if self.name.is_deleting:
            return ""
        with suppress(ValueError):
            row = json.loads(self.name.out_of(line))
            row.pop("crc32", None)
            return to_lines([row]).decode()
        return self.name.out_of(line)


def _drop_old_versions(folder: Path) -> None:
    with delta.turn(folder):  # streams land meanwhile
        live = {path.name for path in delta.live_files(folder)}
        for path in folder.glob("*.parquet"):
            if path.name not in live:
                path.unlink()
