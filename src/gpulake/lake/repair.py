"""Repairs that need only what is in the lake. Damaged files are set aside, never deleted."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gpulake.core.disk import sync
from gpulake.core.tables import bronze_tables, written_tables
from gpulake.core.types import Landing
from gpulake.lake import delta
from gpulake.lake.blocks import SOURCE_KEY
from gpulake.lake.compaction import Slice, slices, told_members
from gpulake.lake.deep import LOG, Damage, Log, file_fault, landings, read_log
from gpulake.lake.engine import lake_errors
from gpulake.lake.in_force import Source, sources
from gpulake.lake.store import Lake
from gpulake.lake.types import delta_schema


def holders(lake: Lake, damage: Damage) -> list[Landing]:
    """The sources whose rows a data file of bronze holds, by the log as far as it can be read."""
    log = read_log(lake.bronze.folder / damage.table)
    places = slices(log.entries)
    held = [one for source in sources(landings(log)).values() for one in source.held]
    return [one for one in held if places.get(one.file, Slice(one.file, 0, 0)).file == damage.path.name]


def is_compacted(lake: Lake, damage: Damage) -> bool:
    places = slices(read_log(lake.bronze.folder / damage.table).entries)
    return any(place.file == damage.path.name for place in places.values())


def take_apart(lake: Lake, damage: Damage, at: datetime) -> None:
    hashes = read_log(lake.bronze.folder / damage.table).hashes
    with lake_errors(f"taking {damage.path.name} apart"):
        lake.bronze.storage(damage.table).take_apart(damage.path.name, hashes, at)


def source_of(path: Path) -> str:
    """Where the rows of a data file came from, by its metadata."""
    try:
        words = pq.read_metadata(path).metadata or {}
    except (pa.ArrowException, OSError):
        return ""
    return str(words.get(SOURCE_KEY.encode(), b"").decode())


def renew_log(lake: Lake, table: str, at: datetime) -> None:
    """A new log from the readable part of the old one, and from files that name their source.

    The old log is kept beside it, with files that are not in force. A crash on the way leaves files without a commit,
    which the next repair takes in.
    """
    folder = lake.bronze.folder / table
    log = read_log(folder)
    with lake_errors(f"renewing the log of {table}"):
        aside = folder / f"{LOG}.damaged-{at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
        if (folder / LOG).is_dir():
            (folder / LOG).rename(aside)
        held = [one for source in sources(landings(log)).values() for one in source.held]
        files = {landing.file for landing in held}
        places = _places(folder, log)
        for landing in held:
            file = places.get(landing.file, landing.file)
            if not file_fault(folder / file, log):
                _commit(lake, replace(landing, replaces=(), restores=()), file)
        _tell_places(lake, table, places, files, at)
        # What was replaced, or became part of another file, would seem to have lost its commit.
        for file in log.named - set(places.values()) - (files - places.keys()):
            if (folder / file).is_file():
                (folder / file).rename(aside / file)
        for path in sorted(folder.glob("*.parquet")):
            if path.name not in files and path.name not in log.named and path.name not in places.values():
                adopt(lake, table, path, at)


def _tell_places(lake: Lake, table: str, places: Mapping[str, str], held: Collection[str], at: datetime) -> None:
    """What compacted files are made of, with landings whose own commits are lost."""
    for name in sorted(set(places.values())):
        told = told_members(lake.bronze.folder / table / name)
        if told:
            lake.bronze.storage(table).say_stored(name, [(member, rows) for member, rows, _ in told], at)
        for member, rows, source in told:
            if member not in held:
                _adopt(lake, table, source, rows, member, at, name)


def _places(folder: Path, log: Log) -> dict[str, str]:
    """The compacted files that have the rows of landings, as the log says, or else these files themselves."""
    places = {member: place.file for member, place in slices(log.entries).items()}
    for path in sorted(folder.glob("*.parquet")):
        told = [member for member, _, _ in told_members(path)]
        if path.name not in log.named and not all((folder / places.get(one, one)).is_file() for one in told):
            places |= dict.fromkeys(told, path.name)
    return places


def adopt(lake: Lake, table: str, path: Path, at: datetime) -> bool:
    """Takes a file whose commit is lost into the table."""
    source = source_of(path)
    if not is_wanted(lake, table, source):
        return False
    _adopt(lake, table, source, pq.read_metadata(path).num_rows, path.name, at, path.name)
    return True


def _adopt(lake: Lake, table: str, source: str, rows: int, file: str, at: datetime, stored: str) -> None:
    version = lake.bronze.sources(table).get(source, Source()).version + 1
    _commit(lake, Landing(source, table, "", -1, rows, rows, 0, version, at, file, replaces=()), stored)


def is_wanted(lake: Lake, table: str, source: str) -> bool:
    """Whether rows of a lost commit belong in the table: not where its source lists all there is, and did so again."""
    held = lake.bronze.sources(table).get(source, Source()).held
    return bool(source) and not (held and bronze_tables()[table].is_replaced)


def _commit(lake: Lake, landing: Landing, file: str) -> None:
    folder = lake.bronze.folder / landing.table
    is_held = file in {path.name for path in delta.live_files(folder)}
    added = [] if is_held or not file else [delta.DataFile(file, pq.read_metadata(folder / file).num_rows, {})]
    delta.commit(
        folder,
        delta_schema(bronze_tables()[landing.table]),
        added,
        f"{landing.source}#{landing.version}",
        {**asdict(replace(landing, is_new=True)), "landed_at": landing.landed_at.isoformat()},
    )


def drop_quarantined(lake: Lake, damage: Damage) -> None:
    """The rows that one file set aside, or all if the log is damaged; the landings that they were of stay."""
    folder = lake.quarantine.folder
    with lake_errors("repairing the quarantine"):
        if damage.kind == "log":
            folder.rename(folder.with_name(f"quarantine.damaged-{uuid.uuid4().hex[:8]}"))
            return
        schema = delta_schema(written_tables()["quarantine"])
        words = {"source": damage.path.name, "rows": 0}
        delta.commit(folder, schema, [], f"repair#{uuid.uuid4().hex}", words, [damage.path.name])


def set_lines_aside(damage: Damage) -> None:
    """The lines go to a file beside the journal, which then holds what can be read."""
    bad = set(damage.lines)
    lines = list(enumerate(damage.path.read_bytes().split(b"\n"), start=1))
    with lake_errors("repairing the journal"):
        aside = damage.path.with_name(f"{damage.path.name}.damaged")
        with aside.open("ab") as kept:
            kept.write(b"".join(line + b"\n" for number, line in lines if number in bad))
        sync(aside)
        fresh = damage.path.with_name(f".{damage.path.name}.repaired")
        fresh.write_bytes(b"\n".join(line for number, line in lines if number not in bad))
        sync(fresh)
        fresh.replace(damage.path)
        sync(damage.path.parent)


def clear_export(damage: Damage, gold: Path) -> None:
    """The next build exports these tables again."""
    shutil.rmtree(gold / damage.table)
