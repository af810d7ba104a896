"""Writes the archive: what the current build has of samples that are to go, and of the days that were made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from gpulake.core.retention_settings import SAMPLE_TABLES
from gpulake.lake import Lake, Staging
from gpulake.lake.archive import MARGIN, Part, State
from gpulake.lake.engine import Connection, text
from gpulake.model.plan import PlannedModel, shipped_plan
from gpulake.model.retained import DAILY, NODES, Retained, rolled_up

BUILD = "built.main"
SECONDS = {"minute": 60, "hour": 3600}
MOST_PARTS = 32  # of a table and grain; then they become one


@dataclass(frozen=True)
class Horizon:
    """Of a table of samples: raw ones are kept from `raw` on, one a minute from `minute` on, if that is given."""

    raw: datetime
    minute: datetime | None = None


@dataclass(frozen=True)
class Archived:
    """What was done, or is to be done: rows of a table before a moment, as so many others."""

    table: str
    grain: str
    before: str
    rows: int
    rows_after: int


class RollUp:
    """Of the current build, which has all that landed."""

    def __init__(self, lake: Lake, connection: Connection, build: Path, horizons: Mapping[str, Horizon]) -> None:
        self.lake = lake
        self.connection = connection
        self.was = lake.archive.state()
        self.horizons = horizons
        self.models = {model.name: model for model in shipped_plan().models}
        self.connection.execute(f"ATTACH IF NOT EXISTS {text(str(build))} AS built (READ_ONLY)")

    @property
    def is_due(self) -> bool:
        return self._state([]).horizons != self.was.horizons or any(True for _ in self._coarser())

    def planned(self) -> Iterator[Archived]:
        """What `write` would do."""
        for table, grain, until, rows, query in self._wanted():
            before, after = (self._count(f"FROM {rows}"), self._count(query))
            if before and grain != "all":
                yield Archived(table, grain, until, before, after)
        for part, query in self._coarser():
            yield Archived(part.table, "hour", part.until, part.rows, self._count(query))

    def write(self) -> tuple[State, list[Archived]]:
        """The files, which count once the state is put."""
        parts, done = [part for part in self.was.parts if part.grain != "all"], list[Archived]()
        for part, query in self._coarser():
            parts.remove(part)
            made = self.lake.archive.write(self.connection, part.table, "hour", part.until, query)
            parts += made
            done.append(Archived(part.table, "hour", part.until, part.rows, sum(one.rows for one in made)))
        for table, grain, until, rows, query in self._wanted():
            made = self.lake.archive.write(self.connection, table, grain, until, query)
            parts += made
            if made and grain != "all":
                count = self._count(f"FROM {rows}")
                done.append(Archived(table, grain, until, count, sum(one.rows for one in made)))
        return self._state(self._merged(parts)), done

    def _state(self, parts: list[Part]) -> State:
        raw = {table: horizon.raw.isoformat() for table, horizon in self.horizons.items()}
        later = {table: max(raw[table], self.was.horizons.get(table, "")) for table in raw}
        return State({**self.was.horizons, **later}, tuple(parts))

    def _wanted(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Table, grain, end, the rows and the query of what is to be kept of them."""
        for table, horizon in self.horizons.items():
            begin, end = self.was.horizon(table), horizon.raw
            model = self.models[table]
            hours = min(horizon.minute, end) if horizon.minute else None
            if begin is not None and begin >= end:
                continue
            if hours is not None and (begin is None or begin < hours):
                yield self._rolled(model, "hour", begin, hours)
                begin = hours
            if hours is None:
                yield self._rolled(model, "minute", begin, end)
                continue
            # A part a day, so that each becomes one of hours in its time.
            while begin is not None and begin < end:
                until = min(begin + timedelta(days=1), end)
                yield self._rolled(model, "minute", begin, until)
                begin = until
        yield from self._days()

    def _days(self) -> Iterator[tuple[str, str, str, str, str]]:
        gpus = self.horizons.get("silver_gpu_samples")
        if gpus is None:
            return
        was, until = self.was.frozen_before, (gpus.raw + MARGIN).date()
        for table in DAILY if was is None or was < until else ():
            since = f"AND dt >= DATE '{was}'" if was else ""
            rows = f"(FROM {BUILD}.{table} WHERE dt < DATE '{until}' {since})"
            yield table, "day", until.isoformat(), rows, f"FROM {rows}"
        yield NODES, "all", until.isoformat(), f"{BUILD}.{NODES}", f"FROM {BUILD}.{NODES}"

    def _rolled(
        self, model: PlannedModel, grain: str, begin: datetime | None, end: datetime
    ) -> tuple[str, str, str, str, str]:
        since = f"AND sampled_at >= TIMESTAMPTZ '{begin.isoformat()}'" if begin else ""
        rows = f"(FROM {BUILD}.{model.name} WHERE sampled_at < TIMESTAMPTZ '{end.isoformat()}' {since})"
        return model.name, grain, end.isoformat(), rows, rolled_up(model, rows, SECONDS[grain], BUILD)

    def _coarser(self) -> Iterator[tuple[Part, str]]:
        """Parts of minutes whose time is over, and the query of their hours."""
        for part in self.was.parts:
            horizon = self.horizons.get(part.table)
            is_minutes = part.grain == "minute" and horizon is not None and horizon.minute is not None
            if is_minutes and datetime.fromisoformat(part.until) <= horizon.minute:  # type: ignore[union-attr, operator]
                rows = self.lake.archive.rows([part.file])
                yield part, rolled_up(self.models[part.table], rows, SECONDS["hour"], BUILD)

    def _merged(self, parts: list[Part]) -> list[Part]:
        kept: list[Part] = []
        for table, grain in sorted({(part.table, part.grain) for part in parts}):
            same = [part for part in parts if (part.table, part.grain) == (table, grain)]
            if grain in ("hour", "day") and len(same) > MOST_PARTS:
                until = max(part.until for part in same)
                query = f"FROM {self.lake.archive.rows(part.file for part in same)}"
                same = self.lake.archive.write(self.connection, table, grain, until, query)
            kept += same
        return kept

    def _count(self, query: str) -> int:
        row = self.connection.execute(f"SELECT count(*) FROM ({query})").fetchone()
        return int(row[0]) if row else 0


def without_old_samples(staging: Staging) -> None:
    """The tables of samples of the current build, with what the archive has instead of those before the horizon."""
    lake, connection = staging.lake, staging.connection
    retained, current = Retained.of(lake), lake.builds.current()
    connection.execute(f"ATTACH {text(str(current))} AS was (READ_ONLY)")
    for model in shipped_plan().models:
        if model.name in SAMPLE_TABLES and (horizon := retained.horizon(model.name)):
            rows = f"FROM was.main.{model.name} WHERE sampled_at >= {horizon}"
            connection.execute(f"CREATE TABLE lake.main.{model.name} AS {rows}")
            retained.add(connection, model)
    connection.execute("DETACH was")
