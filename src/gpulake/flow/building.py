"""Building: in full or by extending the last build, then tested, scored and published at once."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulake import __version__
from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, LakeError, UsageError
from gpulake.core.progress import Report
from gpulake.core.tables import bronze_tables
from gpulake.core.types import Finding, Landing, TestResult
from gpulake.lake import Lake, Staging
from gpulake.lake.undo import files_without

if TYPE_CHECKING:
    from gpulake.model.build import Engine
    from gpulake.model.increment import Touched
    from gpulake.model.plan import Plan

SCORED = "gold_cluster_util_daily_scored"
FINDINGS = "findings"
LAST_FINDINGS = "SELECT * EXCLUDE (rank) FROM findings ORDER BY rank"
# Tables that rooms write in addition to the models, and the models that they read.
WRITTEN = {
    SCORED: ("gold_cluster_util_daily_reference", "gold_cluster_coverage_daily", "gold_cluster_util_daily"),
    FINDINGS: (
        "gold_cluster_util_daily_reference",
        "gold_cluster_util_daily",
        "gold_ledger_daily",
        "gold_ledger_buckets",
    ),
}


@dataclass(frozen=True)
class BuildOrder:
    plan: Plan
    written: tuple[str, ...]
    is_partial: bool
    is_dbt: bool
    is_forced: bool
    model: Path | None
    left_out: tuple[Landing, ...] = ()
    spark_master: str = ""  # empty: DuckDB works out the models

    @property
    def sources_left_out(self) -> tuple[str, ...]:
        return tuple(sorted(landing.source for landing in self.left_out))


@dataclass(frozen=True)
class BuildResult:
    build_id: str
    is_new: bool
    tests: tuple[TestResult, ...] = ()
    findings: tuple[Finding, ...] | None = None  # None: not computed
    flagged_days: int = 0
    touched: Touched | None = None  # None: built in full
    left_out: tuple[str, ...] = ()  # sources


@dataclass(frozen=True)
class Extension:
    base: Path
    new_files: dict[str, list[Path]]  # by table


def build_order(
    lake: Lake,
    select: Sequence[str],
    is_forced: bool,
    is_dbt: bool,
    model: Path | None,
    left_out: Sequence[Landing] = (),
    spark_master: str = "",
) -> BuildOrder:
    """What to build: the selected tables and what they need of what landed, or everything."""
    from gpulake.model.plan import shipped_plan

    if is_dbt and lake.archive.fingerprint:
        raise UsageError("dbt cannot build a lake with rolled-up samples", "build it without --dbt")
    if select and is_dbt:
        raise UsageError("--select and --dbt were both given", "dbt builds the whole project; leave one of them out")
    # Findings refer to the scores, so selecting findings selects both.
    if spark_master:
        _refuse_spark(lake, is_dbt)
    written = tuple(name for name in WRITTEN if not select or name in select or FINDINGS in select)
    plan = shipped_plan()
    if select:
        needed = [table for name in written for table in WRITTEN[name]]
        watched = _watched_tables() if FINDINGS in written else set()
        needed.extend(model.name for model in plan.models if model.name in watched)
        empty = bronze_tables().keys() - {landing.table for landing in lake.live_landings()}
        plan = plan.select([*(name for name in select if name not in WRITTEN), *needed], empty)
    return BuildOrder(plan, written, bool(select), is_dbt, is_forced, model, tuple(left_out), spark_master)


def spark_parts() -> list[tuple[str, str, str]]:
    """What a build with Spark needs of this machine: name, what was found, and what to do where that is not enough."""
    from gpulake.model import spark_check

    return list(spark_check.spark_parts())


def _refuse_spark(lake: Lake, is_dbt: bool) -> None:
    """Before anything is done: what Spark cannot build, and a machine without it."""
    from gpulake.model.spark_check import need_spark

    if is_dbt:
        raise UsageError("--dbt and --engine spark were both given", "dbt builds with DuckDB; leave one of them out")
    if lake.archive.fingerprint:
        raise UsageError("Spark cannot build a lake with rolled-up samples", "build it without --engine spark")
    need_spark()


def _watched_tables() -> set[str]:
    from gpulake.detect.watches import WATCHES

    return {table for name in WATCHES for table in WATCHES.get(name)().tables}


@dataclass(frozen=True)
class Building:
    lake: Lake
    config: Config
    clock: Clock
    report: Report
    step: Callable[[str], AbstractContextManager[dict[str, object]]]

    @cached_property
    def _landings(self) -> list[Landing]:
        """What is built. Streams land meanwhile: their rows are for the next build."""
        return self.lake.live_landings()

    def build(self, order: BuildOrder) -> BuildResult:
        """A build that is up to date is skipped."""
        fingerprint = self._fingerprint(order)
        current = None if order.is_forced or order.is_dbt else self._current(fingerprint)
        if current is None:
            return self._build(order, fingerprint)
        with self.step("build") as detail:
            detail["skipped"] = "the current build was made from the same rows, models and settings"
        return current

    def _build(self, order: BuildOrder, fingerprint: str) -> BuildResult:
        """Extends the current build where that is possible and cheaper than a full build."""
        extension = self._extension(order)
        extended = None
        if extension:
            # A build that cannot be read is replaced, not extended.
            with suppress(LakeError):
                extended = self._make(order, fingerprint, extension)
        return extended or self._make(order, fingerprint, None)  # type: ignore[return-value]

    def _make(self, order: BuildOrder, fingerprint: str, extension: Extension | None) -> BuildResult | None:
        """None where the new files touch too much of the build to extend."""
        from gpulake.model import build as room

        at = self.clock.now()
        build_id = f"{at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        without = files_without(self.lake, order.left_out)
        self.lake.bronze.split(without, self.clock)
        only = self._data_files(order)
        if order.is_dbt:
            self._build_with_dbt(build_id, without, only)
        with self.lake.stage(build_id, extension.base if extension else None, without, only) as staging:
            increment = room.Increment(staging, order.plan, extension.base, extension.new_files) if extension else None
            touched = None
            with self.step("build") as detail:
                room.write_settings(staging.connection, self.config)
                room.bound_by_landing(staging.connection)
                if increment:
                    try:
                        touched = increment.build()
                        detail.update(asdict(touched))
                    except room.TouchesTooMuchError as error:
                        detail["skipped"] = f"built at once instead: {error}"
                elif not order.is_dbt:
                    detail["models"] = len(order.plan.models)
                    detail["engine"] = "spark" if order.spark_master else "duckdb"
                    with _engine(staging, order) as engine:
                        room.build(staging, order.plan, self.report, engine)
            if increment and not touched:
                staging.path.unlink()
                return None
            with self.step("test") as detail:
                tests = room.test(staging, order.plan, self.report, increment)
                detail["tests"] = len(tests)
                self.lake.record_tests(build_id, tests)
                room.refuse_failures(staging, order.plan, tests, increment)
            flagged, findings = self._score(staging, order)
            with self.step("publish"):
                staging.record_tables(at)
                if order.is_partial:
                    staging.carry_over()
                self._write_info(staging, order, touched, fingerprint, at)
                staging.publish(increment.changes() if increment else None)
        return BuildResult(build_id, True, tuple(tests), findings, flagged, touched, order.sources_left_out)

    def renew(self, order: BuildOrder, change: Callable[[Staging], None]) -> str:
        """Publishes the current build again, with the tables that `change` makes in the place of its own. The id."""
        at = self.clock.now()
        build_id = f"{at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        with self.lake.stage(build_id) as staging, self.step("publish"):
            change(staging)
            staging.record_tables(at)
            self._write_info(staging, order, None, self._fingerprint(order), at)
            staging.carry_over()
            staging.publish()
        return build_id

    def _write_info(
        self, staging: Staging, order: BuildOrder, touched: Touched | None, fingerprint: str, at: datetime
    ) -> None:
        info = self._info(order, fingerprint, touched)
        staging.write("build_info", [{"build_id": staging.build_id, "built_at": at, **info}])
        inputs = self._inputs(order).items()
        staging.write("build_inputs", [{"table": one, "file": file, "rows": rows} for (one, file), rows in inputs])

    def _score(self, staging: Staging, order: BuildOrder) -> tuple[int, tuple[Finding, ...] | None]:
        """The number of flagged days, and the findings; None where they are not part of the order."""
        from gpulake.detect.days import score_days
        from gpulake.detect.findings import find
        from gpulake.detect.watchlist import run_watches

        with self.step("score"):
            # Watches read far more than the forest does: a build without findings does without their verdict.
            watched = run_watches(staging.read) if FINDINGS in order.written else None
            flagged = score_days(staging, watched, order.model) if SCORED in order.written else 0
            found = None if watched is None else tuple(find(staging, watched, self._shrunken(order)))
        return flagged, found

    def _shrunken(self, order: BuildOrder) -> dict[str, tuple[int, int]]:
        """Bronze tables of which the current build has more rows than this one: both counts, by table."""
        try:
            if self.lake.builds.current() is None:
                return {}
            with self.lake.reading() as reader:
                known = reader.query("FROM build_inputs").to_pylist()
        except GpulakeError:
            # The current build cannot be read, so there is nothing to compare with.
            return {}
        before, now = Counter[str](), Counter[str]()
        for row in known:
            before[row["table"]] += row.get("rows") or 0
        for (table, _), rows in self._inputs(order).items():
            now[table] += rows
        return {table: (before[table], now[table]) for table in before if now[table] < before[table]}

    def _info(self, order: BuildOrder, fingerprint: str, touched: Touched | None) -> dict[str, object]:
        return {
            "fingerprint": fingerprint,
            "recipe": None if order.is_partial else self._recipe(order),
            "gpulake_version": __version__,
            "left_out": ", ".join(sorted({Path(source).name for source in order.sources_left_out})) or None,
            "is_increment": touched is not None,
            **(asdict(touched) if touched else {}),
        }

    def _extension(self, order: BuildOrder) -> Extension | None:
        """The current build and its new files, if the recipe is the same and no file of the build was replaced."""
        if order.is_partial or order.is_dbt or order.is_forced or order.spark_master:
            return None
        try:
            current = self.lake.builds.current()
            if current is None:
                return None
            with self.lake.reading() as reader:
                (info,) = reader.query("SELECT recipe FROM build_info").to_pylist()
                known = {(row["table"], row["file"]) for row in reader.query("FROM build_inputs").to_pylist()}
        except GpulakeError:
            # A build that cannot be read, or that an older version made, is replaced.
            return None
        inputs = set(self._inputs(order))
        if info["recipe"] != self._recipe(order) or not known or not known < inputs:
            return None
        new_files = {table: self._stored(table, inputs - known) for table in {table for table, _ in inputs - known}}
        # A file that was compacted while the build left a part of it out has old and new rows.
        is_mixed = any(files & self._stored(table, known) for table, files in new_files.items())
        return None if is_mixed else Extension(current, {table: sorted(files) for table, files in new_files.items()})

    def _stored(self, table: str, files: Collection[tuple[str, str]]) -> set[Path]:
        """The data files that have the rows of these files of landings, as far as they are of the table."""
        places = self.lake.bronze.slices(table)
        names = (file for one, file in files if one == table)
        return {self.lake.bronze.folder / table / (places[file].file if file in places else file) for file in names}

    def _data_files(self, order: BuildOrder) -> set[tuple[str, str]]:
        """By table and name: those that have the rows of its inputs."""
        inputs = self._inputs(order)
        return {(table, file.name) for table in {one for one, _ in inputs} for file in self._stored(table, inputs)}

    def _inputs(self, order: BuildOrder) -> dict[tuple[str, str], int]:
        """The rows of each file, by its table and its name."""
        without = files_without(self.lake, order.left_out)
        every = {(landing.table, landing.file): landing.rows_landed for landing in self._landings}
        return {key: rows for key, rows in sorted(every.items()) if key not in without}

    def _build_with_dbt(
        self, build_id: str, without: Collection[tuple[str, str]], only: Collection[tuple[str, str]]
    ) -> None:
        from gpulake.model.dbt import build_with_dbt

        with self.step("build") as detail:
            detail["engine"] = "dbt"
            build_with_dbt(self.lake, self.lake.staged_path(build_id), without, only)

    def _fingerprint(self, order: BuildOrder) -> str:
        landed = sorted(f"{landing.table} {landing.sha256}" for landing in self._landings)
        without = sorted(f"without {landing.landing_id}" for landing in order.left_out)
        return _hashed([self._recipe(order), *landed, *without])

    def _recipe(self, order: BuildOrder) -> str:
        from gpulake.model.sources import settings_rows

        model = hashlib.sha256(order.model.read_bytes()).hexdigest() if order.model and order.model.is_file() else None
        settings = json.dumps(settings_rows(self.config))
        archive = self.lake.archive.fingerprint
        parts = [order.plan.fingerprint, *order.written, settings, str(model), __version__]
        return _hashed([*parts, archive] if archive else parts)

    def _current(self, fingerprint: str) -> BuildResult | None:
        """The current build, if it has this fingerprint and can be read; damaged gold files are exported again."""
        try:
            if self.lake.builds.current() is None:
                return None
            with self.lake.reading() as reader:
                (info,) = reader.query("SELECT build_id, fingerprint FROM build_info").to_pylist()
                if info["fingerprint"] != fingerprint:
                    return None
                names = reader.tables()
                found = reader.query(LAST_FINDINGS).to_pylist() if FINDINGS in names else None
        except GpulakeError:
            # A build that cannot be read is replaced.
            return None
        self.lake.mend_exports(names)
        findings = None if found is None else tuple(Finding(**row) for row in found)
        return BuildResult(info["build_id"], False, findings=findings)


def _engine(staging: Staging, order: BuildOrder) -> AbstractContextManager[Engine | None]:
    if not order.spark_master:
        return nullcontext()
    from gpulake.model.spark import spark_engine

    return spark_engine(staging, order.plan, order.spark_master)


def _hashed(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
