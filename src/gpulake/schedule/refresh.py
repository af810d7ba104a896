"""The refresh as a Prefect flow: a step is a task of this process; its result goes to the logs and artefacts."""

# No `from __future__ import annotations` here: a served run is handed to its process by value, without this module's
# names, and Prefect could not resolve a parameter of type 'Path' there.

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prefect import Task, flow, get_run_logger, runtime, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, TaskRun
from prefect.schedules import Cron, Interval, Schedule
from prefect.settings import get_current_settings
from prefect.types.entrypoint import EntrypointType

from gpulake import __version__
from gpulake.core.config import load
from gpulake.core.errors import BuildError, GpulakeError, LakeBusyError, StepError, UsageError
from gpulake.core.types import LandResult
from gpulake.flow import RETRY_WAITS_SECONDS, Flow
from gpulake.flow.building import BuildResult
from gpulake.flow.order import Work
from gpulake.schedule.markdown import escape, findings_page, plain

TEST_COLUMNS = ("status", "name", "table", "column", "failures")
START_A_SERVER = (
    "start one with: DO_NOT_TRACK=1 prefect server start --analytics-off; "
    "then: export PREFECT_API_URL=http://127.0.0.1:4200/api"
)


class ScheduledStepError(StepError):
    """Prefect shows only the text of an error, so the hint is part of it."""

    def __str__(self) -> str:
        return f"{self.message}; hint: {self.hint}" if self.hint else self.message


def is_safe_to_retry(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """A busy lake may be free later; a bad file or a failed test fails again."""
    return isinstance(state.data, ScheduledStepError) and isinstance(state.data.__context__, LakeBusyError)


@flow(name="gpu_telemetry_full_refresh", version=__version__, persist_result=False)
def gpu_telemetry_full_refresh(
    paths: list[Path], lake: Path | None = None, report_path: Path | None = None
) -> BuildResult:
    """Land, build, test, score and report. Finished work is skipped.

    Args:
        paths: Files and folders to land; none builds from what landed before.
        lake: The lake's folder; without it, as gpulake.toml or GPULAKE_LAKE says.
        report_path: The report's file; without it, report.html in the lake.
    """
    # The run's id in `runs` is its id in Prefect, so that a row leads to its page.
    steps = Flow(load({"lake": lake}), run_id=str(runtime.flow_run.id))
    work = Work(paths, (report_path or steps.default_report).absolute())
    result = steps.run(work, partial(run_as_task, steps, work))
    if result.failed:  # the rest is built and reported; the run is to be looked at all the same
        reasons = plain("; ".join(one.reason for one in result.failed))
        raise ScheduledStepError(f"step land failed for {len(result.failed)} files: {reasons}", result.failed[0].hint)
    return result.build


def run_as_task(steps: Flow, work: Work, name: str, act: Callable[[], Any]) -> Any:
    """Runs a step as a task, which is not cached: the step itself looks into the lake for what is done already."""

    def run_step() -> Any:
        try:
            result = act()
        except BuildError as error:
            _show_tests(steps)  # which test failed is why one opens the run
            raise _scheduled(name, error) from None
        except GpulakeError as error:
            raise _scheduled(name, error) from None
        if name in SHOWN:
            SHOWN[name](steps, work, result)
        return result

    return task(
        run_step,
        name=name,
        retries=len(RETRY_WAITS_SECONDS),
        retry_delay_seconds=list(RETRY_WAITS_SECONDS),
        retry_condition_fn=is_safe_to_retry,
        cache_policy=NO_CACHE,
        persist_result=False,
    )()


def _scheduled(name: str, error: GpulakeError) -> ScheduledStepError:
    """The message is enough: a page of traceback would bury it."""
    return ScheduledStepError(f"step {name} failed: {plain(error.message)}", plain(error.hint))


def _show_landed(_steps: Flow, _work: Work, result: LandResult) -> None:
    new = [landing for landing in result.landings if landing.is_new]
    logger = get_run_logger()
    logger.info(
        "landed files=%d new_files=%d rows_landed=%d rows_quarantined=%d",
        len(result.landings),
        len(new),
        sum(landing.rows_landed for landing in new),
        sum(landing.rows_quarantined for landing in new),
    )
    for source in result.unknown:
        logger.warning("not recognised file=%s", plain(source))
    for one in result.failed:
        logger.error("failed file=%s reason=%s", plain(one.source), plain(one.reason))


def _show_built(steps: Flow, _work: Work, result: BuildResult) -> None:
    _show_tests(steps)
    findings = result.findings or ()
    get_run_logger().info("built build_id=%s is_new=%s findings=%d", result.build_id, result.is_new, len(findings))
    create_markdown_artifact(
        key="gpulake-findings",
        markdown=findings_page(findings),
        description=f"Findings of build {result.build_id}, most important first.",
    )


def _show_tests(steps: Flow) -> None:
    rows = steps.test_results()
    counts = {status: sum(row["status"] == status for row in rows) for status in ("pass", "warn", "fail")}
    get_run_logger().info("tested tests=%d pass=%d warn=%d fail=%d", len(rows), *counts.values())
    if rows:
        create_table_artifact(
            key="gpulake-data-tests",
            table=[{column: row[column] for column in TEST_COLUMNS} for row in rows],
            description=f"The data tests of build {rows[0]['build_id']}, failures first.",
        )


def _show_report(_steps: Flow, work: Work, _result: None) -> None:
    get_run_logger().info("reported path=%s", plain(str(work.report_path)))
    # Text, not a link: no browser follows one from a server's page to a file.
    create_markdown_artifact(
        key="gpulake-report",
        markdown=f"The report is at {escape(str(work.report_path))}\n",
        description="One HTML file on the machine that ran the flow.",
    )


SHOWN: dict[str, Callable[[Flow, Work, Any], None]] = {
    "land": _show_landed,
    "build": _show_built,
    "report": _show_report,
}


def run_once(paths: Sequence[Path], lake: Path, report_path: Path) -> BuildResult:
    """One run on the configured server."""
    _need_server()
    result: BuildResult = gpu_telemetry_full_refresh(list(paths), lake, report_path)
    return result


def serve(
    name: str, paths: Sequence[Path], lake: Path, report_path: Path, cron: str | None, every_seconds: int | None
) -> None:
    """Creates the deployment and runs it, by its schedule or on request, until it is stopped."""
    schedule = _schedule(cron, every_seconds)
    _need_server()
    gpu_telemetry_full_refresh.serve(
        name,
        schedule=schedule,
        parameters={"paths": [str(path) for path in paths], "lake": str(lake), "report_path": str(report_path)},
        tags=["gpulake"],
        limit=1,  # a lake has one writer at a time
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def _schedule(cron: str | None, every_seconds: int | None) -> Schedule | None:
    if every_seconds is not None:
        return Interval(every_seconds)
    if cron is None:
        return None
    try:
        return Cron(cron)
    except ValueError as error:
        raise UsageError(
            f"{cron!r} is not a cron schedule", 'write it like "0 6 * * *": at six every day, UTC'
        ) from error


def _need_server() -> None:
    url = get_current_settings().api.url
    if url is None:
        raise UsageError("no Prefect server is configured", START_A_SERVER)
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        raise UsageError(f"no Prefect server answers at {url}: {plain(str(problem))}", START_A_SERVER)
