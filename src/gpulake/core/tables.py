"""What the bronze tables are: the one place that names their columns and types."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

ColumnType = Literal["text", "number"]


@dataclass(frozen=True)
class Column:
    name: str
    type: ColumnType
    description: str


@dataclass(frozen=True)
class BronzeTable:
    name: str
    grain: str
    columns: tuple[Column, ...]
    required: tuple[str, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@cache
def bronze_tables() -> dict[str, BronzeTable]:
    text = files("gpulake.core").joinpath("bronze.toml").read_text(encoding="utf-8")
    return {
        name: BronzeTable(
            name=name,
            grain=entry["grain"],
            columns=tuple(Column(column, kind, words) for column, (kind, words) in entry["columns"].items()),
            required=tuple(entry["required"]),
        )
        for name, entry in tomllib.loads(text).items()
    }
