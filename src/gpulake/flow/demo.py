"""The demo: something generated, landed, modelled, scored and reported."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.errors import UsageError
from gpulake.flow import Flow
from gpulake.flow.order import RefreshResult
from gpulake.synth.site import Site, SiteSummary, write_site

DIAGNOSED_LOGS = 20  # the newest; one takes an eighth of a second


@dataclass(frozen=True)
class SiteDemo:
    made: SiteSummary
    refreshed: RefreshResult
    reasons: dict[str, int]  # of failed jobs, by how often


def demo_trace(flow: Flow, folder: Path, report_path: Path, jobs: int, seed: int) -> RefreshResult:
    """A refresh of a generated trace, with telemetry of some of its nodes."""
    from gpulake.synth import write_trace

    write_trace(folder, jobs=jobs, seed=seed, has_telemetry=True, report=flow.report)
    return flow.refresh([folder], report_path)


def demo_site(flow: Flow, folder: Path, report_path: Path, site: Site) -> SiteDemo:
    """A refresh of a generated site, and diagnoses of the jobs that failed last."""
    _make_room(flow.config.lake, folder)
    made = write_site(folder, site, flow.report)
    refreshed = flow.refresh([folder / name for name in ("slurm", "prometheus", "kernel")], report_path)
    return SiteDemo(made, refreshed, _diagnosed(flow, folder / "logs"))


def _make_room(lake: Path, folder: Path) -> None:
    """Two stories of one site contradict each other: an earlier demo is replaced, anything else is left alone."""
    if (folder / "truth.json").is_file():
        shutil.rmtree(folder)
        shutil.rmtree(lake, ignore_errors=True)
    elif lake.exists():
        raise UsageError(f"{lake} is not of a demo", "name another folder with --out")


def _diagnosed(flow: Flow, logs: Path) -> dict[str, int]:
    from gpulake.diagnose.diagnoser import DiagnosisRequest

    reasons: Counter[str] = Counter()
    paths = sorted(logs.glob("slurm-*.out"), key=lambda path: (path.stat().st_mtime, path.name))[-DIAGNOSED_LOGS:]
    for place, path in enumerate(paths):
        flow.report(f"diagnosing {path.name}", place / len(paths))
        answer = flow.diagnose(DiagnosisRequest(path, job_id=path.stem.removeprefix("slurm-"), cluster_id="synth-site"))
        reasons[answer.diagnosis.reason] += 1
    return dict(reasons.most_common())
