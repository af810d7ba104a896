"""Delta tables on the local disk: atomic commits, one transaction id a landing, history kept for good.

A commit is acknowledged once it is on the disk: its data files, their names, the commit's file, its name. One that a
power cut left empty or cut short is the last one and was never acknowledged: readers pass over it, the next writer
sets it aside. Other damage is an error.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)

from gpulake.core.disk import make_folder, sync
from gpulake.lake.delta_log import (
    LOG,
    METADATA_KEY,
    TRANSACTIONS_KEY,
    actions,
    commits_of,
    is_cut,
    named_commits,
    sound_commits,
)

TURN = ".turn"  # the lock of a table's log
HISTORY = "history.sum"  # what the commits said of themselves, up to the one in its first line, beside its hash
_FIRST = f"{0:020}.json"
KEPT_SECONDS = 7 * 86_400  # files of replaced versions, as Delta keeps them
HASHES_KEY = "gpulake.sha256"  # of the files that a commit adds, by their names
# The history of commits is the manifest, so it never expires.
CONFIGURATION = {"delta.logRetentionDuration": "interval 36500 days"}


@dataclass(frozen=True)
class DataFile:
    """A Parquet file in a table's folder that is not committed yet."""

    name: str
    rows: int
    null_counts: Mapping[str, int]
    sha256: str = ""  # empty: not known yet
    days: tuple[date, date] | None = None  # the first and the last of its column dt
    size: int | None = None  # None: that of the file


class MovedOnError(Exception):
    """Somebody else has committed these positions of a stream, or later ones."""


@dataclass(frozen=True)
class Move:
    """How far a stream is in this table, before and after a commit: None, if nothing of it is there."""

    before: int | None
    after: int


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """One commit at a time: streams are landed beside the lake's one writer. It is short, so that one waits for it."""
    with (folder / LOG / TURN).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def positions(folder: Path, streams: Sequence[str]) -> dict[str, int | None]:
    """How far each stream is in this table."""
    table = _table(folder)
    return {stream: table.transaction_version(stream) if table else None for stream in streams}


def live_files(folder: Path) -> list[Path]:
    """The Parquet files of the newest version, sorted."""
    table = _table(folder)
    if table is None:
        return []
    return sorted(folder / str(path) for path in table.get_add_actions(flatten=True).column("path").to_pylist())


