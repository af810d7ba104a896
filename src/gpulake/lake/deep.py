"""Verify everything in the lake against what was recorded: `doctor --deep` reports damage, `repair` fixes it.

The logs are read as text, so that a damaged one can still be reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from gpulake.core.errors import GpulakeError
from gpulake.core.tables import bronze_tables
from gpulake.core.types import Landing
from gpulake.lake.bronze import landings_of
from gpulake.lake.delta import HASHES_KEY, sha256
from gpulake.lake.delta_log import METADATA_KEY
from gpulake.lake.engine import name
from gpulake.lake.store import Lake

LOG = "_delta_log"
Kind = Literal["file", "orphan", "log", "journal", "build", "archive"]


@dataclass(frozen=True)
class Damage:
    """One thing that differs from what was written."""

    kind: Kind  # a data file, a file that no commit names, a log, lines of a journal, the build, the archive
    layer: str  # bronze, quarantine, gold, journal, build or archive
    table: str
    path: Path
    detail: str
    lines: tuple[int, ...] = ()  # of a journal


@dataclass
class Log:
    """The commits of a Delta table, as far as they can be read."""

    versions: list[int] = field(default_factory=list)
    unreadable: list[Path] = field(default_factory=list)
    named: set[str] = field(default_factory=set)  # every file that a commit added or took away
    live: dict[str, int] = field(default_factory=dict)  # and that none took away: its size
    hashes: dict[str, str] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)  # what commits said of themselves

    @property
    def missing(self) -> list[int]:
        return sorted(set(range(max(self.versions, default=-1) + 1)) - set(self.versions))


def read_log(folder: Path) -> Log:
    log = Log()
    for path in sorted((folder / LOG).glob("*.json")):
        if not path.stem.isdigit():
            continue
        log.versions.append(int(path.stem))
        try:
            actions = [json.loads(line) for line in path.read_bytes().splitlines() if line]
            _apply(log, actions)
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            log.unreadable.append(path)
    return log


def _apply(log: Log, actions: list[dict[str, Any]]) -> None:
    if not actions:
        raise ValueError("empty")
    for action in actions:
        if "add" in action:
            log.named.add(action["add"]["path"])
            log.live[action["add"]["path"]] = int(action["add"]["size"])
        elif "remove" in action:
            log.named.add(action["remove"]["path"])
            log.live.pop(action["remove"]["path"], None)
        elif "commitInfo" in action:
            log.hashes.update(json.loads(action["commitInfo"].get(HASHES_KEY, "{}")))
            if METADATA_KEY in action["commitInfo"]:
                log.entries.append(json.loads(action["commitInfo"][METADATA_KEY]))


def landings(log: Log) -> list[Landing]:
    """The entries of a bronze table's log, oldest first."""
    return landings_of(log.entries)


def inspect(lake: Lake) -> list[Damage]:
    """Reads every data file and every table of the build once."""
    return [
        *(one for table in bronze_tables() for one in _table("bronze", table, lake.bronze.folder / table)),
        *_table("quarantine", "quarantine", lake.quarantine.folder),
        *_journals(lake),
        *_archive(lake),
        *_build(lake),
        *(one for folder in sorted(lake.gold.glob("gold_*")) for one in _table("gold", folder.name, folder)),
    ]


def _table(layer: str, table: str, folder: Path) -> Iterator[Damage]:
    if not folder.is_dir():
        return
    log = read_log(folder)
    files = {path.name: path for path in folder.glob("*.parquet")}
    for path in log.unreadable:
        yield Damage("log", layer, table, path, "the commit cannot be read")
    for version in log.missing:
        yield Damage("log", layer, table, folder / LOG / f"{version:020}.json", "the commit is missing")
    if files and not log.versions:
        yield Damage("log", layer, table, folder / LOG, f"there is no commit, though {len(files)} data files lie there")
    for file in sorted(log.live):
        if fault := file_fault(folder / file, log):
            yield Damage("file", layer, table, folder / file, fault)
    if log.versions:
        for file in sorted(set(files) - log.named):
            detail = "no commit names it: a writer died before its commit, or the commit was removed"
            yield Damage("orphan", layer, table, folder / file, detail)


def file_fault(path: Path, log: Log) -> str:
    """What is wrong with a data file; empty if nothing is."""
    if not path.is_file():
        return "it is missing"
    size = path.stat().st_size
    if size != log.live.get(path.name, size):
        return f"it has {size:,} bytes; {log.live[path.name]:,} were written"
    if path.name in log.hashes:
        return "" if sha256(path) == log.hashes[path.name] else "its content is not what was written"
    # Written by a version that kept no hashes.
    try:
        for _ in pq.ParquetFile(path).iter_batches(batch_size=1 << 16):
            pass
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"it cannot be read: {str(error).splitlines()[0]}"
    return ""


def _archive(lake: Lake) -> Iterator[Damage]:
    """Nothing else has these rows: only a backup can bring them back."""
    for part in lake.archive.state().parts:
        path = lake.archive.folder / part.file
        if not path.is_file() or sha256(path) != part.sha256:
            fault = "its content is not what was written" if path.is_file() else "it is missing"
            yield Damage("archive", "archive", part.table, path, f"{fault}; restore it from a backup")


def _journals(lake: Lake) -> Iterator[Damage]:
    for path, same_file in groupby(lake.journals.damaged_lines(), lambda line: line.file):
        lines = list(same_file)
        first = lines[0]
        detail = f"{len(lines)} lines cannot be read, first {first.line_number}: {first.reason}"
        yield Damage("journal", "journal", first.table, path, detail, tuple(line.line_number for line in lines))


def _build(lake: Lake) -> Iterator[Damage]:
    """Every table of it is scanned, which reads each block against its checksum, and counted."""
    current = None
    try:
        current = lake.builds.current()
        if current is None:
            return
        with lake.reading() as reader:
            held = set(reader.counts())
            counts = {row["table"]: row.get("rows") for row in reader.query("FROM lake.main.table_builds").to_pylist()}
            for table in sorted(held):
                query = f"SELECT count(*) AS rows, bit_xor(hash(one)) AS scanned FROM lake.main.{name(table)} AS one"
                rows = reader.query(query)["rows"].to_pylist()[0]
                if counts.get(table) not in (None, rows):
                    yield Damage(
                        "build", "build", table, current, f"it has {rows:,} rows; {counts[table]:,} were built"
                    )
            for table in sorted(set(counts) - held):
                yield Damage("build", "build", table, current, "the table is missing")
    except GpulakeError as error:
        yield Damage("build", "build", "", current or lake.builds.folder, error.message)
