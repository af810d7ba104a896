"""What is left of samples whose time is over: rolled up, and the rows of past days that were made of them.

archive/CURRENT               which files count, and from when on samples are read from bronze; replaced at once
archive/<table>-<hex>.parquet

Bronze and the build follow from the pointer: a row of bronze before its table's horizon is not seen, whether or not
its file was written anew without it yet.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from gpulake.core.disk import make_folder, replace_text, sync
from gpulake.core.errors import LakeError
from gpulake.core.retention_settings import SAMPLE_TABLES
from gpulake.lake import delta
from gpulake.lake.engine import Connection, text

if TYPE_CHECKING:
    import numpy as np

FOLDER = "archive"
POINTER = "CURRENT"
# Days that end later than this after the horizon are made of samples that are all still there, with their neighbours.
MARGIN = timedelta(days=2)
# Local clocks are ahead of UTC by this much at most.
MOST_AHEAD = timedelta(hours=14)
OPTIONS = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880"
_TS = "ts_ms"


@dataclass(frozen=True)
class Part:
    """A file of the archive. Days and hours are those of its rows."""

    table: str
    file: str
    grain: str  # minute, hour: of samples; day: rows of days; all: every row there was
    until: str  # rows are before this day, or instant
    rows: int
    sha256: str


@dataclass(frozen=True)
class State:
    horizons: Mapping[str, str] = field(default_factory=dict)  # by table of samples: raw ones are kept from here on
    parts: Sequence[Part] = ()

    def horizon(self, table: str) -> datetime | None:
        """Of a table of samples."""
        found = self.horizons.get(table)
        return datetime.fromisoformat(found) if found else None

    @property
    def frozen_before(self) -> date | None:
        """Rows of earlier days, that were made of samples of GPUs, are those of the archive."""
        horizon = self.horizon("silver_gpu_samples")
        return (horizon + MARGIN).date() if horizon else None

    def files(self, table: str) -> list[str]:
        return [part.file for part in self.parts if part.table == table]


@dataclass(frozen=True)
class Archive:
    folder: Path

    def state(self) -> State:
        try:
            found: dict[str, Any] = json.loads((self.folder / POINTER).read_bytes())
            return State(found["horizons"], tuple(Part(**part) for part in found["parts"]))
        except FileNotFoundError:
            return State()
        except (ValueError, KeyError, TypeError) as error:
            raise LakeError(f"{self.folder / POINTER} cannot be read: {error}", "restore it from a backup") from error

    @property
    def fingerprint(self) -> str:
        """Empty: there is nothing."""
        path = self.folder / POINTER
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""

    def put(self, state: State) -> None:
        """From now on these files count. Others go: no reader opens them, only builds, which are not made meanwhile."""
        document = {"horizons": dict(state.horizons), "parts": [asdict(part) for part in state.parts]}
        replace_text(self.folder / POINTER, json.dumps(document, indent=1))
        self.remove_orphans()

    def drop(self, file: str) -> None:
        state = self.state()
        self.put(State(state.horizons, [part for part in state.parts if part.file != file]))

    def remove_orphans(self) -> None:
        if self.folder.is_dir():
            named = {part.file for part in self.state().parts}
            for path in self.folder.glob("*.parquet"):
                if path.name not in named:
                    path.unlink()

    def write(self, connection: Connection, table: str, grain: str, until: str, query: str) -> list[Part]:
        """A part with the rows of the query, on the disk; none where it has none."""
        make_folder(self.folder)
        path = self.folder / f"{table}-{uuid.uuid4().hex}.parquet"
        connection.execute(f"COPY ({query}) TO {text(str(path))} ({OPTIONS})")
        rows = pq.read_metadata(path).num_rows
        if not rows:
            path.unlink()
            return []
        sync(path)
        return [Part(table, path.name, grain, until, rows, delta.sha256(path))]

    def rows(self, files: Iterable[str]) -> str:
        """SQL of the rows of files."""
        listed = ", ".join(text(str(self.folder / file)) for file in files)
        return f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"


def seen_from(state: State) -> dict[str, str]:
    """By bronze table, the condition that a row is not before the horizon of every table that is made of it."""
    found = {}
    for bronze in sorted({table for tables in SAMPLE_TABLES.values() for table in tables}):
        horizons = [state.horizon(table) for table, tables in SAMPLE_TABLES.items() if bronze in tables]
        if all(horizons):
            found[bronze] = _condition(bronze, min(horizon for horizon in horizons if horizon))
    return found


def _condition(bronze: str, horizon: datetime) -> str:
    milliseconds = int(horizon.timestamp() * 1000)
    if bronze == "bronze_nvidia_smi":  # its times are local
        early = f"TIMESTAMP '{horizon - MOST_AHEAD:%Y-%m-%d %H:%M:%S}'"
        return f'coalesce("timestamp", CAST(file_at AS TIMESTAMP), {early}) >= {early}'
    if bronze == "bronze_rocm_smi":
        return f"coalesce(epoch_ms(file_at), {milliseconds}) >= {milliseconds}"
    own = f"coalesce({_TS}, epoch_ms(file_at))" if bronze == "bronze_prometheus_samples" else _TS
    return f"coalesce({own}, {milliseconds}) >= {milliseconds}"


def horizon_at(now: datetime, days: int) -> datetime:
    """The begin of a day, UTC: so many days before, whole."""
    return datetime.combine(now.astimezone(UTC).date() - timedelta(days=days), time(), UTC)


def rows_seen(connection: Connection, path: Path, condition: str) -> np.ndarray | None:
    """Which rows of a file the condition holds for; None: for all."""
    import numpy as np

    if not _may_be_before(path, condition):
        return None
    mask = np.zeros(pq.read_metadata(path).num_rows, dtype=bool)
    rows = f"read_parquet({text(str(path))}, file_row_number = true, hive_partitioning = false)"
    found = connection.execute(f"SELECT file_row_number AS row FROM {rows} WHERE {condition}").to_arrow_reader(
        1_000_000
    )
    for batch in found:
        mask[batch.column("row").to_numpy()] = True
    return None if mask.all() else mask


def _may_be_before(path: Path, condition: str) -> bool:
    """By the statistics of the file, without reading it."""
    horizon, metadata = int(condition.rpartition(">= ")[2]) if _TS in condition else None, pq.read_metadata(path)
    if horizon is None or _TS not in metadata.schema.names:
        return True
    place = metadata.schema.names.index(_TS)
    chunks = [metadata.row_group(number).column(place).statistics for number in range(metadata.num_row_groups)]
    # Rows without a time of their own have that of their file.
    return any(one is None or not one.has_min_max or one.null_count or one.min < horizon for one in chunks)
