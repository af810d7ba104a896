"""Reports that read the last complete build."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.show.job_report import JobReport


def job_report(flow: Flow, job: str, cluster: str | None = None) -> JobReport:
    """What one job asked for, held, used and cost, how it ended, and what to change."""
    from gpulake.show import job_report as reporting

    flow.lake.open()
    with flow.step("report", is_reader=True), flow.lake.reading() as reader:
        return reporting.job_report(reader, flow.config, job, cluster)
