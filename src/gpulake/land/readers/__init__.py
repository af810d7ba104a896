"""One file a format: `<name>.toml` declares its tables, and `<name>.py` reads what is neither CSV nor JSON lines."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from gpulake.core.registry import Registry
from gpulake.core.tables import bronze_tables
from gpulake.core.types import CsvLayout

EPOCH = datetime.fromtimestamp(0, UTC)
FROM_FILE = ("file", "folder", "file_at")  # what `Sample.file_constants` returns


@dataclass(frozen=True)
class Sample:
    """The beginning of a file: enough to recognise it."""

    name: str  # without folders and without the suffix of a compression
    lines: tuple[str, ...]
    folder: str = ""  # the name of the one it lies in, on the disk or in its archive
    above: str = ""  # the name of the folder above that
    higher: tuple[str, ...] = ()  # and of those above it, the nearest first
    beside: Path | None = None  # the folder itself, where it is one of the disk: its other files may tell of this one
    modified_at: datetime = EPOCH
    later: tuple[str, ...] = ()  # what follows the lines, as far as it was read

    @property
    def header(self) -> tuple[str, ...]:
        """The fields of the first line, if it is a line of CSV."""
        try:
            return tuple(field.strip() for field in next(csv.reader(self.lines[:1]), []))
        except csv.Error:
            return ()

    def file_constants(self) -> tuple[tuple[str, str], ...]:
        """What a snapshot does not say itself: its file, and when that was written."""
        at = self.modified_at.isoformat(sep=" ", timespec="milliseconds")
        return tuple(zip(FROM_FILE, (self.name, self.folder, at), strict=True))


class Reader(Protocol):
    def recognise(self, sample: Sample) -> CsvLayout | None: ...


READERS: Registry[Callable[[], Reader]] = Registry("reader", "gpulake.land.readers")


def content_columns(table_name: str) -> tuple[str, ...]:
    """The columns that the content of a file fills: all but those that come from its name and time."""
    return tuple(name for name in bronze_tables()[table_name].column_names if name not in FROM_FILE)


def header_layout(
    sample: Sample, table_name: str, quote: str = "", delimiter: str = ",", **constants: str
) -> CsvLayout | None:
    """For CSV with a header row that names the table's columns, all but the constants, in any order."""
    table = bronze_tables()[table_name]
    header = sample.header if delimiter == "," else tuple(sample.lines[0].split(delimiter))
    if sorted(header) != sorted(set(table.column_names).difference(constants)):
        return None
    return CsvLayout(table, header, True, quote=quote, delimiter=delimiter, constants=tuple(constants.items()))
