"""Delta tables on the local disk: atomic commits, one transaction id a landing, history kept for good."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)

from gpulake.core.disk import sync

METADATA_KEY = "gpulake"
HASHES_KEY = "gpulake.sha256"  # of the files that a commit adds, by their names
# The history of commits is the manifest, so it never expires.
CONFIGURATION = {"delta.logRetentionDuration": "interval 36500 days"}


@dataclass(frozen=True)
class DataFile:
    """A Parquet file that lies in a table's folder and waits for its commit."""

    name: str
    rows: int
    null_counts: Mapping[str, int]


def exists(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir() and DeltaTable.is_deltatable(str(folder))


def live_files(folder: Path) -> list[Path]:
    """The Parquet files of the newest version, sorted."""
    if not exists(folder):
        return []
    actions = DeltaTable(str(folder)).get_add_actions(flatten=True)
    return sorted(folder / str(path) for path in actions.column("path").to_pylist())


def history(folder: Path) -> list[dict[str, Any]]:
    """What each commit said of itself, oldest first."""
    if not exists(folder):
        return []
    commits = DeltaTable(str(folder)).history()
    return [json.loads(commit[METADATA_KEY]) for commit in reversed(commits) if METADATA_KEY in commit]


def is_committed(folder: Path, transaction: str) -> bool:
    return exists(folder) and DeltaTable(str(folder)).transaction_version(transaction) is not None


def replace(folder: Path, file: Path, metadata: Mapping[str, Any]) -> None:
    """Makes the table consist of this one file, whatever its columns were before; older versions stay readable."""
    parquet = pq.ParquetFile(file)
    create_table_with_add_actions(
        str(folder),
        Schema.from_arrow(parquet.schema_arrow),
        [_add(folder, DataFile(file.name, parquet.metadata.num_rows, {}))],
        mode="overwrite",
        configuration=CONFIGURATION,
        commit_properties=CommitProperties(custom_metadata=_said(folder, metadata, [file.name])),
    )
    sync(folder / "_delta_log")
    # Files that no version of the last week needs.
    DeltaTable(str(folder)).vacuum(dry_run=False)


def commit(
    folder: Path,
    schema: Schema,
    files: Sequence[DataFile],
    transaction: str,
    metadata: Mapping[str, Any],
    supersedes: Sequence[str] = (),
) -> None:
    """Adds the files, and takes away those that they supersede, in one atomic step."""
    adds = [_add(folder, file) for file in files]
    properties = CommitProperties(
        custom_metadata=_said(folder, metadata, [file.name for file in files]),
        app_transactions=[Transaction(transaction, 1)],
    )
    if exists(folder):
        removes = [RemoveAction(name, True, _now_ms()) for name in supersedes]
        DeltaTable(str(folder)).create_write_transaction(
            [*adds, *removes], "append", schema, commit_properties=properties
        )
    else:
        create_table_with_add_actions(
            str(folder), schema, adds, mode="append", configuration=CONFIGURATION, commit_properties=properties
        )
    sync(folder / "_delta_log")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _said(folder: Path, metadata: Mapping[str, Any], files: Sequence[str]) -> dict[str, str]:
    """What a commit says of itself, and of its files: by their hashes damage is told from what was written."""
    return {METADATA_KEY: json.dumps(metadata), HASHES_KEY: json.dumps({name: sha256(folder / name) for name in files})}


def _add(folder: Path, file: DataFile) -> AddAction:
    return AddAction(
        path=file.name,
        size=(folder / file.name).stat().st_size,
        partition_values={},
        modification_time=_now_ms(),
        data_change=True,
        stats=json.dumps({"numRecords": file.rows, "nullCount": dict(file.null_counts)}),
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
