"""Repairing: land damaged files again, take back on request what cannot land again, and rebuild what depends on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpulake.core.clock import Clock
from gpulake.lake import Lake, repair
from gpulake.lake.deep import Damage, inspect

Status = Literal["planned", "done", "needs --drop"]


@dataclass(frozen=True)
class Repair:
    """A damage and what is, or was, done about it."""

    path: Path
    damage: str
    action: str
    status: Status


@dataclass(frozen=True)
class _Remedy:
    action: str
    act: Callable[[], object]
    is_loss: bool = False  # something is lost by it


@dataclass(frozen=True)
class Repairing:
    lake: Lake
    clock: Clock

    def repair(self, is_dry_run: bool, may_drop: bool) -> tuple[list[Repair], bool]:
        """What is done about each damage, and whether a build is needed afterwards."""
        damages = inspect(self.lake)
        # Further damage of a table is visible only once its log can be read, or a compacted file is taken apart.
        renewed = {one.table: one for one in damages if one.kind == "log" and one.layer == "bronze"}
        now = [one for one in damages if one.layer != "bronze" or one.table not in renewed]
        apart = [one for one in now if one.layer == "bronze" and repair.is_compacted(self.lake, one)]
        repairs = [self._done(one, is_dry_run, may_drop) for one in (*renewed.values(), *now)]
        while (renewed or apart) and not is_dry_run:
            known = {one.path for one in damages}
            damages += (left := [one for one in inspect(self.lake) if one.layer == "bronze" and one.path not in known])
            repairs += [self._done(one, is_dry_run, may_drop) for one in left]
            renewed, apart = {}, [one for one in left if repair.is_compacted(self.lake, one)]
        needs_build = any(damage.layer in ("archive", "bronze", "build", "gold") for damage in damages)
        return repairs, needs_build and any(one.status != "needs --drop" for one in repairs)

    def _done(self, damage: Damage, is_dry_run: bool, may_drop: bool) -> Repair:
        remedy = self._remedy(damage)
        status: Status = "needs --drop" if remedy.is_loss and not may_drop else "planned"
        if status == "planned" and not is_dry_run:
            remedy.act()
            status = "done"
        return Repair(damage.path, damage.detail, remedy.action, status)

    def _remedy(self, damage: Damage) -> _Remedy:
        match damage.layer:
            case "bronze":
                return self._bronze(damage)
            case "quarantine":
                return self._quarantine(damage)
            case "journal":
                words = f"set {len(damage.lines)} lines aside in {damage.path.name}.damaged"
                return _Remedy(words, lambda: repair.set_lines_aside(damage), is_loss=True)
            case "archive":
                words = "continue without these rows of past days; a backup has them"
                return _Remedy(words, lambda: self.lake.archive.drop(damage.path.name), is_loss=True)
            case "gold":
                return _Remedy("export it again", lambda: repair.clear_export(damage, self.lake.gold))
        return _Remedy("build anew", lambda: None)

    def _bronze(self, damage: Damage) -> _Remedy:
        at = self.clock.now()
        if damage.kind == "log":
            return _Remedy("renew the log", lambda: repair.renew_log(self.lake, damage.table, at))
        if damage.kind == "orphan":
            return self._orphan(damage)
        if repair.is_compacted(self.lake, damage):
            return _Remedy("take it apart", lambda: repair.take_apart(self.lake, damage, at))
        from gpulake.lake.undo import take_back
        from gpulake.land.again import is_unchanged, land_again

        held = repair.holders(self.lake, damage)
        sources = [landing.source for landing in held]
        if held and all(is_unchanged(self.lake, one.table, one.source, one.sha256) for one in held):
            files = [damage.path.name]
            words = f"land {', '.join(sources)} again"
            return _Remedy(words, lambda: land_again(self.lake, sources, files, self.clock))
        words = f"take back {', '.join(sources)}: the original is gone or has changed"
        return _Remedy(words, lambda: take_back(self.lake, held, self.clock), is_loss=True)

    def _orphan(self, damage: Damage) -> _Remedy:
        source = repair.source_of(damage.path)
        if repair.is_wanted(self.lake, damage.table, source):
            at = self.clock.now()
            words = f"take it in again: it holds {source}"
            return _Remedy(words, lambda: repair.adopt(self.lake, damage.table, damage.path, at))
        return _Remedy("remove it: no table holds its rows", damage.path.unlink, is_loss=True)

    def _quarantine(self, damage: Damage) -> _Remedy:
        if damage.kind == "orphan":
            return _Remedy("remove it: no table holds its rows", damage.path.unlink, is_loss=True)
        words = "leave its rows out of the quarantine; what landed stays"
        return _Remedy(words, lambda: repair.drop_quarantined(self.lake, damage), is_loss=True)
