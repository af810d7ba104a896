"""Workloads for simulators: imported into the lake, exported from it or from a collected run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from gpulake.core.types import Landing

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.replay.exports import Exported
    from gpulake.replay.exports.opendc import OpendcExport
    from gpulake.replay.workload import Clockwork


def import_opendc(flow: Flow, folders: Sequence[Path], name: str | None = None) -> Mapping[str, tuple[Landing, ...]]:
    """The landings of each workload, new or from before."""
    from gpulake.land import workloads

    flow.lake.create()
    with flow.step("import") as detail, flow.lake.writing():
        landed = workloads.import_opendc(flow.lake, folders, name, flow.clock, flow.report)
        detail["workloads"] = list(landed)
    return landed


def export_run(flow: Flow, run: Path, export: OpendcExport, clock: Clockwork, folder: Path) -> Exported:
    """A collected run as a workload for a simulator. It needs no lake, and leaves no row in one."""
    from gpulake.replay.from_run import from_run

    flow.report("reading the run", 0.1)
    return export.write(from_run(run, clock, flow.config.gpu_types), folder)


def export_lake(
    flow: Flow,
    cluster: str | None,
    user: str | None,
    days: tuple[date | None, date | None],
    export: OpendcExport,
    clock: Clockwork,
    folder: Path,
) -> Exported:
    """Jobs of the lake, or a workload that was imported, for a simulator."""
    from gpulake.replay import exporting

    flow.lake.open()
    with flow.step("export", is_reader=True) as detail, flow.lake.reading() as reader:
        flow.report("writing the workload", 0.1)
        exported = exporting.export_lake(reader, cluster, user, days, export, clock, flow.config.gpu_types, folder)
        detail.update(path=str(folder), tasks=exported.summary["tasks"])
    return exported
