"""What can be fetched: the data sets of catalogue.toml, or of a file like it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.errors import ConfigError, UsageError, choice_hint

PACKAGED = Path(__file__).with_name("catalogue.toml")


@dataclass(frozen=True)
class PublishedFile:
    """A file as its publisher made it: downloaded if it has a size, written if it has text, else only verified."""

    table: str
    name: str
    sha256: str
    size_bytes: int | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        # The name becomes a path and part of a URL: it must not lead out of the folder.
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", self.name):
            raise ConfigError(f"{self.name!r} is not a plain file name", "use letters, digits, '_', '-' and '.'")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ConfigError(f"{self.name} has the SHA-256 {self.sha256!r}", "give 64 lower-case hex digits")
        if self.text is not None and hashlib.sha256(self.text.encode()).hexdigest() != self.sha256:
            raise ConfigError(f"the text of {self.name} does not have its SHA-256", "correct the text or the sum")


@dataclass(frozen=True)
class DataSet:
    name: str
    title: str
    licence: str
    url: str
    source: str
    files: tuple[PublishedFile, ...]

    @property
    def tables(self) -> list[str]:
        return sorted({file.table for file in self.files})

    @property
    def download_bytes(self) -> int:
        return sum(file.size_bytes or 0 for file in self.files)

    def select(self, tables: Collection[str]) -> tuple[PublishedFile, ...]:
        """The files of these tables; of all where none is named."""
        for table in tables:
            if table not in self.tables:
                raise UsageError(f"{self.name} has no table named {table!r}", choice_hint(table, self.tables))
        return tuple(file for file in self.files if not tables or file.table in tables)


def load_catalogue(path: Path = PACKAGED) -> dict[str, DataSet]:
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"cannot read the catalogue {path}: {error}", "give a TOML file like the packaged one"
        ) from error
    return {name: _data_set(name, entry, path) for name, entry in entries.items()}


def find_data_set(catalogue: dict[str, DataSet], name: str) -> DataSet:
    if name not in catalogue:
        raise UsageError(f"no data set named {name!r}", choice_hint(name, catalogue))
    return catalogue[name]


def _data_set(name: str, entry: object, path: Path) -> DataSet:
    try:
        if not isinstance(entry, dict):
            raise TypeError("it is not a table")
        files = tuple(PublishedFile(**file) for file in entry["files"])
        return DataSet(name=name, **{**entry, "files": files})
    except (TypeError, KeyError) as error:
        raise ConfigError(
            f"{path} does not describe the data set {name!r}: {error}", "take [pai] of the packaged file as a model"
        ) from error
