"""Repairs that need only what is in the lake. Damaged files are set aside, never deleted."""

from __future__ import annotations

import shutil
import uuid
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
from gpulake.lake.deep import LOG, Damage, file_fault, landings, read_log
from gpulake.lake.engine import lake_errors
from gpulake.lake.in_force import Source, sources
from gpulake.lake.store import Lake
from gpulake.lake.types import delta_schema


def holders(lake: Lake, damage: Damage) -> list[Landing]:
    """The sources whose rows a data file of bronze holds, by the log as far as it can be read."""
    here = sources(landings(read_log(lake.bronze.folder / damage.table)))
    return [one for source in here.values() for one in source.held if one.file == damage.path.name]


def source_of(path: Path) -> str:
    """Where the rows of a data file came from, by its metadata."""
    try:
        words = pq.read_metadata(path).metadata or {}
    except (pa.ArrowException, OSError):
        return ""
    return str(words.get(SOURCE_KEY.encode(), b"").decode())


def renew_log(lake: Lake, table: str, at: datetime) -> None:
    """A new log from the readable part of the old one, and from files that name their source.

    The old log is kept beside it. A crash on the way leaves files without a commit, which the next repair takes in.
    """
    folder = lake.bronze.folder / table
    log = read_log(folder)
    with lake_errors(f"renewing the log of {table}"):
        if (folder / LOG).is_dir():
            (folder / LOG).rename(folder / f"{LOG}.damaged-{at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}")
        held = [one for source in sources(landings(log)).values() for one in source.held]
        for landing in held:
            if not file_fault(folder / landing.file, log):
                _commit(lake, replace(landing, replaces=(), restores=()))
        files = {landing.file for landing in held}
        for path in sorted(folder.glob("*.parquet")):
            if path.name not in files and path.name not in log.named:
                adopt(lake, table, path, at)


def adopt(lake: Lake, table: str, path: Path, at: datetime) -> bool:
    """Takes a file whose commit is lost into the table."""
    source = source_of(path)
    if not is_wanted(lake, table, source):
        return False
    rows = pq.read_metadata(path).num_rows
    version = lake.bronze.sources(table).get(source, Source()).version + 1
    _commit(lake, Landing(source, table, "", -1, rows, rows, 0, version, at, path.name, replaces=()))
    return True


def is_wanted(lake: Lake, table: str, source: str) -> bool:
    """Whether rows of a lost commit belong in the table: not where its source lists all there is, and did so again."""
    held = lake.bronze.sources(table).get(source, Source()).held
    return bool(source) and not (held and bronze_tables()[table].is_replaced)


def _commit(lake: Lake, landing: Landing) -> None:
    folder = lake.bronze.folder / landing.table
    is_held = landing.file in {path.name for path in delta.live_files(folder)}
    added = [] if is_held or not landing.file else [delta.DataFile(landing.file, landing.rows_landed, {})]
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
