"""Lake: the verbs that rooms use. Writers take turns; readers never wait and are never waited for."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa

from gpulake.core.clock import Clock
from gpulake.core.config import LAKE_MARKER, Config
from gpulake.core.disk import sync
from gpulake.core.errors import LakeBusyError, LakeError, UsageError
from gpulake.core.tables import bronze_tables, written_tables
from gpulake.core.types import Landing, NudgeRecord, Payload, Run, TestResult
from gpulake.lake import delta, views
from gpulake.lake.before import name_as_before
from gpulake.lake.bronze import Bronze, Live
from gpulake.lake.builds import SUFFIX, Builds, replace_text
from gpulake.lake.engine import Connection, Value, connect, create_table, lake_errors, literal, name, text
from gpulake.lake.quarantine import Quarantine
from gpulake.lake.textfile import PARQUET_OPTIONS
from gpulake.lake.types import engine_types

FORMAT_VERSION = 1
JOURNAL = {
    "runs": "runs.jsonl",
    "test_results": "tests.jsonl",
    "nudges": "nudges.jsonl",
    "diagnoses": "diagnoses.jsonl",
    "log_templates": "log_templates.jsonl",
    "incident_events": "incidents.jsonl",
    "maintenance_window_events": "windows.jsonl",
    "alert_events": "alerts.jsonl",
    "recoveries": "recoveries.jsonl",
    "rule_events": "rules.jsonl",
}


class Lake:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = config.lake.absolute()
        self.staging = self.root / "staging"
        self.models = self.root / "models"
        self.gold = self.root / "gold"
        self.builds = Builds(self.root / "builds")
        self.quarantine = Quarantine(self.root / "quarantine")
        self.bronze = Bronze(self.root / "bronze", self.staging, self.quarantine)

    # The lake itself

    def open(self) -> Lake:
        """For readers: the lake must be there."""
        if not self.exists:
            raise LakeError(f"no lake at {self.root}", "create one with: gpulake demo, or: gpulake refresh PATH...")
        try:
            version = json.loads((self.root / LAKE_MARKER).read_text(encoding="utf-8"))["format"]
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise LakeError(f"the lake at {self.root} has no readable {LAKE_MARKER}: {error}", "restore it") from error
        if version != FORMAT_VERSION:
            raise LakeError(f"the lake at {self.root} has format {version}", f"this gpulake reads {FORMAT_VERSION}")
        return self

    @property
    def exists(self) -> bool:
        return self.config.has_lake

    def create(self) -> Lake:
        """For writers: the lake is made if there is none. A folder of something else is left alone."""
        if not self.exists:
            with lake_errors(f"creating the lake at {self.root}"):
                self.root.mkdir(parents=True, exist_ok=True)
                # A marker that a crash left half-written is ours.
                if not all(path.name.startswith(f".{LAKE_MARKER}") for path in self.root.iterdir()):
                    raise UsageError(f"{self.root} is a folder of something else", "name an empty or a new folder")
                replace_text(self.root / LAKE_MARKER, json.dumps({"format": FORMAT_VERSION}))
        return self.open()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One writer at a time. The lock goes with the process, so a crash never leaves it behind."""
        with lake_errors(f"locking the lake at {self.root}"), (self.root / ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LakeBusyError(
                    f"another gpulake is writing to {self.root}", "wait until it is done, then run the command again"
                ) from error
            shutil.rmtree(self.staging, ignore_errors=True)
            for folder in (self.staging, self.models, self.gold, self.builds.folder, self.bronze.folder):
                folder.mkdir(exist_ok=True)
            yield

    @contextmanager
    def alone(self, work: str) -> Iterator[None]:
        """One at a time does this work, beside whoever writes to the lake. The lock goes with the process, too."""
        with lake_errors(f"locking the {work} of {self.root}"):
            lock = (self.root / f".{work}.lock").open("a")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LakeBusyError(
                    f"another gpulake works on the {work} of {self.root}", "wait until it is done, or leave it to it"
                ) from error
            yield

    def connect(self, spill: Path | None = None) -> Connection:
        return connect(self.config.memory_limit, self.config.threads, spill or self.staging / "spill")

    # Bronze

    def land(self, connection: Connection, payload: Payload, clock: Clock, live: Live) -> Landing:
        return self.bronze.land(connection, payload, clock, live)

    def landings(self) -> list[Landing]:
        every = (landing for table in bronze_tables() for landing in self.bronze.landings(table))
        return sorted(every, key=lambda landing: landing.landed_at)

    def live(self) -> Live:
        """What each source stands for now, by table."""
        with lake_errors(f"reading what landed in {self.root}"):
            return {table: self.bronze.live_landings(table) for table in bronze_tables()}

    def live_landings(self) -> list[Landing]:
        """Each content that the tables hold now, once, though several sources may have it."""
        every = (landing for sources in self.live().values() for landing in sources.values())
        return list({landing.file: landing for landing in every}.values())

    def attach_landed(self, connection: Connection, path: Path | str = ":memory:") -> list[Path]:
        """Bronze and the journal, as views of a catalogue of their own: builds hold no path. Returns their files."""
        connection.execute(f"ATTACH {text(str(path))} AS {views.LANDED}")
        written = written_tables()
        views.landings_table(connection, written["landings"], self.landings())
        files = {table: self.bronze.files(table) for table in bronze_tables()}
        for table in bronze_tables().values():
            views.parquet_view(connection, table, files[table.name])
        # Rows of a content whose landing was cut short are not there yet; those of an older version are no more.
        live = f'SELECT sha256, "table" AS table_name FROM {views.LANDED}.landings WHERE is_live'
        only = f"SEMI JOIN ({live}) USING (sha256, table_name)"
        set_aside = delta.live_files(self.quarantine.folder)
        views.parquet_view(connection, written["quarantine"], set_aside, only)
        for journal, file in JOURNAL.items():
            views.json_view(connection, written[journal], self.root / file)
        for table in written.values():
            if table.latest:
                views.latest_view(connection, table, table.latest)
        return [*chain(*files.values()), *set_aside, *(self.root / file for file in JOURNAL.values())]

    # Builds

    def staged_path(self, build_id: str) -> Path:
        return self.staging / f"{build_id}{SUFFIX}"

    @contextmanager
    def stage(self, build_id: str, base: Path | None = None) -> Iterator[Staging]:
        """A build in the making, empty or a copy of another: nobody sees it before it is published."""
        path = self.staged_path(build_id)
        with lake_errors("building"), self.connect() as connection:
            if base:
                shutil.copyfile(base, path)
            self.attach_landed(connection)
            connection.execute(f"ATTACH {text(str(path))} AS lake")
            connection.execute("USE lake.main")
            # A build that is cut off is thrown away, so that there is nothing to save before its end.
            connection.execute("SET wal_autocheckpoint = '1TB'")
            yield Staging(self, build_id, path, connection)

    def gold_build(self, table: str) -> str:
        """The build whose rows other engines find in a gold table."""
        commits = delta.history(self.gold / table)
        return str(commits[-1]["build_id"]) if commits else ""

    # The journal

    def record(self, run: Run) -> None:
        self._append("runs.jsonl", {**asdict(run), "started_at": run.started_at.isoformat()})

    def record_nudge(self, record: NudgeRecord) -> None:
        """On the disk before what it announces is done: a crash must not let it be done twice."""
        times = {"seen_at": record.seen_at.isoformat(), "nudged_at": record.nudged_at.isoformat()}
        self._append("nudges.jsonl", {**asdict(record), **times})
        sync(self.root / "nudges.jsonl")

    def journal(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table of the journal as they were written, without the engine: it takes longer to start."""
        path = self.root / JOURNAL[table]
        with lake_errors("reading the journal"):
            lines = path.read_bytes().splitlines() if path.exists() else []
        return [row for line in lines if (row := _row(line)) is not None]

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of a table of the journal, on the disk when this returns."""
        file = JOURNAL[table]
        columns = set(written_tables()[table].column_names)
        for row in rows:
            if unknown := set(row) - columns:
                raise AssertionError(f"{table} has no column {sorted(unknown)}")
        if rows:
            self._append(file, *rows)
            sync(self.root / file)

    def _append(self, file: str, *rows: Mapping[str, Any]) -> None:
        path = self.root / file
        lines = b"".join(json.dumps(row, default=_as_text).encode() + b"\n" for row in rows)
        with lake_errors("writing the journal"), path.open("a+b") as journal:
            # A line that a crash cut short must not take the next one with it.
            is_cut = journal.tell() > 0 and _last_byte(journal) != b"\n"
            journal.write(b"\n" * is_cut + lines)

    def record_tests(self, build_id: str, results: Sequence[TestResult]) -> None:
        lines = [json.dumps({"build_id": build_id, "status": result.status, **asdict(result)}) for result in results]
        replace_text(self.root / "tests.jsonl", "\n".join([*lines, ""]))

    # Reading

    @contextmanager
    def reading(self, may_spill: bool = True) -> Iterator[Reader]:
        """The last complete build, bronze and the journal, read-only."""
        # Not in the lake: a reader may not be able to write there, and a writer empties its staging.
        spill = Path(tempfile.gettempdir()) / f"gpulake-{os.getpid()}" if may_spill else None
        with connect(self.config.memory_limit, self.config.threads, spill) as connection:
            with lake_errors(f"opening the lake at {self.root}"):
                files = self.attach_landed(connection)
                self._attach_build(connection)
                # Just the files that the views name, so that nothing else of the lake or of the disk can be reached.
                paths = ", ".join(text(str(path)) for path in files)
                connection.execute(f"SET allowed_paths = [{paths}]")
                connection.execute("SET enable_external_access = false")
                connection.execute("SET lock_configuration = true")
            yield Reader(connection)

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
            break
        connection.execute(f"SET search_path = 'lake.main,{views.LANDED}.main'")


def _set(variable: str, value: Value) -> str:
    return f"SET VARIABLE {name(variable)} = {literal(value)}"


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _row(line: bytes) -> dict[str, Any] | None:
    """A line that a crash cut short is no row."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)


@dataclass(frozen=True)
class Staging:
    lake: Lake
    build_id: str
    path: Path
    connection: Connection

    def read(self, query: str) -> pa.Table:
        return self.connection.execute(query).to_arrow_table()

    def write(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Writes a table of written.toml, in the types that it promises."""
        create_table(self.connection, f"lake.main.{name(table)}", engine_types(written_tables()[table]), rows)

    def tables(self, database: str = "lake") -> list[str]:
        query = f"SELECT table_name FROM duckdb_tables() WHERE database_name = {text(database)}"
        return sorted(row[0] for row in self.connection.execute(query).fetchall())

    def record_tables(self, built_at: datetime) -> None:
        """When each table was made; those that are carried over keep their own time."""
        own = [{"table": table, "build_id": self.build_id, "built_at": built_at} for table in self.tables()]
        self.write("table_builds", own)

    def carry_over(self) -> None:
        """Takes from the current build what this one did not build."""
        current = self.lake.builds.current()
        if current is None:
            return
        self.connection.execute(f"ATTACH {text(str(current))} AS previous (READ_ONLY)")
        for table in set(self.tables("previous")).difference(self.tables()):
            self.connection.execute(f"CREATE TABLE lake.main.{name(table)} AS FROM previous.main.{name(table)}")
        self.connection.execute(
            "INSERT INTO lake.main.table_builds FROM previous.main.table_builds"
            ' ANTI JOIN lake.main.table_builds USING ("table")'
        )
        self.connection.execute("DETACH previous")

    def publish(self) -> None:
        """Readers see the whole build from now on; other engines find its gold as Delta tables."""
        for table in self.tables():
            if table.startswith("gold_"):
                self._export(table)
        name_as_before(self.connection, "lake")
        self.connection.execute("USE memory")
        self.connection.execute("DETACH lake")
        self.lake.builds.publish(self.path, self.build_id, self.lake.config.keep_builds)

    def _export(self, table: str) -> None:
        folder = self.lake.gold / table
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.build_id}.parquet"
        self.connection.execute(f"COPY lake.main.{name(table)} TO {text(str(file))} ({PARQUET_OPTIONS})")
        sync(file)
        delta.replace(folder, file, {"build_id": self.build_id})


@dataclass(frozen=True)
class Reader:
    connection: Connection

    def query(self, query: str, **values: Value) -> pa.Table:
        """The rows of one query. It reads the values given by their names: getvariable('user')."""
        with self._asking(query, values):
            return self.connection.execute(query).to_arrow_table()

    def stream(self, query: str, rows: int, **values: Value) -> Iterator[pa.RecordBatch]:
        """The same, so many rows at a time, for what does not fit into memory. One stream of a reader at a time."""
        with self._asking(query, values):
            yield from self.connection.execute(query).to_arrow_reader(rows)

    def offer(self, table: str, rows: pa.Table) -> None:
        """Rows that its queries can read beside the lake's. Nobody else sees them, and they go with the reader."""
        self.connection.register(table, rows)

    def first(self, query: str, rows: int) -> pa.Table:
        """So many of its rows: the rest is not worked out."""
        with self._asking(query, {}):
            found, batches, count = self.connection.execute(query).to_arrow_reader(2_000), [], 0
            while count < rows and (batch := next(found, None)) is not None:
                batches.append(batch)
                count += batch.num_rows
            return pa.Table.from_batches(batches, found.schema).slice(0, rows)

    @contextmanager
    def _asking(self, query: str, values: dict[str, Value]) -> Iterator[None]:
        try:
            for variable, value in values.items():
                # As text, for the reason that create_table has; the variables of a connection are not the lake's.
                # One that has no value has no type either: a NULL that is set would be an integer.
                words = f"RESET VARIABLE {name(variable)}" if value is None else _set(variable, value)
                self.connection.execute(words)
            statements = self.connection.extract_statements(query)
            if len(statements) != 1:
                raise UsageError(f"{len(statements)} statements given", "give one query at a time")
            if statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("only queries are allowed: the lake is read-only", "begin with SELECT, WITH or FROM")
            yield
        except (duckdb.Error, pa.ArrowException) as error:
            raise UsageError(f"the query failed: {error}", "see the tables and columns with: gpulake tables") from error
