"""Import a workload of a simulator: its files land together, under one name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from gpulake.core.clock import Clock
from gpulake.core.errors import InputError, UsageError
from gpulake.core.progress import Report
from gpulake.core.types import Landing
from gpulake.lake import Lake, LakeReader
from gpulake.land.landing import failure, land
from gpulake.land.readers.opendc import TABLES, check_file

NAMES = {table: f"SELECT DISTINCT workload FROM {bronze}" for table, bronze in TABLES.items()}  # noqa: S608
ROWS = """
SELECT
    (SELECT count(*) FROM bronze_opendc_tasks WHERE workload = getvariable('workload')) AS tasks,
    (SELECT count(*) FROM bronze_opendc_fragments WHERE workload = getvariable('workload')) AS fragments
"""


def import_opendc(
    lake: Lake, folders: Sequence[Path], name: str | None, clock: Clock, report: Report
) -> Mapping[str, tuple[Landing, ...]]:
    """The landings of each workload, by its name: that of its folder, unless one is given."""
    if name is not None and len(folders) > 1:
        raise UsageError(f"one name was given for {len(folders)} folders", "import them one by one, or without --name")
    wanted = {name or folder.resolve().name: folder for folder in folders}
    if len(wanted) < len(folders):
        raise UsageError("two of the folders have the same name", "import them one by one, with --name")
    for workload, folder in wanted.items():
        _check(lake, workload, folder)
    landed = {}
    for workload, folder in wanted.items():
        paths = [folder / f"{table}.parquet" for table in TABLES]
        result = land(lake, paths, clock, report, {"workload": workload})
        if result.failed:
            raise failure(result.failed, len(paths))
        landed[workload] = result.landings
    with lake.reading() as reader:
        for workload, folder in wanted.items():
            _check_rows(reader, workload, folder)
    return landed


def _check(lake: Lake, workload: str, folder: Path) -> None:
    """Before anything lands: half a workload would keep the whole one out. Two of one name would be taken for one."""
    paths = {table: folder / f"{table}.parquet" for table in TABLES}
    for path in paths.values():
        if not path.is_file():
            raise InputError(
                f"no {path.name} in {folder}", "an OpenDC workload has tasks.parquet and fragments.parquet"
            )
        check_file(path)
    for table, path in paths.items():
        with lake.reading() as reader:
            is_named = workload in reader.query(NAMES[table])["workload"].to_pylist()
        live = {source: entry.held for source, entry in lake.live()[TABLES[table]].items() if entry.held}
        has_landed = _sha256(path) in {landing.sha256 for held in live.values() for landing in held}
        if has_landed and not is_named:
            _refuse(path)
        if table == "tasks" and is_named and not has_landed and str(path.absolute()) not in live:
            raise UsageError(f"another workload is named {workload!r}", "give this one a name of its own with --name")


def _check_rows(reader: LakeReader, workload: str, folder: Path) -> None:
    """Two folders of one import may have a file in common: it stays the first one's."""
    (row,) = reader.query(ROWS, workload=workload).to_pylist()
    for table, count in row.items():
        if not count:
            _refuse(folder / f"{table}.parquet")


def _refuse(path: Path) -> NoReturn:
    raise InputError(
        f"{path} had landed before, as a part of another workload",
        "a content lands once; import this workload into a lake of its own",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
