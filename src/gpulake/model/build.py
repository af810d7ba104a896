"""Run the plan: tables in order, contracts held, then the data tests."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import duckdb

from gpulake.core.config import Config
from gpulake.core.errors import BuildError, LakeError
from gpulake.core.progress import Report
from gpulake.core.types import TestResult
from gpulake.lake import Staging
from gpulake.lake.engine import REPAIR, Connection, create_table, is_damage, name, row_counts
from gpulake.lake.views import damaged_file
from gpulake.model.blame import blame
from gpulake.model.increment import Increment, TouchesTooMuchError
from gpulake.model.plan import Plan, PlannedModel, PlannedTest
from gpulake.model.pruning import is_empty, pruned
from gpulake.model.retained import Retained
from gpulake.model.sources import SETTINGS, settings_rows

LARGE_ROWS = 500_000  # of a table that takes much of the memory
MOST_BLAMED = 3  # failed tests whose rows are traced to a landed file

__all__ = ["Increment", "TouchesTooMuchError", "bound_by_landing", "build", "refuse_failures", "test", "write_settings"]


class Engine(Protocol):
    """Works out models. Their tables are of the staged build, whatever made their rows."""

    def create(self, model: PlannedModel, empty: Collection[str]) -> int:
        """The table of a model, where some tables have no rows; how many it has."""


@dataclass(frozen=True)
class InProcess:
    """DuckDB, here."""

    staging: Staging
    plan: Plan

    def create(self, model: PlannedModel, empty: Collection[str]) -> int:
        sql = pruned(model.sql, self.plan.steps, empty)
        row = self.staging.connection.execute(
            f'CREATE OR REPLACE TABLE "lake"."main"."{model.name}" AS {sql}'
        ).fetchone()
        return int(row[0]) if row else 0


def build(staging: Staging, plan: Plan, report: Report, engine: Engine | None = None) -> None:
    """Every model of the plan as a table of the staged build. One that can have no rows is made from its contract."""
    _need_rows(staging)
    engine = engine or InProcess(staging, plan)
    empty = {*staging.empty, *plan.empty}
    retained = Retained.of(staging.lake)
    for position, model in enumerate(plan.models):
        report(f"building {model.name}", position / len(plan.models))
        target = f'CREATE OR REPLACE TABLE "lake"."main"."{model.name}"'
        if is_empty(model.empty_without, empty):
            columns = ", ".join(f"{name(column.name)} {column.type}" for column in model.columns)
            staging.connection.execute(f"{target} ({columns})")
            if not retained.add(staging.connection, model):
                empty.add(model.name)
            continue
        try:
            rows = engine.create(model, empty)
            if not retained.add(staging.connection, model) and not rows:
                empty.add(model.name)
            if rows >= LARGE_ROWS:
                staging.release_memory()
        except (duckdb.IOException, duckdb.OutOfMemoryException):
            raise
        except duckdb.Error as error:
            if is_damage(error):
                raise LakeError(f"building {model.name}: {damaged_file(staging.connection, error)}", REPAIR) from error
            # It may be the contract of an input that is broken.
            _hold_contracts(staging, plan.models[:position])
            raise BuildError(f"model {model.name} failed: {error}", "see what landed with: gpulake tables") from error
    _hold_contracts(staging, plan.models)


def write_settings(connection: Connection, config: Config) -> None:
    """The settings that models read, as tables beside what landed."""
    for table, rows in settings_rows(config).items():
        types = {name: kind for name, (kind, _) in SETTINGS[table][1].items()}
        create_table(connection, f"landed.main.{table}", types, rows)


def bound_by_landing(connection: Connection) -> None:
    """Until when an event is credible. Not a setting: a later landing must not make the whole build anew."""
    last = "SELECT max(landed_at) + INTERVAL 1 DAY FROM landed.main.landings WHERE is_live"
    connection.execute(f"UPDATE landed.main.parameters SET credible_until = ({last})")


def test(staging: Staging, plan: Plan, report: Report, increment: Increment | None) -> list[TestResult]:
    """What each data test finds. A test that cannot run is an error of the build, not a failure of the data."""
    results: dict[str, TestResult] = {}
    counts = row_counts(staging.connection)
    for table, same_table in groupby(plan.tests, lambda planned: planned.table):
        report(f"testing {table}", len(results) / len(plan.tests))
        tests = []
        for planned in same_table:
            # No row of its table can fail it, or none that has changed since it passed.
            cannot_fail = not counts.get(table, 1) and planned.reads_only_its_table
            if cannot_fail or (increment and increment.is_unchanged(planned)):
                results[planned.name] = TestResult(planned.name, table, planned.column, planned.severity, 0, 0.0)
            else:
                tests.append(planned)
        at_once = [planned for planned in tests if planned.condition]
        for together in (at_once, *([planned] for planned in tests if not planned.condition)):
            results |= {result.name: result for result in _run_tests(staging, together, increment)}
        # An increment reads the rows that it made, which releasing would write to the disk.
        if not increment and counts.get(table, 0) >= LARGE_ROWS:
            staging.release_memory()
    return [results[planned.name] for planned in plan.tests]


def _run_tests(staging: Staging, tests: Sequence[PlannedTest], increment: Increment | None) -> Iterator[TestResult]:
    """Tests of one table, in one query: tests of single rows share one scan."""
    if not tests:
        return
    first = tests[0]
    if first.condition:
        counts = ", ".join(f"count(*) FILTER (WHERE {planned.condition})" for planned in tests)
        sql = f'SELECT {counts} FROM "lake"."main"."{first.table}"'
    else:
        sql = f"SELECT count(*) FROM ({first.sql})"
    begin = time.perf_counter()
    try:
        failures = staging.connection.execute(increment.narrowed(first, sql) if increment else sql).fetchall()[0]
    except (duckdb.IOException, duckdb.OutOfMemoryException):
        raise
    except duckdb.Error as error:
        names = first.name if len(tests) == 1 else f"{first.name} or one of {len(tests) - 1} others of {first.table}"
        raise BuildError(f"data test {names} cannot run: {error}", "fix the test in the model's .yml") from error
    seconds = (time.perf_counter() - begin) / len(tests)
    for planned, failed in zip(tests, failures, strict=True):
        yield TestResult(planned.name, planned.table, planned.column, planned.severity, int(failed), seconds)


def refuse_failures(staging: Staging, plan: Plan, results: list[TestResult], increment: Increment | None) -> None:
    failed = {result.name: result for result in results if result.status == "fail"}
    if not failed:
        return
    names = ", ".join(f"{result.name} ({result.failures} rows)" for result in list(failed.values())[:5])
    broken = [test for test in plan.tests if test.name in failed][:MOST_BLAMED]
    rows = {
        blame(staging, plan, test, increment.narrowed(test, test.sql) if increment else test.sql) for test in broken
    } - {None}
    culprits = "".join(f"; {row}" for row in sorted(map(str, rows)))
    source = min((row.source for row in rows if row), default="PATH")
    raise BuildError(
        f"{len(failed)} of {len(results)} data tests failed: {names}{culprits}",
        f"readers still see the last good build; see all with: gpulake tests; take the file back with: gpulake land"
        f" --undo {source}, or leave it out with: gpulake build --without {source}",
    )


def _need_rows(staging: Staging) -> None:
    row = staging.connection.execute("SELECT count(*) FROM landed.landings WHERE is_live").fetchone()
    if not row or not row[0]:
        raise LakeError("nothing has landed yet", "land something first: gpulake land PATH...")


def _hold_contracts(staging: Staging, models: Sequence[PlannedModel]) -> None:
    """In one query: one for each model takes longer than a small model."""
    rows = staging.connection.execute(
        "SELECT table_name, column_name, lower(data_type) FROM duckdb_columns()"
        " WHERE database_name = 'lake' AND schema_name = 'main' ORDER BY table_name, column_index"
    ).fetchall()
    built: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in rows:
        built.setdefault(table, []).append((column, kind))
    for model in models:
        contract = [(column.name, column.type) for column in model.columns]
        if built[model.name] != contract:
            wrong = sorted(set(built[model.name]) ^ set(contract))
            raise BuildError(f"model {model.name} breaks its contract: {wrong}", "make its .sql and its .yml agree")
