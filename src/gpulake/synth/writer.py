"""Writer: files under temporary names, renamed when all are complete."""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv

GZIP_LEVEL = 1  # ids are random: a higher level costs minutes and saves little


class Folder:
    """A folder being filled. Files appear under their names only when the whole block has succeeded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: list[str] = []

    def __enter__(self) -> Folder:
        self._path.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in self._names:
            if kind is None:
                self._draft(name).replace(self._path / name)
            else:
                self._draft(name).unlink(missing_ok=True)

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self._path / name for name in sorted(self._names))

    def write(self, name: str, content: bytes, modified_at: int | None = None) -> None:
        """Modified at this second of the epoch, for files whose time says when they were taken."""
        path = self._claim(name)
        path.write_bytes(content)
        if modified_at is not None:
            os.utime(path, (modified_at, modified_at))

    def open(self, name: str) -> BinaryIO:
        return self._claim(name).open("wb")

    def write_table(self, table: str, batches: Iterable[pa.RecordBatch], *, is_tar: bool) -> int:
        """One table as <table>.csv without a header row, or inside <table>.tar.gz. Returns its rows."""
        if not is_tar:
            return _write_csv(self._claim(f"{table}.csv"), batches)
        archive = self._claim(f"{table}.tar.gz")
        plain = self._draft(f"{table}.csv")
        try:
            rows = _write_csv(plain, batches)
            _pack(plain, f"{table}.csv", archive)
        finally:
            plain.unlink(missing_ok=True)
        return rows

    def _claim(self, name: str) -> Path:
        self._names.append(name)
        return self._draft(name)

    def _draft(self, name: str) -> Path:
        return self._path / f".{name}.part"


def _write_csv(path: Path, batches: Iterable[pa.RecordBatch]) -> int:
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    rows = 0
    writer: pyarrow.csv.CSVWriter | None = None
    for batch in batches:
        writer = writer or pyarrow.csv.CSVWriter(str(path), batch.schema, write_options=options)
        writer.write_batch(batch)
        rows += batch.num_rows
    if writer is None:
        path.touch()
    else:
        writer.close()
    return rows


def _pack(plain: Path, member: str, archive: Path) -> None:
    """A tar.gz of one file whose bytes depend on nothing but the file's."""
    info = tarfile.TarInfo(member)
    info.size = plain.stat().st_size
    info.mode = 0o644
    with (
        archive.open("wb") as raw,
        plain.open("rb") as content,
        gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        tar.addfile(info, content)
