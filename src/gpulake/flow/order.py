"""The order of the steps, once: `gpulake refresh`, `gpulake build` and the Prefect flow run this list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.progress import Report
from gpulake.core.types import FailedFile, Landing, LandResult

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.flow.building import BuildResult


@dataclass(frozen=True)
class Work:
    """What one run is asked to do: a step without work is left out."""

    paths: Sequence[Path] = ()
    report_path: Path | None = None
    select: Sequence[str] = ()
    is_forced: bool = False
    is_dbt: bool = False
    spark_master: str = ""  # empty: DuckDB builds
    model: Path | None = None
    without: Sequence[str] = ()
    is_replacing: bool = False


@dataclass(frozen=True)
class RefreshResult:
    landings: tuple[Landing, ...]
    unknown: tuple[str, ...]  # files of a folder that no reader recognises
    failed: tuple[FailedFile, ...]  # the rest was built without them
    build: BuildResult
    report: Path | None

    @property
    def landed(self) -> LandResult:
        return LandResult(self.landings, self.unknown, self.failed)


@dataclass(frozen=True)
class Step:
    name: str
    run: Callable[[Flow, Work], Any]
    has_work: Callable[[Flow, Work], bool] = lambda flow, work: True  # noqa: ARG005 - the signature of the others


def _write_report(flow: Flow, work: Work) -> None:
    if work.report_path is not None:
        flow.write_report(work.report_path)


STEPS = (
    Step("land", lambda flow, work: flow.land(work.paths, work.is_replacing), lambda _, work: bool(work.paths)),
    Step(
        "build",
        lambda flow, work: flow.build(
            work.select, work.is_forced, work.is_dbt, work.model, work.without, work.spark_master
        ),
    ),
    Step("report", _write_report, lambda _, work: work.report_path is not None),
    # Last: a sink that is down delays neither the build nor the report.
    Step("alerts", lambda flow, _: flow.send_alerts_if_free(), lambda flow, _: flow.sends_alerts_at_once),
)


def run_steps(flow: Flow, work: Work, call: Callable[[str, Callable[[], Any]], Any]) -> RefreshResult:
    steps = [step for step in STEPS if step.has_work(flow, work)]
    done: dict[str, Any] = {}
    whole = flow.report
    for place, step in enumerate(steps):
        flow.report = partial(_part, whole, place, len(steps))
        done[step.name] = call(step.name, partial(step.run, flow, work))
    landed = done.get("land", LandResult())
    return RefreshResult(landed.landings, landed.unknown, landed.failed, done["build"], work.report_path)


def _part(report: Report, place: int, steps: int, what: str, share: float) -> None:
    """The share of one step, as a share of all of them."""
    report(what, (place + share) / steps)
