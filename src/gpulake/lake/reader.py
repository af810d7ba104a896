"""Read-only access to the lake: one query at a time, on what was published when it was opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from gpulake.core.errors import LakeError, UsageError
from gpulake.lake import views
from gpulake.lake.engine import DAMAGED, REPAIR, Connection, Value, is_damage, literal, name, row_counts
from gpulake.lake.reference import SCHEMA


@dataclass(frozen=True)
class LakeReader:
    _connection: Connection
    _landed: views.Landed = field(default_factory=views.Landed)

    @property
    def connection(self) -> Connection:
        """For queries that the reader does not see: every table is there."""
        self._landed.make_all()
        return self._connection

    def query(self, query: str, **values: Value) -> pa.Table:
        """The rows of one query. It reads the values given by their names: getvariable('user')."""
        with self._checked(query, values):
            return self._execute(query).to_arrow_table()

    def rows(self, query: str, **values: Value) -> list[dict[str, Any]]:
        """The same as plain rows."""
        rows: list[dict[str, Any]] = self.query(query, **values).to_pylist()
        return rows

    def tables(self) -> set[str]:
        """Every table and view that a query of this reader can name. A partial build lacks some."""
        made = {name for (name,) in self._connection.execute("SHOW TABLES").fetchall()}
        return made | (self._landed.unmade - {SCHEMA})

    def need(self, tables: Iterable[str]) -> None:
        """Raises unless the build has all of these tables."""
        if missing := sorted(set(tables) - self.tables()):
            raise LakeError(f"no whole build yet: {', '.join(missing)} missing", "run: gpulake build")

    def counts(self) -> dict[str, int]:
        """The rows of each table of the build."""
        return row_counts(self._connection)

    def stream(self, query: str, rows: int, **values: Value) -> Iterator[pa.RecordBatch]:
        """The same, so many rows at a time, for what does not fit into memory. One stream of a reader at a time."""
        with self._checked(query, values):
            yield from self._execute(query).to_arrow_reader(rows)

    def offer(self, table: str, rows: pa.Table) -> None:
        """Rows that its queries can read beside the lake's. Only this reader sees them."""
        self._connection.register(table, rows)

    def first(self, query: str, rows: int) -> pa.Table:
        """The first rows of a query; the rest is not computed."""
        with self._checked(query, {}):
            found, batches, count = self._execute(query).to_arrow_reader(2_000), [], 0
            while count < rows and (batch := next(found, None)) is not None:
                batches.append(batch)
                count += batch.num_rows
            return pa.Table.from_batches(batches, found.schema).slice(0, rows)

    def _execute(self, query: str) -> Connection:
        self._landed.make_named(query)
        try:
            return self._connection.execute(query)
        except duckdb.CatalogException:
            # A query may put a name together.
            if not self._landed.make_all():
                raise
            return self._connection.execute(query)

    @contextmanager
    def _checked(self, query: str, values: dict[str, Value]) -> Iterator[None]:
        try:
            for variable, value in values.items():
                # As text, for the reason given in create_table. A variable that is set to NULL would be an integer.
                words = (
                    f"RESET VARIABLE {name(variable)}"
                    if value is None
                    else f"SET VARIABLE {name(variable)} = {literal(value)}"
                )
                self._connection.execute(words)
            statements = self._connection.extract_statements(query)
            if len(statements) != 1:
                raise UsageError(f"{len(statements)} statements given", "give one query at a time")
            if statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("only queries are allowed: the lake is read-only", "begin with SELECT, WITH or FROM")
            yield
        except (duckdb.Error, pa.ArrowException) as error:
            if is_damage(error):
                raise LakeError(
                    f"{DAMAGED} what was asked for: {views.damaged_file(self.connection, error)}", REPAIR
                ) from error
            raise UsageError(f"the query failed: {error}", "see the tables and columns with: gpulake tables") from error
