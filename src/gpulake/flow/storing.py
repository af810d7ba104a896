"""Keeping the lake: backups, users who are to be forgotten, formats."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.lake.backup import BackupResult, Snapshot
    from gpulake.lake.forgetting import Forgotten
    from gpulake.lake.migrating import Step

DELETED = "deleted-user"


def back_up(flow: Flow, folder: Path, keep: int = 0) -> BackupResult:
    """A snapshot of the lake, beside earlier ones; `keep`: so many stay, 0: all."""
    from gpulake.lake.backup import Backup

    flow.lake.open()
    with flow.step("backup") as detail:
        result = Backup(folder).take(flow.lake, flow.clock, keep)
        detail.update(folder=str(folder), snapshot_id=result.snapshot_id, new_bytes=result.new_bytes)
    return result


def check_backup(folder: Path) -> list[Snapshot]:
    """Its snapshots; damage is an error."""
    from gpulake.lake.backup import Backup

    return Backup(folder).check()


def restore(flow: Flow, folder: Path, snapshot_id: str = "") -> Snapshot:
    """The lake of a backup, where there is none yet."""
    from gpulake.lake.backup import Backup

    return Backup(folder).restore(flow.config.lake, flow.config.lake_access, snapshot_id)


@dataclass(frozen=True)
class ForgetResult:
    is_dry_run: bool
    instead: str  # what stands in the place of the name
    forgotten: tuple[Forgotten, ...]
    build_id: str = ""


def forget(flow: Flow, user: str, is_deleting: bool = False, is_dry_run: bool = False) -> ForgetResult:
    """Takes a user's name out of all that the lake holds, and makes a whole build of the rest."""
    from gpulake.flow.building import Building, build_order
    from gpulake.lake.engine import lake_errors
    from gpulake.lake.forgetting import Forgetting, Name

    name = Name(user, DELETED if is_deleting else f"user-{secrets.token_hex(4)}", is_deleting)
    forgetting = Forgetting(flow.lake.open(), name)
    with lake_errors("forgetting a user"):
        if is_dry_run:
            return ForgetResult(True, name.instead, tuple(forgetting.found()))
        # The name is no part of the row in `runs`.
        with flow.lake.alone("backup", is_patient=True), flow.lake.writing(), flow.step("forget") as detail:
            done = forgetting.forget(flow.clock.now())
            build_id = ""
            if flow.lake.builds.current() is not None and flow.lake.live_landings():
                building = Building(flow.lake, flow.config, flow.clock, flow.report, flow.step)
                build_id = building.build(build_order(flow.lake, (), True, False, None)).build_id
            forgetting.clean_up()
            detail.update(instead=name.instead, build_id=build_id, rows=sum(one.rows for one in done))
    return ForgetResult(False, name.instead, tuple(done), build_id)


def migrate(flow: Flow, is_dry_run: bool = False) -> list[Step]:
    """The steps from the lake's format to the newest, done or to be done."""
    from gpulake.lake import migrating

    flow.lake.open()
    if is_dry_run:
        return migrating.pending(flow.lake.root)
    with flow.lake.writing(), flow.step("migrate") as detail:
        steps = migrating.migrate(flow.lake.root)
        detail["formats"] = [step.to for step in steps]
    return steps
