"""Checks of the installation and the lake. Each says what it saw and, if something is wrong, what to do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from gpulake.core.config import Config
from gpulake.core.confinement import available
from gpulake.core.errors import GpulakeError, LakeError
from gpulake.core.tables import bronze_tables
from gpulake.lake import Lake, lake_errors
from gpulake.lake.access import too_open
from gpulake.lake.deep import inspect

NEEDED = ("duckdb", "deltalake", "pyarrow", "numpy", "click", "rich", "jinja2")
OPTIONAL = ("dbt-core", "dbt-duckdb", "prefect")
LEAST_FREE_BYTES = 1 << 30


@dataclass(frozen=True)
class Check:
    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    hint: str = ""


def check_all(config: Config, is_deep: bool = False) -> list[Check]:
    """A deep look reads everything: it takes as long as reading the lake does."""
    return [*_installation(), *_lake(config), *(_damage(config) if is_deep else ())]


def _installation() -> Iterator[Check]:
    running = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("python", "ok" if sys.version_info >= (3, 11) else "fail", running, "gpulake needs 3.11 or newer")
    for package in NEEDED:
        installed = _version(package)
        yield Check(package, "ok" if installed else "fail", installed or "missing", f"pip install {package}")
    for package in OPTIONAL:
        yield Check(package, "ok", _version(package) or "not installed (optional)")
    yield _confinement()


def _confinement() -> Check:
    """Of SQL queries that viewers send to the dashboard."""
    means = available()
    missing = [name for name, is_there in means.items() if not is_there]
    if not missing:
        return Check("sql queries", "ok", f"confined by limits, {', '.join(means)}")
    hint = "install libseccomp 2, and use Linux 5.13 or newer with Landlock, before you set sql = true in [serve]"
    return Check("sql queries", "warn", f"confined by limits, without {', '.join(missing)}", hint)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _lake(config: Config) -> Iterator[Check]:
    lake = Lake(config)
    try:
        lake.open()
    except LakeError as error:
        is_there = lake.root.exists()
        yield Check("lake", "fail" if is_there else "warn", error.message, error.hint)
        return
    yield Check("lake", "ok", str(lake.root))
    yield _access(lake)
    yield _free_space(lake.root)
    for name, look in (("bronze", _bronze), ("build", _build), ("tests", _tests), ("runs", _runs)):
        yield _guarded(name, lambda look=look: look(lake))  # type: ignore[misc]


def _damage(config: Config) -> Iterator[Check]:
    """What is not as it was written, each by its file."""
    lake = Lake(config)
    if not lake.exists:
        return
    with lake_errors("looking at the whole lake"):
        damages = inspect(lake)
    for one in damages:
        about = f"{one.table}: {one.path}: " if one.table else f"{one.path}: "
        # Left by a crash, most of the time: no row is lost by it.
        status: Literal["warn", "fail"] = "warn" if one.kind == "orphan" else "fail"
        yield Check(one.layer, status, about + one.detail, "see what can be done with: gpulake repair --dry-run")
    if not damages:
        yield Check("deep", "ok", "every file and every row that was written can be read")


def _guarded(name: str, look: Callable[[], Check]) -> Check:
    try:
        with lake_errors(f"checking {name}"):
            return look()
    except GpulakeError as error:
        return Check(name, "fail", error.message, error.hint)


def _access(lake: Lake) -> Check:
    access = lake.config.lake_access
    if not (beyond := too_open(lake.root, access)):
        return Check("access", "ok", access)
    whose = {"owner": "its owner", "group": "its group"}[access]
    shut = "go=" if beyond & 0o070 else "o="
    hint = f"chmod -R {shut} {lake.root}; or set lake_access"
    return Check(
        "access", "warn", f"{lake.root} is open to more than {whose}: 0{lake.root.stat().st_mode & 0o777:o}", hint
    )


def _free_space(root: Path) -> Check:
    free = shutil.disk_usage(root).free
    status: Literal["ok", "warn"] = "ok" if free >= LEAST_FREE_BYTES else "warn"
    return Check("disk", status, f"{free / (1 << 30):,.1f} GiB free", "free some space before the next build")


def _bronze(lake: Lake) -> Check:
    with lake_errors("reading bronze"):
        files = [file for table in bronze_tables() for file in lake.bronze.files(table)]
        cut = lake.bronze.cut_commits()
    missing = [file for file in files if not file.is_file()]
    if missing:
        detail = f"{len(missing)} data files are missing, such as {missing[0]}"
        return Check("bronze", "fail", detail, "see what can be done with: gpulake repair --dry-run")
    quarantined = sum(landing.rows_quarantined for landing in lake.live_landings())
    if not files:
        return Check("bronze", "warn", "nothing has landed", "land something: gpulake land PATH...")
    if cut:
        hint = "land again what was being landed: the next commit takes its place"
        return Check("bronze", "warn", f"a power cut left a commit cut short, never acknowledged: {cut[0]}", hint)
    return Check("bronze", "ok", f"{len(files)} files; {quarantined:,} rows quarantined")


def _build(lake: Lake) -> Check:
    if lake.builds.current() is None:
        return Check("build", "warn", "no build yet", "start one: gpulake build")
    with lake.reading() as reader:
        info = reader.rows("SELECT * FROM build_info")[0]
        exported = sorted(table for table in reader.tables() if table.startswith("gold_"))
    exports = lake.exports
    broken = [table for table in exported if not exports.is_readable(table)]
    stale = [table for table in exported if table not in broken and exports.build(table) != info["build_id"]]
    for tables, what in ((broken, "that cannot be read"), (stale, "of another build")):
        if tables:
            detail = f"{info['build_id']}; Delta tables {what}: {', '.join(tables)}"
            return Check("build", "warn", detail, "export them again: gpulake build")
    if left_out := info.get("left_out"):
        hint = "mend or take back what it was left out for, then: gpulake build"
        return Check("build", "warn", f"{info['build_id']} was made without {left_out}", hint)
    return Check("build", "ok", f"{info['build_id']} of {info['built_at']:%Y-%m-%d %H:%M} UTC")


def _tests(lake: Lake) -> Check:
    with lake.reading() as reader:
        query = "SELECT count(*) AS tests, count(*) FILTER (WHERE status = 'fail') AS failed FROM test_results"
        counts = reader.rows(query)[0]
    status: Literal["ok", "fail"] = "fail" if counts["failed"] else "ok"
    return Check("tests", status, f"{counts['tests']} data tests, {counts['failed']} failed", "see: gpulake tests")


def _runs(lake: Lake) -> Check:
    with lake.reading() as reader:
        last = reader.rows("SELECT * FROM runs ORDER BY started_at DESC LIMIT 1")
    if not last:
        return Check("runs", "ok", "no step has run")
    status: Literal["ok", "warn"] = "warn" if last[0]["status"] == "failed" else "ok"
    detail = f"last step {last[0]['step']} {last[0]['status']}"
    return Check("runs", status, detail, "see: gpulake sql 'from runs order by started_at desc'")
