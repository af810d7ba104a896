"""Text files → bronze: typed, compressed Parquet, committed to Delta, each content once.

A clean file is read once, in blocks that are hashed, parsed and written on several threads. Another one is read by the
engine, which keeps the rows that do not parse; that is accepted only if nothing is missing: rows landed + rows rejected
= lines. Otherwise the careful way goes over the file line by line first.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from gpulake.core.clock import Clock
from gpulake.core.disk import make_folder, sync
from gpulake.core.errors import InputError
from gpulake.core.tables import Table, bronze_tables
from gpulake.core.types import CsvLayout, Landing, Payload
from gpulake.lake import delta
from gpulake.lake.blocks import Content, Copied, copy_blocks, read_content
from gpulake.lake.compaction import Slice, Storage, slices
from gpulake.lake.engine import Connection, first_line, lake_errors
from gpulake.lake.in_force import Live, Source, continued, replaced_by, sources
from gpulake.lake.quarantine import Quarantine
from gpulake.lake.rewritten import copy_rewritten, rewritten
from gpulake.lake.sanitise import sanitise
from gpulake.lake.textfile import copy_csv, count_lines
from gpulake.lake.types import delta_schema


def landing_of(entry: Mapping[str, Any]) -> Landing:
    """From the metadata of a commit of a bronze table."""
    replaces = entry.get("replaces")
    return Landing(
        **{
            **entry,
            "landed_at": datetime.fromisoformat(entry["landed_at"]),
            "replaces": None if replaces is None else tuple(replaces),
            "restores": tuple(entry.get("restores", ())),
        }
    )


def landings_of(entries: Iterable[Mapping[str, Any]]) -> list[Landing]:
    return [landing_of(entry) for entry in entries if "source" in entry]


@dataclass(frozen=True)
class Bronze:
    folder: Path
    staging: Path
    quarantine: Quarantine

    def landings(self, table: str) -> list[Landing]:
        """Every version of every source, oldest first."""
        return landings_of(delta.history(self.folder / table))

    def sources(self, table: str) -> dict[str, Source]:
        """What is in force of each source that ever landed."""
        return sources(self.landings(table))

    def files(self, table: str) -> list[Path]:
        return delta.live_files(self.folder / table)

    def slices(self, table: str) -> dict[str, Slice]:
        """Where the rows of landings are whose files were compacted, by the names of these."""
        return slices(delta.history(self.folder / table))

    def storage(self, table: str) -> Storage:
        return Storage(bronze_tables()[table], self.folder / table, self.staging)

    def split(self, files: Collection[tuple[str, str]], clock: Clock) -> None:
        """The rows of these files, by table and name, are in files of their own again."""
        for table in {table for table, _ in files}:
            self.storage(table).split({file for other, file in files if other == table}, clock.now())

    def cut_commits(self) -> list[Path]:
        """What a power cut left of commits that were never acknowledged."""
        return [path for folder in sorted(self.folder.glob("*")) for path in delta.cut_commits(folder)]

    def land(
        self,
        connection: Connection,
        payload: Payload,
        clock: Clock,
        live: Live,
        is_replacing: bool = False,
        damaged: Collection[str] = (),
    ) -> Landing:
        """Lands a source unless its content is there; `live` is what all tables hold, and is kept up to date.

        Its rows are added to those that landed under the same name, unless these are to be replaced, were cut off
        earlier in the same file, or are lost in a `damaged` data file.
        """
        table = payload.layout.table
        size = payload.path.stat().st_size
        here = live.setdefault(table.name, {})
        source = here.get(payload.source, Source())
        # A content that has landed has the size of a landed file; only then must its hash be known beforehand.
        held = [one for other in here.values() for one in other.held if one.size_bytes == size]
        held = [one for one in held if one.file not in damaged]
        content = read_content(payload.path) if held else None
        twins = [one for one in held if content and one.sha256 == content.sha256]
        same = next((one for one in twins if one.source == payload.source), None)
        is_alone = is_replacing or table.is_replaced or payload.layout.is_replaced
        if same and (not is_alone or len(source.held) == 1):
            return replace(same, is_new=False)
        with lake_errors(f"landing {payload.source}"):
            version, at = source.version + 1, clock.now()
            replaces = {one.version for one in source.held if is_alone or one.file in damaged}
            replaces |= set() if is_alone or twins else continued(payload.path, source.held)
            if twins:
                twin = replace(twins[0], source=payload.source, version=version, landed_at=at, is_new=False)
                landing, added = replace(twin, replaces=tuple(sorted(replaces)), restores=()), list[delta.DataFile]()
            else:
                landing, added = self._write(connection, payload, content, version, tuple(sorted(replaces)), clock)
            self._commit(table, landing, here, added)
            kept = tuple(one for one in source.held if one.version not in replaces)
            here[payload.source] = Source(version, (*kept, landing))
            self._leave_other_tables(payload, landing, live, is_replacing)
        return landing

    def _write(
        self,
        connection: Connection,
        payload: Payload,
        content: Content | None,
        version: int,
        replaces: tuple[int, ...],
        clock: Clock,
    ) -> tuple[Landing, list[delta.DataFile]]:
        """Puts the rows into the table's folder, where the commit is to find them, and the bad ones into quarantine."""
        parquet = self.staging / f"{uuid.uuid4().hex}.parquet"
        copied, content, rows_read = self._copy(connection, payload, parquet, content)
        landing = Landing(
            source=payload.source,
            table=payload.layout.table.name,
            sha256=content.sha256,
            size_bytes=content.size_bytes,
            rows_read=rows_read,
            rows_landed=copied.rows,
            rows_quarantined=len(copied.bad),
            version=version,
            landed_at=clock.now(),
            file=parquet.name,
            replaces=replaces,
        )
        self.quarantine.add(landing, copied.bad, self.staging)
        folder = self.folder / landing.table
        make_folder(folder)
        sync(parquet)
        parquet.replace(folder / landing.file)
        return landing, [delta.DataFile(landing.file, copied.rows, copied.null_counts, copied.sha256)]

    def _leave_other_tables(self, payload: Payload, landing: Landing, live: Live, is_replacing: bool) -> None:
        """A content is in one table; a path that is replaced no longer provides the rows of another kind of file."""
        for table, here in live.items():
            source = here.get(payload.source, Source())
            gone = {one.version for one in source.held if is_replacing or one.sha256 == landing.sha256}
            if gone and table != landing.table:
                left = _nothing(replace(landing, table=table, version=source.version + 1), tuple(sorted(gone)))
                self._commit(bronze_tables()[table], left, here, [])
                here[payload.source] = Source(left.version, tuple(x for x in source.held if x.version not in gone))

    def take_back(self, landing: Landing, clock: Clock) -> tuple[Landing, ...]:
        """In one commit: what it replaced is in force again. The history keeps all. What the source then has."""
        history = self.landings(landing.table)
        here = sources(history)
        back = [one for one in replaced_by(landing, history) if (self.folder / landing.table / one.file).is_file()]
        files = {one.file for other in here.values() for one in other.held}
        added = [delta.DataFile(one.file, one.rows_landed, {}) for one in back if one.file not in files]
        version = here[landing.source].version + 1
        left = _nothing(replace(landing, version=version, landed_at=clock.now()), (landing.version,))
        left = replace(left, restores=tuple(one.version for one in back))
        with lake_errors(f"taking back {landing.source}"):
            self._commit(bronze_tables()[landing.table], left, here, added, {one.file for one in back})
        return sources([*history, left])[landing.source].held

    def _copy(
        self, connection: Connection, payload: Payload, parquet: Path, content: Content | None
    ) -> tuple[Copied, Content, int]:
        layout = payload.layout
        if layout.quote or layout.rewrite:  # a line need not be a row
            content = content or read_content(payload.path)
            copied, rows_read = self._copy_carefully(connection, payload, parquet)
        else:
            copied, content = copy_blocks(payload.path, layout, parquet, payload.source)
            rows_read = copied.rows
            if not _is_whole(copied, layout, rows_read):
                copied, rows_read = self._copy_with_rejects(connection, payload, parquet)
        if not copied.rows:
            reason = copied.bad[0].reason if copied.bad else "it has no rows"
            kind = layout.table.name.removeprefix("bronze_").replace("_", " ")
            # Of a rewritten file these columns are ours, not those that its owner sees.
            hint = (
                "check that the file is whole, and as its program wrote it: docs/telemetry.md, docs/slurm.md"
                if layout.rewrite
                else f"expected the columns: {', '.join(layout.file_columns)}"
            )
            raise InputError(f"no row of {payload.source} can be read as {kind}: {reason}", hint)
        return copied, content, rows_read

    def _copy_with_rejects(self, connection: Connection, payload: Payload, parquet: Path) -> tuple[Copied, int]:
        """By the engine, which keeps rows that do not parse; the careful way where it gives up or loses a line."""
        rows_read = count_lines(payload.path) - payload.layout.has_header
        with suppress(duckdb.InvalidInputException, duckdb.ConversionException):
            copied = copy_csv(connection, payload.path, payload.layout, parquet, payload.source)
            if _is_whole(copied, payload.layout, rows_read):
                return copied, rows_read
        return self._copy_carefully(connection, payload, parquet)

    def _copy_carefully(self, connection: Connection, payload: Payload, parquet: Path) -> tuple[Copied, int]:
        layout, source = payload.layout, payload.source
        clean = parquet.with_suffix(".csv")
        try:
            if layout.rewrite:
                with rewritten(payload.path, layout, parquet) as (found, bad):
                    rows_read = found.rows + len(bad)
                    copied = copy_rewritten(connection, found, parquet, source)
            else:
                rows_read, bad = sanitise(payload.path, layout, clean)
                copied = copy_csv(connection, clean, layout, parquet, source)
        except InputError as error:
            raise InputError(f"cannot read {source}: {error.message}", error.hint) from error
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            raise InputError(f"cannot read {source}: {first_line(error)}", "check the file's format") from error
        finally:
            clean.unlink(missing_ok=True)
        if copied.rows + len(copied.bad) + len(bad) != rows_read:
            raise InputError(
                f"{source} has {rows_read} rows; {copied.rows} parse and {len(copied.bad) + len(bad)} do not",
                "nothing was landed; the file may be changing while it is read",
            )
        return replace(copied, bad=sorted([*bad, *copied.bad], key=lambda row: row.line_number)), rows_read

    def _commit(
        self,
        table: Table,
        landing: Landing,
        here: Mapping[str, Source],
        added: list[delta.DataFile],
        kept: Collection[str] = (),
    ) -> None:
        """One commit adds the new file and takes away what it replaces, unless another landing holds that content."""
        mine = here.get(landing.source, Source()).held
        spent = {one.file for one in mine if one.version in (landing.replaces or ())} - {landing.file, *kept}
        if spent:
            gone = [one for one in mine if one.version in (landing.replaces or ())]
            spent -= {one.file for other in here.values() for one in other.held if one not in gone}
            self.storage(landing.table).split(spent, landing.landed_at)
        entry = asdict(replace(landing, is_new=True))
        delta.commit(
            self.folder / landing.table,
            delta_schema(table),
            added,
            transaction=f"{landing.source}#{landing.version}",
            metadata={**entry, "landed_at": landing.landed_at.isoformat()},
            supersedes=sorted(spent),
        )


def _nothing(landing: Landing, replaces: tuple[int, ...]) -> Landing:
    """An entry that only puts landings out of force."""
    return replace(landing, rows_read=0, rows_landed=0, rows_quarantined=0, file="", replaces=replaces, restores=())


def _is_whole(copied: Copied, layout: CsvLayout, rows_read: int) -> bool:
    has_gap = any(copied.null_counts.get(name, 0) for name in layout.table.required)
    return copied.is_sound and not has_gap and copied.rows + len(copied.bad) == rows_read
