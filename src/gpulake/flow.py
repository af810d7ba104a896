"""The order of the rooms. Each step takes the lake's lock, does one thing, and leaves a row in `runs`."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpulake import __version__
from gpulake.core.clock import Clock, SystemClock
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, LakeBusyError, StepError, UsageError
from gpulake.core.progress import Report, silent
from gpulake.core.tables import Table, bronze_tables, written_tables
from gpulake.core.types import Finding, Landing, Run, TestResult
from gpulake.lake import Lake

if TYPE_CHECKING:
    from gpulake.model.plan import Plan
    from gpulake.show.pai.study import Study

Result = TypeVar("Result")
SCORED = "gold_cluster_util_daily_scored"
FINDINGS = "findings"
# What rooms write beside the models, and the models that they read.
WRITTEN = {
    SCORED: ("gold_cluster_util_daily_reference", "gold_cluster_coverage_daily"),
    FINDINGS: (
        "gold_cluster_util_daily_reference",
        "gold_cluster_util_daily",
        "gold_jobs_daily",
        "gold_user_gpu_usage_daily",
    ),
}
TEST_RESULTS = """
SELECT status, name, "table", "column", failures, seconds, build_id FROM test_results
ORDER BY CASE status WHEN 'fail' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, "table", name
"""
RETRY_WAITS_SECONDS = (1.0, 5.0)


def known_tables() -> list[Table]:
    """Every table that a lake may hold, whoever makes it."""
    from gpulake.model.plan import shipped_plan

    return [
        *bronze_tables().values(),
        *(model.as_table() for model in shipped_plan().models),
        *written_tables().values(),
    ]


@dataclass(frozen=True)
class BuildOrder:
    plan: Plan
    written: tuple[str, ...]
    is_partial: bool
    is_dbt: bool
    model: Path | None


@dataclass(frozen=True)
class BuildResult:
    build_id: str
    is_new: bool
    tests: tuple[TestResult, ...] = ()
    findings: tuple[Finding, ...] | None = None  # None: nobody looked
    flagged_days: int = 0


@dataclass(frozen=True)
class RefreshResult:
    landings: tuple[Landing, ...]
    unknown: tuple[str, ...]  # files of a folder that nobody recognises
    build: BuildResult
    report: Path | None


@dataclass
class Flow:
    """One command's run: its steps share a run id."""

    config: Config
    clock: Clock = field(default_factory=SystemClock)
    report: Report = silent
    wait: Callable[[float], None] = time.sleep
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        self.lake = Lake(self.config)

    def land(self, paths: Sequence[Path]) -> tuple[tuple[Landing, ...], tuple[str, ...]]:
        """What landed (or had landed before), and the files of a folder that nobody recognises."""
        from gpulake.land.landing import land

        self.lake.create()
        with self._step("land") as detail, self.lake.writing():
            result = land(self.lake, paths, self.clock, self.report)
            detail["files"] = len(result.landings)
            detail["new_files"] = sum(landing.is_new for landing in result.landings)
            detail["rows_landed"] = sum(landing.rows_landed for landing in result.landings if landing.is_new)
            detail["rows_quarantined"] = sum(landing.rows_quarantined for landing in result.landings if landing.is_new)
        return result.landings, result.unknown

    def build(
        self, select: Sequence[str] = (), is_forced: bool = False, is_dbt: bool = False, model: Path | None = None
    ) -> BuildResult:
        """Silver and gold from what landed, tested, scored, and swapped in whole."""
        from gpulake.model.plan import shipped_plan

        if select and is_dbt:
            raise UsageError(
                "--select and --dbt were both given", "dbt builds the whole project; leave one of them out"
            )
        self.lake.open()
        # Findings speak of the scores, so whoever asks for those gets these.
        written = tuple(name for name in WRITTEN if not select or name in select or FINDINGS in select)
        needed = [table for name in written for table in WRITTEN[name]]
        plan = shipped_plan().select([*(name for name in select if name not in WRITTEN), *needed] if select else ())
        order = BuildOrder(plan, written, is_partial=bool(select), is_dbt=is_dbt, model=model)
        with self.lake.writing():
            fingerprint = self._fingerprint(order)
            if not is_forced and not is_dbt and self._is_current(fingerprint):
                with self._step("build") as detail:
                    detail["skipped"] = "the current build was made from the same rows, models and settings"
                return self._current_result()
            return self._build(order, fingerprint)

    def test_results(self) -> list[dict[str, Any]]:
        """The data tests of the last build, published or not, failures first."""
        with self.lake.open().reading() as reader:
            found: list[dict[str, Any]] = reader.query(TEST_RESULTS).to_pylist()
        return found

    def write_report(self, path: Path) -> None:
        from gpulake.show.report import write_report

        self.lake.open()
        with self._step("report", is_reader=True) as detail, self.lake.reading() as reader:
            self.report("writing the report", 0.9)
            write_report(reader, path)
            detail["path"] = str(path)

    def write_study(self, path: Path) -> Study:
        """The published study of the PAI trace, from this lake."""
        from gpulake.detect.durations import score_durations
        from gpulake.show.pai.study import opened, study, write_study

        self.lake.open()
        with self._step("study", is_reader=True) as detail, self.lake.reading() as reader:
            trace = opened(reader)
            self.report("foretelling run times", 0.1)
            durations = score_durations(reader)
            self.report("measuring figures", 0.4)
            found = study(trace, durations)
            self.report("writing the page", 0.9)
            write_study(found, path)
            detail["path"] = str(path)
        return found

    def refresh(
        self, paths: Sequence[Path], report_path: Path | None, select: Sequence[str] = (), is_forced: bool = False
    ) -> RefreshResult:
        """Everything, in order. What is done already is not done again, so a cut-off run is resumed by another."""
        landings: tuple[Landing, ...] = ()
        unknown: tuple[str, ...] = ()
        if paths:
            landings, unknown = self._retried("land", lambda: self.land(paths))
        result = self._retried("build", lambda: self.build(select, is_forced))
        if report_path:
            self._retried("report", lambda: self.write_report(report_path))
        return RefreshResult(landings, unknown, result, report_path)

    def demo(self, trace: Path, report_path: Path, jobs: int, seed: int) -> RefreshResult:
        """A refresh of a generated trace."""
        from gpulake.synth import write_trace

        write_trace(trace, jobs=jobs, seed=seed, report=self.report)
        return self.refresh([trace], report_path)

    def _build(self, order: BuildOrder, fingerprint: str) -> BuildResult:
        from gpulake.detect.days import score_days
        from gpulake.detect.findings import find
        from gpulake.model import build as room

        at = self.clock.now()
        build_id = f"{at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        tests = self._build_with_dbt(build_id) if order.is_dbt else []
        with self.lake.stage(build_id) as staging:
            if not order.is_dbt:
                with self._step("build") as detail:
                    room.build(staging, order.plan, self.config, self.report)
                    detail["models"] = len(order.plan.models)
            with self._step("test") as detail:
                tests = tests or room.test(staging, order.plan, self.report)
                detail["tests"] = len(tests)
                self.lake.record_tests(build_id, tests)
                room.refuse_failures(tests)
            with self._step("score"):
                flagged = score_days(staging, order.model) if SCORED in order.written else 0
                findings = find(staging) if FINDINGS in order.written else None
            with self._step("publish"):
                staging.record_tables(at)
                if order.is_partial:
                    staging.carry_over()
                info = {"build_id": build_id, "built_at": at, "fingerprint": fingerprint}
                staging.write("build_info", [{**info, "gpulake_version": __version__}])
                staging.publish()
        return BuildResult(build_id, True, tuple(tests), None if findings is None else tuple(findings), flagged)

    def _build_with_dbt(self, build_id: str) -> list[TestResult]:
        from gpulake.model.dbt import build_with_dbt

        with self._step("build") as detail:
            detail["engine"] = "dbt"
            return build_with_dbt(self.lake, self.lake.staged_path(build_id))

    def _fingerprint(self, order: BuildOrder) -> str:
        from gpulake.model.sources import settings_rows

        landed = sorted(f"{landing.table} {landing.sha256}" for landing in self.lake.live_landings())
        model = hashlib.sha256(order.model.read_bytes()).hexdigest() if order.model and order.model.is_file() else None
        settings = json.dumps(settings_rows(self.config))
        parts = [order.plan.fingerprint(), *order.written, settings, str(model), __version__, *landed]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _is_current(self, fingerprint: str) -> bool:
        if self.lake.builds.current() is None:
            return False
        try:
            with self.lake.reading() as reader:
                rows = reader.query("SELECT fingerprint FROM build_info").to_pylist()
        except GpulakeError:
            # A build that cannot be read is one to replace.
            return False
        return bool(rows[0]["fingerprint"] == fingerprint)

    def _current_result(self) -> BuildResult:
        with self.lake.reading() as reader:
            build_id = reader.query("SELECT build_id FROM build_info").to_pylist()[0]["build_id"]
            names = {row["name"] for row in reader.query("SHOW TABLES").to_pylist()}
            found = reader.query("SELECT * EXCLUDE (rank) FROM findings ORDER BY rank") if FINDINGS in names else None
            findings = tuple(Finding(**row) for row in found.to_pylist()) if found else None
        return BuildResult(build_id, False, findings=findings)

    @contextmanager
    def _step(self, name: str, is_reader: bool = False) -> Iterator[dict[str, object]]:
        started_at = self.clock.now()
        begin = time.perf_counter()
        detail: dict[str, object] = {}

        def record(status: Any) -> None:
            # Who may only read the lake can leave no row in it.
            with suppress(LakeBusyError) if is_reader else nullcontext():
                self.lake.record(Run(self.run_id, name, status, started_at, time.perf_counter() - begin, detail))

        try:
            yield detail
        except BaseException as error:
            detail["error"] = str(error)
            record("failed")
            raise
        record("skipped" if "skipped" in detail else "succeeded")

    def _retried(self, name: str, act: Callable[[], Result]) -> Result:
        """Every step may be repeated: it leaves the lake as it was, or as it should be."""
        for seconds in (*RETRY_WAITS_SECONDS, None):
            try:
                return act()
            except LakeBusyError as error:
                if seconds is None:
                    raise StepError(f"step {name} failed: {error.message}", error.hint) from error
                self.wait(seconds)
            except GpulakeError as error:
                raise StepError(f"step {name} failed: {error.message}", error.hint) from error
        raise AssertionError("unreachable")
