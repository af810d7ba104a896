"""What of the lake is to be exported: the jobs of a cluster, or a workload that was imported."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from gpulake.core.config import GpuType
from gpulake.core.errors import UsageError
from gpulake.lake import LakeReader
from gpulake.replay.exports import Exported
from gpulake.replay.exports.opendc import OpendcExport
from gpulake.replay.from_lake import Selection, choose, clusters, from_lake
from gpulake.replay.imported import export_imported
from gpulake.replay.workload import Clockwork


def export_lake(
    reader: LakeReader,
    cluster: str | None,
    user: str | None,
    days: tuple[date | None, date | None],
    export: OpendcExport,
    clock: Clockwork,
    gpu_types: Mapping[str, GpuType],
    folder: Path,
) -> Exported:
    built, imported = clusters(reader)
    chosen = choose(cluster, sorted({*built, *imported}))
    if chosen not in imported:
        return export.write(from_lake(reader, Selection(chosen, user, *days, clock), gpu_types), folder)
    if user or any(days):
        raise UsageError(f"{chosen} was imported: it goes out whole", "leave out --user, --from and --to")
    if clock != Clockwork() or export.has_plain_times or export.schema_version != OpendcExport.schema_version:
        raise UsageError(
            f"{chosen} was imported: it goes out as it came in",
            "leave out what would change it: sizes, times and versions",
        )
    return export_imported(reader, chosen, export, folder)
