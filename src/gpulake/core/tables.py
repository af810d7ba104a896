"""Tables that no model defines: the one place that names their columns and types."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from gpulake.core.packaged import packaged_toml


@dataclass(frozen=True)
class Column:
    name: str
    # text, number, integer, real (a number of any size, NaN too), flag, date, time (an instant), local_time (of an
    # unknown zone) or json
    type: str
    description: str


@dataclass(frozen=True)
class Latest:
    of: str
    key: str
    order: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    name: str
    grain: str
    columns: tuple[Column, ...]
    required: tuple[str, ...] = ()
    # By column, the least and the most that can be; a row with another value is quarantined.
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)
    file: str = ""  # of a collected run: its name there
    latest: Latest | None = None  # the table is the last row of each key of another
    # A file lists all there is: one of the same name takes its place, while rows of other tables are added.
    is_replaced: bool = False
    writer: str = ""  # of a table that no model makes and nothing lands in: the rooms that write it

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def column_types(self) -> dict[str, str]:
        return {column.name: column.type for column in self.columns}


@cache
def bronze_tables() -> dict[str, Table]:
    """Bronze tables, in the names of their source: of landed files, and of collected runs."""
    declared = {name: table for entries in reader_declarations().values() for name, table in _tables(entries).items()}
    return declared | {f"bronze_{name}": _landed(table) for name, table in cctf_tables().items()}


@cache
def reader_declarations() -> dict[str, dict[str, Any]]:
    """By reader, what the TOML file beside it declares: tables, examples of their files, and how jobs become runs."""
    folder = files("gpulake.land").joinpath("readers")
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8")) for file in found}


@cache
def cctf_tables() -> dict[str, Table]:
    """The files of a collected run, by their name without its ending."""
    return _tables(packaged_toml("gpulake.core", "cctf.toml"))


@cache
def written_tables() -> dict[str, Table]:
    """What rooms write beside the models."""
    return _tables(packaged_toml("gpulake.core", "written.toml"))


def _landed(table: Table) -> Table:
    """A file of a run as it lands: JSON within a row stays text."""
    columns = tuple(replace(column, type="text") if column.type == "json" else column for column in table.columns)
    return replace(table, name=f"bronze_{table.name}", columns=columns)


def _tables(entries: dict[str, Any]) -> dict[str, Table]:
    def columns(entry: dict[str, Any]) -> tuple[Column, ...]:
        listed = entry["columns"] if "columns" in entry else entries[entry["of"]]["columns"]
        return tuple(Column(column, kind, words) for column, (kind, words) in listed.items())

    return {
        name: Table(
            name=name,
            grain=entry["grain"],
            columns=columns(entry),
            required=tuple(entry.get("required", ())),
            ranges={column: (least, most) for column, (least, most) in entry.get("ranges", {}).items()},
            file=entry.get("file", ""),
            is_replaced=entry.get("is_replaced", False),
            writer=entry.get("writer", ""),
            latest=Latest(entry["of"], entry["key"], tuple(entry["order"].split())) if "of" in entry else None,
        )
        for name, entry in entries.items()
        if "grain" in entry
    }
