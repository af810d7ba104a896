"""Views for SQL of the tables outside the build's database file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import duckdb

from gpulake.core.tables import Latest, Table
from gpulake.core.types import Landing
from gpulake.lake.delta import created_with
from gpulake.lake.engine import DAMAGED, Connection, create_table, first_line, name, text
from gpulake.lake.in_force import sources
from gpulake.lake.types import engine_types

# The catalogue that the dbt project calls `landed`.
LANDED = "landed"
SEARCH_PATH = f"lake.main,{LANDED}.main"
# A content that landed, was taken back and landed again was quarantined twice.
LAST_QUARANTINED = "QUALIFY rank() OVER (PARTITION BY table_name, sha256 ORDER BY quarantined_at DESC) = 1"
# Queries that look at the list of tables.
LISTING = re.compile(r"duckdb_|information_schema|pragma|pg_|sqlite_|\b(describe|show|tables)\b", re.I)


@dataclass
class Landed:
    """The views, each made when a query first names it: making them all takes longer than most queries."""

    files: dict[str, list[Path]] = field(default_factory=dict)  # by table, but for those whose log cannot be read
    _unmade: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = field(default_factory=dict)

    def add(self, table: str, make: Callable[[], None], *needs: str) -> None:
        """A view and how to make it, after those that it reads."""
        self._unmade[table] = make, needs

    @property
    def unmade(self) -> frozenset[str]:
        return frozenset(self._unmade)

    def make_named(self, query: str) -> None:
        words = set(re.findall(r"\w+", query.lower())) if self._unmade else set()
        for table in list(self._unmade) if LISTING.search(query) else words.intersection(self._unmade):
            self._make(table)

    def make_all(self) -> bool:
        """Whether there were any to make."""
        unmade = list(self._unmade)
        for table in unmade:
            self._make(table)
        return bool(unmade)

    def _make(self, table: str) -> None:
        make, needs = self._unmade.pop(table, (None, ()))
        for needed in needs:
            self._make(needed)
        if make:
            make()


def parquet_view(connection: Connection, table: Table, files: Sequence[Path], only: str = "") -> None:
    """The rows of the files, or of none; `only` narrows them down."""
    try:
        _view(connection, table.name, f"{_rows(table, files)} {only}")
    except duckdb.Error as error:
        # An error only for queries that read its rows.
        broken_view(connection, table, f"{DAMAGED} {table.name}: {first_line(error)}")


def _rows(table: Table, files: Sequence[Path]) -> str:
    if not files:
        return _empty(table)
    listed = ", ".join(text(str(file)) for file in files)
    first = created_with(files[0].parent)
    if not first or first.issuperset(table.column_names):
        return f"FROM read_parquet([{listed}], hive_partitioning = false)"
    # An older version made the table: files of that time lack columns, which are empty there.
    by_name = f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"
    return f"FROM (SELECT * {_empty(table)} UNION ALL BY NAME {by_name})"


def broken_view(connection: Connection, table: Table, reason: str) -> None:
    """Stands for a table that cannot be read: reading its rows raises the reason."""
    columns = ", ".join(f"NULL::{kind} AS {name(column)}" for column, kind in engine_types(table).items())
    _view(connection, table.name, f"FROM (SELECT {columns}) WHERE error({text(reason)})")


def json_view(connection: Connection, table: Table, path: Path) -> None:
    if not path.exists():
        _view(connection, table.name, _empty(table))
        return
    types = ", ".join(f"{text(column)}: {text(kind)}" for column, kind in engine_types(table).items())
    options = "format = 'newline_delimited', ignore_errors = true"
    # A line that a crash cut short is no row.
    complete = f"WHERE {name(table.column_names[0])} IS NOT NULL"
    _view(connection, table.name, f"FROM read_json({text(str(path))}, columns = {{{types}}}, {options}) {complete}")


def latest_view(connection: Connection, table: Table, latest: Latest) -> None:
    """The last row of each key; of rows at the same time, the one that was written last."""
    rows = f"FROM (SELECT *, row_number() OVER () AS written FROM {LANDED}.{name(latest.of)})"
    order = ", ".join(f"{name(column)} DESC NULLS LAST" for column in latest.order)
    window = f"PARTITION BY {name(latest.key)} ORDER BY {order}, written DESC"
    last = f"QUALIFY row_number() OVER ({window}) = 1"
    _view(connection, table.name, f"SELECT * EXCLUDE (written) {rows} {last}")


def landings_table(connection: Connection, table: Table, landings: Sequence[Landing]) -> None:
    """Those of a table in the order of their commits."""
    by_table: dict[str, list[Landing]] = {}
    for landing in landings:
        by_table.setdefault(landing.table, []).append(landing)
    live = {id(one) for every in by_table.values() for source in sources(every).values() for one in source.held}
    rows = [
        {**asdict(landing), "landing_id": landing.landing_id, "is_live": id(landing) in live}
        for landing in landings
        if landing.file
    ]
    create_table(connection, f"{LANDED}.main.{name(table.name)}", engine_types(table), rows)


def _view(connection: Connection, view: str, body: str) -> None:
    connection.execute(f"CREATE VIEW {LANDED}.{name(view)} AS {body}")


def _empty(table: Table) -> str:
    columns = ", ".join(f"NULL::{kind} AS {name(column)}" for column, kind in engine_types(table).items())
    return f"FROM (SELECT {columns} WHERE false)"


def damaged_file(connection: Connection, error: Exception) -> str:
    """The file that an error is about: the engine does not name it where it met it in the middle of a scan."""
    said = first_line(error)
    if ".parquet" in said or ".duckdb" in said:
        return said
    bodies = connection.execute(f"SELECT sql FROM duckdb_views() WHERE database_name = '{LANDED}'").fetchall()
    for path in dict.fromkeys(path for (body,) in bodies for path in re.findall(r"'([^']+\.parquet)'", body)):
        try:
            connection.execute(f"SELECT bit_xor(hash(one)) FROM read_parquet({text(path)}) AS one").fetchall()
        except duckdb.Error:
            return f"{path}: {said}"
    return said
