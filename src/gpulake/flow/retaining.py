"""Retention: samples whose time is over are rolled up, and go from the build and from bronze.

The order makes it safe to die at any moment. The archive gets its files, then its pointer: from then on builds take
past days from it, and rows of bronze before the horizon are not seen. A smaller build replaces the current one. Last,
files of bronze are written anew without those rows; whatever was left undone, the next run does.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpulake.core.errors import LakeError, UsageError

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.model.rollup import Archived, Horizon

KEPT_EVERYTHING = "say how long samples are kept as they are: gpulake config set retention.raw_days 14"


@dataclass(frozen=True)
class RetentionResult:
    is_dry_run: bool
    archived: tuple[Archived, ...]
    removed: dict[str, int]  # rows of bronze tables
    build_id: str = ""  # of the build without these samples; empty: none was needed


def retain(flow: Flow, is_dry_run: bool = False) -> RetentionResult:
    """Applies [retention]. What is rolled up once stays so, whatever the settings say later."""
    from gpulake.flow.building import Building, build_order
    from gpulake.lake.migrating import migrate
    from gpulake.model.rollup import RollUp, without_old_samples

    horizons = _horizons(flow)
    if is_dry_run:
        build = flow.lake.open().builds.current()
        if build is None:
            raise LakeError("there is no build yet", "make one with: gpulake build")
        with flow.lake.connect() as connection:
            return RetentionResult(True, tuple(RollUp(flow.lake, connection, build, horizons).planned()), {})
    flow.lake.open()
    with flow.lake.writing(), flow.step("retention") as detail:
        building = Building(flow.lake, flow.config, flow.clock, flow.report, flow.step)
        order = build_order(flow.lake, (), False, False, None)
        building.build(order)
        flow.lake.archive.remove_orphans()
        archived: list[Archived] = []
        build_id = ""
        with flow.lake.connect() as connection:
            build = flow.lake.builds.current()
            roll_up = RollUp(flow.lake, connection, build, horizons) if build else None
            if roll_up and roll_up.is_due:
                migrate(flow.lake.root)
                state, archived = roll_up.write()
                flow.lake.archive.put(state)
        if archived:
            build_id = building.renew(order, without_old_samples)
        removed = _sweep(flow)
        detail.update(build_id=build_id, archived=[asdict(one) for one in archived], removed=removed)
    return RetentionResult(False, tuple(archived), removed, build_id)


def _horizons(flow: Flow) -> dict[str, Horizon]:
    from gpulake.lake.archive import horizon_at
    from gpulake.model.rollup import Horizon

    now, ages = flow.clock.now(), flow.config.retention.ages()
    if not ages:
        raise UsageError("[retention] keeps everything", KEPT_EVERYTHING)
    return {
        table: Horizon(horizon_at(now, age.raw_days), horizon_at(now, age.minute_days) if age.minute_days else None)
        for table, age in ages.items()
    }


def _sweep(flow: Flow) -> dict[str, int]:
    """Writes files of bronze anew that have rows before the horizon. The rows that went, by table."""
    from gpulake.lake.archive import rows_seen, seen_from
    from gpulake.lake.engine import lake_errors

    removed = {}
    with flow.lake.connect() as connection:
        for table, condition in seen_from(flow.lake.archive.state()).items():
            with lake_errors(f"removing old samples from {table}"):
                seen = partial(rows_seen, connection, condition=condition)
                removed[table] = flow.lake.bronze.storage(table).rewrite(seen, flow.clock.now())
    return {table: rows for table, rows in removed.items() if rows}
