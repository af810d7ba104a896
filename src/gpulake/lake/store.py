"""Lake: the verbs that rooms use. Writers take turns; readers never wait and are never waited for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import duckdb
import pyarrow as pa
from deltalake.exceptions import DeltaError

from gpulake.core.clock import Clock
from gpulake.core.config import LAKE_MARKER, Config
from gpulake.core.disk import make_folder, replace_text, sync_all
from gpulake.core.errors import LakeBusyError, LakeError, UsageError
from gpulake.core.locks import locked
from gpulake.core.tables import bronze_tables, written_tables
from gpulake.core.types import Landing, NudgeRecord, Payload, Run, TestResult
from gpulake.lake import archive, delta, reference, views
from gpulake.lake.access import as_private_as, make_root
from gpulake.lake.archive import Archive
from gpulake.lake.before import name_as_before
from gpulake.lake.bronze import Bronze
from gpulake.lake.builds import POINTER, SUFFIX, Builds
from gpulake.lake.engine import (
    DAMAGED,
    Connection,
    connect,
    create_table,
    first_line,
    lake_errors,
    name,
    row_counts,
    text,
)
from gpulake.lake.gold import PREFIX, Changes, Gold
from gpulake.lake.in_force import Live, in_order
from gpulake.lake.incidents import IncidentStore
from gpulake.lake.journal import FILES as JOURNALS
from gpulake.lake.journal import Journal, to_lines
from gpulake.lake.migrating import format_of, put_format
from gpulake.lake.quarantine import Quarantine
from gpulake.lake.reader import LakeReader
from gpulake.lake.types import engine_types

STORAGE_VERSION = "v1.5.0"  # of the files of builds; the oldest engine that pyproject.toml allows reads it
_SIZE = "pragma_database_size() WHERE database_name = 'lake'"
BOOKKEEPING = ("build_info", "build_inputs", "table_builds")
RELEASED_TO = "32MB"  # of the memory that the engine may keep


class Lake:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = config.lake.absolute()
        self.staging = self.root / "staging"
        self.models = self.root / "models"
        self.gold = self.root / "gold"
        self.builds = Builds(self.root / "builds")
        self.exports = Gold(self.gold)
        self.quarantine = Quarantine(self.root / "quarantine")
        self.journals = Journal(self.root)
        self.incidents = IncidentStore(self)
        self.bronze = Bronze(self.root / "bronze", self.staging, self.quarantine)
        self.archive = Archive(self.root / archive.FOLDER)

    # The lake itself

    def open(self) -> Lake:
        """For readers: the lake must be there."""
        if not self.exists:
            raise LakeError(f"no lake at {self.root}", "create one with: gpulake demo, or: gpulake refresh PATH...")
        format_of(self.root)
        return self

    @property
    def exists(self) -> bool:
        return self.config.has_lake

    def create(self) -> Lake:
        """For writers: the lake is made if there is none. A folder of something else is left alone."""
        if not self.exists:
            with lake_errors(f"creating the lake at {self.root}"):
                # A marker that a crash left half-written is ours.
                found = self.root.iterdir() if self.root.exists() else ()
                if not all(path.name.startswith(f".{LAKE_MARKER}") for path in found):
                    raise UsageError(f"{self.root} is a folder of something else", "name an empty or a new folder")
                make_root(self.root, self.config.lake_access)
                with as_private_as(self.root):
                    put_format(self.root)
        return self.open()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One writer at a time. The lock goes with the process, so a crash never leaves it behind."""
        busy = LakeBusyError(
            f"another gpulake is writing to {self.root}", "wait until it is done, then run the command again"
        )
        turn = locked(self.root / ".lock", busy)
        with lake_errors(f"locking the lake at {self.root}"), as_private_as(self.root), turn:
            if self.staging.exists():
                self._clean_up()
            # A staging folder on disk shows, also after a power cut, that a writer has not finished.
            for folder in (self.staging, self.models, self.gold, self.builds.folder, self.bronze.folder):
                make_folder(folder)
            self._finish_export()
            yield
            shutil.rmtree(self.staging, ignore_errors=True)

    def _clean_up(self) -> None:
        """After a writer that died or failed: what it left visible is on the disk before anything rests on it, and
        files that nothing names go."""
        sync_all(self.root)
        for folder in (*self.bronze.folder.glob("*"), *self.gold.glob("*"), self.quarantine.folder):
            delta.remove_orphans(folder)
        for folder in (self.root, self.gold, self.builds.folder):
            for replaced in (LAKE_MARKER, JOURNALS["test_results"], POINTER):
                for path in folder.glob(f".{replaced}.*"):
                    path.unlink()
        shutil.rmtree(self.staging)

    def _finish_export(self) -> None:
        """A build that was published and not yet exported. One that cannot be read is for the next build to replace."""
        with suppress(LakeError), lake_errors("exporting gold"):
            current = self.builds.current()
            if current is not None and not self.exports.is_of(current):
                with self.connect() as connection:
                    self.exports.export(connection, current)

    @contextmanager
    def alone(self, work: str, is_patient: bool = False) -> Iterator[None]:
        """An exclusive lock for this work, independent of the writer's lock."""
        busy = LakeBusyError(
            f"another gpulake works on the {work} of {self.root}", "wait until it is done, or leave it to it"
        )
        with as_private_as(self.root), ExitStack() as held:
            with lake_errors(f"locking the {work} of {self.root}"):
                held.enter_context(locked(self.root / f".{work}.lock", busy, is_patient))
            yield

    def connect(self, spill: Path | None = None) -> Connection:
        return connect(self.config.memory_limit, self.config.threads, spill or self.staging / "spill")

    # Bronze

    def land(self, connection: Connection, payload: Payload, clock: Clock, live: Live, **how: Any) -> Landing:
        return self.bronze.land(connection, payload, clock, live, **how)

    def landings(self) -> list[Landing]:
        """Every version of every source, those of a table in the order of their commits."""
        return in_order(self.bronze.landings(table) for table in bronze_tables())

    def live(self) -> Live:
        """What is in force of each source, by table."""
        with lake_errors(f"reading what landed in {self.root}"):
            return {table: self.bronze.sources(table) for table in bronze_tables()}

    def held_landings(self) -> list[Landing]:
        """Every landing in force."""
        return [landing for here in self.live().values() for source in here.values() for landing in source.held]

    def live_landings(self) -> list[Landing]:
        """Each content that the tables hold now, once, though several sources may have it."""
        return list({landing.file: landing for landing in self.held_landings()}.values())

    def attach_landed(
        self,
        connection: Connection,
        path: Path | str = ":memory:",
        without: Collection[tuple[str, str]] = (),
        only: Collection[tuple[str, str]] | None = None,
    ) -> views.Landed:
        """Bronze and the journal, as views of a separate catalogue, which are yet to be made: builds hold no path.

        `without` names files of tables whose rows are not to be seen; `only`, those that are, if not all.
        """
        connection.execute(f"ATTACH {text(str(path))} AS {views.LANDED}")
        written, found = written_tables(), views.Landed()
        landed: list[list[Landing]] = []
        seen = {table: f"WHERE {one}" for table, one in archive.seen_from(self.archive.state()).items()}
        for table in bronze_tables().values():
            try:
                landed.append(self.bronze.landings(table.name))
                files = self.bronze.files(table.name)
            except DeltaError as error:
                reason = f"{DAMAGED} {table.name}: its log: {first_line(error)}"
                found.add(table.name, partial(views.broken_view, connection, table, reason))
                continue
            files = [file for file in files if (table.name, file.name) not in without]
            files = [file for file in files if only is None or (table.name, file.name) in only]
            found.files[table.name] = files
            found.add(table.name, partial(views.parquet_view, connection, table, files, seen.get(table.name, "")))
        landings = written["landings"]
        found.add("landings", partial(views.landings_table, connection, landings, in_order(landed)))
        # Rows of a content whose landing was cut short are not there yet; those of an older version are no more.
        live = f'SELECT sha256, "table" AS table_name FROM {views.LANDED}.landings WHERE is_live'
        known = f"SEMI JOIN ({live}) USING (sha256, table_name) {views.LAST_QUARANTINED}"
        found.files["quarantine"] = files = delta.live_files(self.quarantine.folder)
        found.add(
            "quarantine", partial(views.parquet_view, connection, written["quarantine"], files, known), "landings"
        )
        for journal in JOURNALS:
            file = self.journals.path(journal)
            found.files[journal] = [file]
            found.add(journal, partial(views.json_view, connection, written[journal], file))
        for table in written.values():
            if table.latest:
                found.add(table.name, partial(views.latest_view, connection, table, table.latest), table.latest.of)
        return found

    # Builds

    def staged_path(self, build_id: str) -> Path:
        return self.staging / f"{build_id}{SUFFIX}"

    @contextmanager
    def stage(
        self,
        build_id: str,
        base: Path | None = None,
        without: Collection[tuple[str, str]] = (),
        only: Collection[tuple[str, str]] | None = None,
    ) -> Iterator[Staging]:
        """A build in the making, empty or a copy of another, invisible until it is published."""
        path = self.staged_path(build_id)
        with lake_errors("building"), self.connect() as connection:
            if base:
                shutil.copyfile(base, path)
            landed = self.attach_landed(connection, without=without, only=only)
            landed.make_all()
            # A build that is cut off needs no write-ahead log; the newer storage has one encoding of text, not two.
            options = f"RECOVERY_MODE no_wal_writes, STORAGE_VERSION {text(STORAGE_VERSION)}"
            connection.execute(f"ATTACH {text(str(path))} AS lake ({options})")
            connection.execute("USE lake.main")
            yield Staging(self, build_id, path, connection, landed.files)

    def mend_exports(self, tables: Iterable[str]) -> None:
        """Exports gold again where other engines cannot read it."""
        current = self.builds.current()
        if current is None or self.exports.is_whole(current, [table for table in tables if table.startswith(PREFIX)]):
            return
        with lake_errors("exporting gold"), self.connect() as connection:
            self.exports.export(connection, current)

    # The journal

    def record(self, run: Run) -> None:
        """Not synced: a power cut may take the last rows of `runs`, on which nothing rests."""
        self.journals.append("runs", [asdict(run)], is_synced=False)

    def record_nudge(self, record: NudgeRecord) -> None:
        """On the disk before what it announces is done: a crash must not let it be done twice."""
        self.append("nudges", [asdict(record)])

    def journal(self, table: str, is_strict: bool = False) -> list[dict[str, Any]]:
        return self.journals.rows(table, is_strict)

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of a table of the journal, on the disk when this returns."""
        self.journals.append(table, rows)

    def record_tests(self, build_id: str, results: Sequence[TestResult]) -> None:
        rows = [{"build_id": build_id, "status": result.status, **vars(result)} for result in results]
        replace_text(self.journals.path("test_results"), to_lines(rows).decode())

    # Reading

    @contextmanager
    def reading(self, may_spill: bool = True, schema: str = "") -> Iterator[LakeReader]:
        """The last complete build, bronze and the journal, read-only; the tables of a schema before others."""
        # Not in the lake: a reader may not be able to write there, and a writer empties its staging. It is
        # private to this user.
        folder = _spill_folder() if may_spill else nullcontext()
        with folder as spill, connect(self.config.memory_limit, self.config.threads, spill) as connection:
            with lake_errors(f"opening the lake at {self.root}"):
                landed = self.attach_landed(connection)
                self._attach_build(connection)
                reference.offer(connection, landed, schema)
                # Just the files that the views name, so that nothing else of the lake or of the disk can be reached.
                paths = ", ".join(text(str(path)) for path in chain(*landed.files.values()))
                connection.execute(f"SET allowed_paths = [{paths}]")
                connection.execute("SET enable_external_access = false")
                connection.execute("SET lock_configuration = true")
            yield LakeReader(connection, landed)

    def _attach_build(self, connection: Connection) -> None:
        for _ in range(3):
            current = self.builds.current()
            if current is None:
                connection.execute("ATTACH ':memory:' AS lake")
                break
            try:
                connection.execute(f"ATTACH {text(str(current))} AS lake (READ_ONLY)")
            except duckdb.IOException:
                # It was replaced, and pruned, between the look at the pointer and the opening.
                if current != self.builds.current():
                    continue
                raise
            _refuse_cut_short(connection, current)
            break
        connection.execute(f"SET search_path = {text(views.SEARCH_PATH)}")


def _refuse_cut_short(connection: Connection, build: Path) -> None:
    """The engine notices only when it comes to a part that is missing."""
    row = connection.execute(f"SELECT block_size * total_blocks FROM {_SIZE}").fetchone()
    if row and build.stat().st_size < int(row[0]):
        raise LakeError(f"{build} is cut short: {build.stat().st_size:,} bytes", "make it anew: gpulake build")


def _write_free_blocks(connection: Connection, build: Path) -> None:
    """The engine counts free blocks at the end of a file that it may not have written: it would seem cut short."""
    connection.execute(f"ATTACH {text(str(build))} AS lake (READ_ONLY)")
    row = connection.execute(f"SELECT block_size * total_blocks FROM {_SIZE}").fetchone()
    connection.execute("DETACH lake")
    if row and build.stat().st_size < int(row[0]):
        os.truncate(build, int(row[0]))


@dataclass(frozen=True)
class Staging:
    lake: Lake
    build_id: str
    path: Path
    connection: Connection
    files: Mapping[str, Sequence[Path]] = field(default_factory=dict)  # by table

    @property
    def empty(self) -> frozenset[str]:
        return frozenset(table for table, files in self.files.items() if not files)

    def read(self, query: str) -> pa.Table:
        return self.connection.execute(query).to_arrow_table()

    def write(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Writes a table of written.toml, in the types declared there."""
        create_table(self.connection, f"lake.main.{name(table)}", engine_types(written_tables()[table]), rows)

    def release_memory(self) -> None:
        """What the engine keeps of tables that it wrote or read would come on top of what the next query needs."""
        with suppress(duckdb.OutOfMemoryException):
            self.connection.execute(f"SET memory_limit = {text(RELEASED_TO)}")
        self.connection.execute(f"SET memory_limit = {text(self.lake.config.memory_limit)}")

    def tables(self, database: str = "lake") -> list[str]:
        return list(row_counts(self.connection, database))

    def record_tables(self, built_at: datetime) -> None:
        """When each table was made. Of a build that is extended, earlier ones are written anew later."""
        counts = {table: rows for table, rows in self.counts().items() if table not in BOOKKEEPING}
        made = {"build_id": self.build_id, "built_at": built_at}
        self.write("table_builds", [{"table": table, **made, "rows": rows} for table, rows in counts.items()])

    def counts(self) -> dict[str, int]:
        """The rows of each table."""
        counts = (f"SELECT {text(table)}, count(*) FROM lake.main.{name(table)}" for table in self.tables())
        return dict(self.connection.execute(" UNION ALL ".join(counts)).fetchall())

    def carry_over(self) -> None:
        """Takes from the current build what this one did not build."""
        current = self.lake.builds.current()
        if current is None:
            return
        self.connection.execute(f"ATTACH {text(str(current))} AS previous (READ_ONLY)")
        for table in set(self.tables("previous")).difference(self.tables()):
            self.connection.execute(f"CREATE TABLE lake.main.{name(table)} AS FROM previous.main.{name(table)}")
        self.connection.execute(
            "INSERT INTO lake.main.table_builds BY NAME FROM previous.main.table_builds"
            ' ANTI JOIN lake.main.table_builds USING ("table")'
        )
        self.connection.execute("DETACH previous")

    def publish(self, changes: Changes | None = None) -> None:
        """Readers see the whole build from now on; then other engines find its gold as Delta tables."""
        name_as_before(self.connection, "lake")
        self.connection.execute("USE memory")
        self.connection.execute("DETACH lake")
        _write_free_blocks(self.connection, self.path)
        self.lake.builds.publish(self.path, self.build_id, self.lake.config.keep_builds)
        self.lake.exports.export(self.connection, self.lake.builds.folder / f"{self.build_id}{SUFFIX}", changes)


@contextmanager
def _spill_folder() -> Iterator[Path]:
    """Removed with its reader, even one that was never closed, without a warning."""
    folder = mkdtemp(prefix="gpulake-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
