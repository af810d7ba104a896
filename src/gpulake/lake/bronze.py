"""Text files → bronze: typed, compressed Parquet, committed to Delta, each content once.

A clean file is read once, in blocks that are hashed, parsed and written on several threads. Another one is read by the
engine, which keeps the rows that do not parse; that is accepted only if nothing is missing: rows landed + rows rejected
= lines. Otherwise the careful way goes over the file line by line first.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
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
from gpulake.lake.engine import Connection, first_line, lake_errors
from gpulake.lake.quarantine import Quarantine
from gpulake.lake.rewritten import copy_rewritten, rewritten
from gpulake.lake.sanitise import sanitise
from gpulake.lake.textfile import copy_csv, count_lines
from gpulake.lake.types import delta_schema

# The newest landing by table and source; one without a file was undone.
Live = dict[str, dict[str, Landing]]


def landing_of(entry: Mapping[str, Any]) -> Landing:
    """From the metadata of a commit of a bronze table."""
    return Landing(**{**entry, "landed_at": datetime.fromisoformat(entry["landed_at"])})


@dataclass(frozen=True)
class Bronze:
    folder: Path
    staging: Path
    quarantine: Quarantine

    def landings(self, table: str) -> list[Landing]:
        """Every version of every source, oldest first."""
        return [landing_of(entry) for entry in delta.history(self.folder / table)]

    def newest_landings(self, table: str) -> dict[str, Landing]:
        """The newest version of each source: one without a file went to another table, or was taken back."""
        return {landing.source: landing for landing in self.landings(table)}

    def files(self, table: str) -> list[Path]:
        return delta.live_files(self.folder / table)

    def cut_commits(self) -> list[Path]:
        """What a power cut left of commits that were never acknowledged."""
        return [path for folder in sorted(self.folder.glob("*")) for path in delta.cut_commits(folder)]

    def land(self, connection: Connection, payload: Payload, clock: Clock, live: Live) -> Landing:
        """Lands a source unless its content is there; `live` is what all tables hold, and is kept up to date."""
        table = payload.layout.table.name
        size = payload.path.stat().st_size
        here = live.setdefault(table, {})
        # A content that has landed has the size of a landed file; only then must its hash be known beforehand.
        held = [landing for landing in here.values() if landing.file]
        content = read_content(payload.path) if any(landing.size_bytes == size for landing in held) else None
        twin = next((landing for landing in held if content and landing.sha256 == content.sha256), None)
        before = here.get(payload.source)
        version = before.version + 1 if before else 1
        before = before if before and before.file else None
        if twin and before and before.sha256 == twin.sha256:
            return replace(before, is_new=False)
        with lake_errors(f"landing {payload.source}"):
            if twin:
                landing = replace(twin, source=payload.source, version=version, landed_at=clock.now(), is_new=False)
                added: list[delta.DataFile] = []
            else:
                landing, added = self._write(connection, payload, content, version, clock)
            self._commit(payload.layout.table, landing, before, here, added)
            here[payload.source] = landing
            self._leave_other_tables(payload, landing, live)
        return landing

    def _write(
        self, connection: Connection, payload: Payload, content: Content | None, version: int, clock: Clock
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
        )
        self.quarantine.add(landing, copied.bad)
        folder = self.folder / landing.table
        make_folder(folder)
        sync(parquet)
        parquet.replace(folder / landing.file)
        return landing, [delta.DataFile(landing.file, copied.rows, copied.null_counts, copied.sha256)]

    def _leave_other_tables(self, payload: Payload, landing: Landing, live: Live) -> None:
        """A path that now holds another kind of table no longer provides its old rows."""
        for table, sources in live.items():
            before = sources.get(payload.source)
            if before and before.file and table != landing.table:
                gone = replace(landing, table=table, version=before.version + 1, rows_landed=0, file="")
                self._commit(bronze_tables()[table], gone, before, sources, [])
                sources[payload.source] = gone

    def take_back(self, landing: Landing, clock: Clock) -> Landing:
        """In one commit: the version before it holds again, where there is one, or none. The history keeps all."""
        every = [other for other in self.landings(landing.table) if other.source == landing.source]
        first = min(other.version for other in every if other.file == landing.file)
        earlier = next((other for other in every if other.version == first - 1), None)
        is_there = earlier is not None and earlier.file and (self.folder / landing.table / earlier.file).is_file()
        held = (
            earlier
            if earlier and is_there
            else replace(landing, rows_read=0, rows_landed=0, rows_quarantined=0, file="")
        )
        here = self.newest_landings(landing.table)
        is_held_already = any(other.file == held.file for other in here.values())
        added = [] if is_held_already or not held.file else [delta.DataFile(held.file, held.rows_landed, {})]
        held = replace(held, version=landing.version + 1, landed_at=clock.now())
        with lake_errors(f"taking back {landing.source}"):
            self._commit(bronze_tables()[landing.table], held, landing, here, added)
        return held

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
        before: Landing | None,
        here: dict[str, Landing],
        added: list[delta.DataFile],
    ) -> None:
        """One commit adds the new file and takes away the old one, unless another source still holds its content."""
        others = {other.file for source, other in here.items() if source != landing.source}
        is_spent = before is not None and before.file not in {landing.file, *others}
        entry = asdict(replace(landing, is_new=True))
        delta.commit(
            self.folder / landing.table,
            delta_schema(table),
            added,
            transaction=f"{landing.source}#{landing.version}",
            metadata={**entry, "landed_at": landing.landed_at.isoformat()},
            supersedes=[before.file] if before and is_spent else [],
        )


def _is_whole(copied: Copied, layout: CsvLayout, rows_read: int) -> bool:
    has_gap = any(copied.null_counts.get(name, 0) for name in layout.table.required)
    return copied.is_sound and not has_gap and copied.rows + len(copied.bad) == rows_read