def live_sizes(folder: Path) -> dict[str, tuple[int, int]]:
    """The bytes and the rows of each file of the newest version."""
    table = _table(folder)
    found = table.get_add_actions(flatten=True) if table else None
    columns = (found.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")) if found else ()
    return {str(path): (size, rows) for path, size, rows in zip(*columns, strict=True)}


def history(folder: Path) -> list[dict[str, Any]]:
    """What the commits say of themselves, in their order, whatever their times are."""
    names = sound_commits(folder)
    until, found = "", list[dict[str, Any]]()
    with suppress(OSError, ValueError):
        head, rest = (folder / LOG / HISTORY).read_bytes().split(b"\n", 1)
        if (last := head[: len(_FIRST)].decode()) in names and head == _sum_of(folder, last, rest):
            until, found = last, json.loads(rest)
    later = [folder / LOG / name for name in names if name > until]
    infos = (action["commitInfo"] for action in actions(later) if "commitInfo" in action)
    return found + [json.loads(info[METADATA_KEY]) for info in infos if METADATA_KEY in info]


def sum_up(folder: Path) -> None:
    """The history in one file, so that a landing need not read the commits of all that went before."""
    with turn(folder):
        names = sound_commits(folder)
        rest = json.dumps(history(folder)).encode()
        fresh = folder / LOG / f"{HISTORY}.tmp"
        fresh.write_bytes(_sum_of(folder, names[-1], rest) + b"\n" + rest)
        fresh.replace(folder / LOG / HISTORY)


def commits_since_sum(folder: Path) -> int:
    """All, where there is none."""
    until = ""
    with suppress(OSError), (folder / LOG / HISTORY).open("rb") as file:
        until = file.read(len(_FIRST)).decode("ascii", "replace")
    return sum(name > until for name in named_commits(folder))


def _sum_of(folder: Path, last: str, rest: bytes) -> bytes:
    """It fits no other commit of that name, should the log have been cut back."""
    return f"{last} {hashlib.sha256((folder / LOG / last).read_bytes() + rest).hexdigest()}".encode()


def created_with(folder: Path) -> set[str]:
    """The columns that the table had at first; its older files have no others. None where it has no log."""
    with suppress(OSError, DeltaError):
        for action in actions([folder / LOG / _FIRST]):
            if "metaData" in action:
                return {field["name"] for field in json.loads(action["metaData"]["schemaString"])["fields"]}
    return set()


def is_committed(folder: Path, transaction: str) -> bool:
    table = _table(folder)
    return table is not None and table.transaction_version(transaction) is not None


def files_by_day(folder: Path) -> list[DataFile]:
    """The files of the newest version, in the order of their days; none where one of them does not say its days."""
    table = _table(folder)
    found = table.get_add_actions(flatten=True) if table else None
    if found is None or not {"min.dt", "max.dt"} <= set(found.schema.names):
        return []
    columns = (found.column(name).to_pylist() for name in ("path", "num_records", "min.dt", "max.dt"))
    files = [DataFile(path, rows, {}, days=(first, last)) for path, rows, first, last in zip(*columns, strict=True)]
    if not all(file.days and all(file.days) for file in files):
        return []
    return sorted(files, key=lambda file: file.days or ())


def replace(folder: Path, files: Sequence[DataFile], metadata: Mapping[str, Any]) -> None:
    """Makes the table consist of these files, whatever its columns were before; older versions stay readable."""
    _prepare(folder)
    create_table_with_add_actions(
        str(folder),
        Schema.from_arrow(pq.read_schema(folder / files[0].name)),
        [_add(folder, file) for file in files],
        mode="overwrite",
        configuration=CONFIGURATION,
        commit_properties=CommitProperties(custom_metadata=_said(folder, metadata, files)),
    )
    _sync_commit(folder)
    vacuum(folder)


def vacuum(folder: Path) -> None:
    """Removes files that no version of the last week needs."""
    if any(path.stat().st_mtime < time.time() - KEPT_SECONDS for path in folder.glob("*.parquet")):
        DeltaTable(str(folder)).vacuum(dry_run=False)


def commit(
    folder: Path,
    schema: Schema,
    files: Sequence[DataFile],
    transaction: str,
    metadata: Mapping[str, Any],
    supersedes: Sequence[str] = (),
    is_data_change: bool = True,
    moves: Mapping[str, Move] | None = None,
    moved_from: Path | None = None,
    said: Mapping[str, str] | None = None,
) -> None:
    """Adds the files, and takes away those that they supersede, in one atomic step. It is on the disk afterwards.

    `moves` are of streams whose rows these are: in the same step, and an error if another commit was faster. Files are
    in the table's folder, or come there from the folder `moved_from`. What else is `said` is read with `said_last`.
    """
    make_folder(folder / LOG)  # syncs all names in the folder, with that of the log
    with turn(folder):
        table = _table(folder)
        for stream, move in (moves or {}).items():
            is_there = (table.transaction_version(stream) if table else None) == move.before
            if not is_there or move.after <= (-1 if move.before is None else move.before):
                raise MovedOnError(stream)
        for file in files if moved_from else ():
            (moved_from / file.name).replace(folder / file.name)  # type: ignore[operator]
        transactions = {transaction: 1} | {stream: move.after for stream, move in (moves or {}).items()}
        properties = CommitProperties(
            custom_metadata={
                **_said(folder, metadata, files),
                TRANSACTIONS_KEY: str(len(transactions)),
                **(said or {}),
            },
            app_transactions=[Transaction(*entry) for entry in transactions.items()],
        )
        adds = [_add(folder, file, is_data_change) for file in files]
        _prepare(folder)
        if table is not None:
            removes = [RemoveAction(name, is_data_change, _now_ms()) for name in supersedes]
            table.create_write_transaction([*adds, *removes], "append", schema, commit_properties=properties)
        else:
            create_table_with_add_actions(
                str(folder), schema, adds, mode="append", configuration=CONFIGURATION, commit_properties=properties
            )
        _sync_commit(folder)


def said_last(folder: Path, key: str, most: int) -> list[str]:
    """What the last commits say under a key, oldest first."""
    infos = (action.get("commitInfo", {}) for action in actions(commits_of(folder)[-most:]))
    return [info[key] for info in infos if key in info]


def cut_commits(folder: Path) -> list[Path]:
    """A last commit that a power cut left empty or cut short; the next one takes its place."""
    last = [folder / LOG / name for name in named_commits(folder)[-1:]]
    return [path for path in last if is_cut(path.read_bytes())]


def commits_and_files(folder: Path) -> list[Path]:
    """Every commit of this moment, and the data files that they name, as far as they are still there."""
    commits = commits_of(folder)
    named = {action["add"]["path"] for action in actions(commits) if "add" in action}
    missing = {path.name for path in live_files(folder) if not path.exists()}
    if missing:
        raise DeltaError(f"{folder} lacks {', '.join(sorted(missing))}")
    return [*commits, *(path for path in (folder / str(name) for name in sorted(named)) if path.exists())]


def remove_orphans(folder: Path) -> list[Path]:
    """Removes data files that no commit names: a writer died, or failed, before its commit."""
    if not (folder / LOG).is_dir():
        return _removed(folder.glob("*.parquet"))
    with turn(folder):
        named = {action["add"]["path"] for action in actions(commits_of(folder)) if "add" in action}
        orphans = [path for path in folder.glob("*.parquet") if path.name not in named]
        orphans += [path for path in (folder / LOG).glob("*") if path.suffix == ".tmp" or "#" in path.name]
        return _removed(orphans)


def _removed(paths: Iterable[Path]) -> list[Path]:
    found = list(paths)
    for path in found:
        path.unlink()
    return found


def _table(folder: Path) -> DeltaTable | None:
    commits = sound_commits(folder)
    if not commits:
        return None
    version = int(Path(commits[-1]).stem)
    try:
        return DeltaTable(str(folder), version=version)
    except DeltaError:
        if not _remove_broken_checkpoints(folder):
            raise
        return DeltaTable(str(folder), version=version)


def _prepare(folder: Path) -> None:
    """The names of the data files are on the disk before the commit that names them."""
    if (folder / LOG).exists():
        sync(folder)
    else:
        make_folder(folder / LOG)  # syncs all names in the folder, with that of the log
    for path in cut_commits(folder):
        path.replace(path.with_suffix(".cut"))


def _sync_commit(folder: Path) -> None:
    """A commit that cannot be synced is removed, so that a retry commits again."""
    log = folder / LOG
    newest = log / sound_commits(folder)[-1]
    try:
        for path in log.glob(f"{newest.stem}.*"):  # every hundredth has a checkpoint beside it
            sync(path)
        sync(log)
    except OSError:
        newest.unlink()
        raise


def _remove_broken_checkpoints(folder: Path) -> bool:
    """A power cut may leave a checkpoint cut short. The commits that it sums up are all there."""
    is_removed = False
    for path in (folder / LOG).glob("*.checkpoint*.parquet"):
        try:
            pq.read_metadata(path)
        except (pa.ArrowException, OSError):
            path.unlink()
            is_removed = True
    if is_removed:
        (folder / LOG / "_last_checkpoint").unlink(missing_ok=True)
    return is_removed


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _said(folder: Path, metadata: Mapping[str, Any], files: Sequence[DataFile]) -> dict[str, str]:
    """The metadata of a commit, with the hashes of its files, by which damage is detected."""
    hashes = {file.name: file.sha256 or sha256(folder / file.name) for file in files}
    return {METADATA_KEY: json.dumps(metadata), HASHES_KEY: json.dumps(hashes)}


def _add(folder: Path, file: DataFile, is_data_change: bool = True) -> AddAction:
    return AddAction(
        path=file.name,
        size=(folder / file.name).stat().st_size if file.size is None else file.size,
        partition_values={},
        modification_time=_now_ms(),
        data_change=is_data_change,
        stats=json.dumps({"numRecords": file.rows, "nullCount": dict(file.null_counts), **_range(file)}),
    )


def _range(file: DataFile) -> dict[str, dict[str, str]]:
    return {f"{end}Values": {"dt": day.isoformat()} for end, day in zip(("min", "max"), file.days or (), strict=False)}


def _now_ms() -> int:
    return int(time.time() * 1000)
