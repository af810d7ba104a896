"""Which tables decide whether a query has rows: derived from the engine's plan of it, when the plan is compiled.

An inner join has no rows if either side has none, a union if no part has any, a left join if its left side has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gpulake.core.tables import bronze_tables
from gpulake.lake.engine import Connection, connect, name
from gpulake.lake.types import engine_types
from gpulake.model.plan import Plan
from gpulake.model.pruning import PREFIX, EmptyWithout, Step, with_steps
from gpulake.model.sources import SETTINGS

# Sets of tables, any one of which decides it.
Sets = frozenset[frozenset[str]]
NEVER: Sets = frozenset()
ALWAYS: Sets = frozenset([frozenset()])
# Operators whose rows come from rows of their only input.
PASSING = ("PROJECTION", "FILTER", "WINDOW", "UNNEST", "ORDER_BY", "STREAMING_LIMIT", "TOP_N")


def with_emptiness(plan: Plan) -> Plan:
    """The plan, with the columns of its steps and the tables without which models and steps have no rows."""
    with without_rows(plan) as connection:
        known = {step.name: step for step in plan.steps}
        steps = tuple(_described(connection, step, known) for step in plan.steps)
        models = tuple(replace(model, empty_without=_empty_without(connection, model.sql)) for model in plan.models)
    return replace(plan, models=models, steps=steps)


@contextmanager
def without_rows(plan: Plan) -> Iterator[Connection]:
    """Every table that models read, without rows, and every step that is described."""
    tables = {f"landed.main.{table.name}": engine_types(table) for table in bronze_tables().values()}
    for setting, (_, declared) in SETTINGS.items():
        tables[f"landed.main.{setting}"] = {column: kind for column, (kind, _) in declared.items()}
    for model in plan.models:
        tables[f"lake.main.{model.name}"] = {column.name: column.type for column in model.columns}
    with connect("1GB", 1, None) as connection:
        connection.execute("ATTACH ':memory:' AS landed; ATTACH ':memory:' AS lake")
        for table, kinds in tables.items():
            columns = ", ".join(f"{name(column)} {kind}" for column, kind in kinds.items())
            connection.execute(f"CREATE TABLE {table} ({columns})")
        for step in plan.steps:
            if step.columns:
                connection.execute(f"CREATE VIEW {PREFIX}{step.name} AS {step.empty_select}")
        # It would find that tables without rows have no rows.
        connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        yield connection


def _described(connection: Connection, step: Step, steps: Mapping[str, Step]) -> Step:
    sql = with_steps(f"with step as (select * from {PREFIX}{step.name}) select * from step", steps)
    rows = connection.execute(f"DESCRIBE {sql}").fetchall()
    columns = {row[0]: str(row[1]).lower() for row in rows}
    return replace(step, columns=columns, empty_without=_empty_without(connection, sql))


def _empty_without(connection: Connection, sql: str) -> EmptyWithout:
    """Settings always have rows."""
    (row,) = connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
    sets = _deciding(json.loads(row[1])[0], {})
    return tuple(sorted(tuple(sorted(tables)) for tables in sets if tables.isdisjoint(SETTINGS)))


def _deciding(node: dict[str, Any], expressions: Mapping[str, Sets]) -> Sets:
    operator, about, inputs = node["name"], node["extra_info"], node["children"]
    if operator == "SEQ_SCAN":
        return frozenset([frozenset([about["Table"].rpartition(".")[2]])])
    if operator == "EMPTY_RESULT":
        return ALWAYS
    if operator == "CTE_SCAN":
        return expressions[about["CTE Index"]]
    if operator == "CTE":
        return _deciding(inputs[1], {**expressions, about["Table Index"]: _deciding(inputs[0], expressions)})
    return _of_inputs(operator, about, [_deciding(one, expressions) for one in inputs])


def _of_inputs(operator: str, about: Mapping[str, Any], found: list[Sets]) -> Sets:
    if operator.endswith("_JOIN"):
        return _of_join(about["Join Type"], *found)
    if operator in PASSING or (operator == "HASH_GROUP_BY" and about["Groups"]):
        return found[0]
    return {"UNION": _all, "CROSS_PRODUCT": _any}.get(operator, lambda _: NEVER)(found)


def _of_join(kind: str, left: Sets, right: Sets) -> Sets:
    if kind in ("INNER", "SEMI", "RIGHT_SEMI"):
        return _any([left, right])
    if kind in ("LEFT", "MARK", "SINGLE", "ANTI"):
        return left
    return {"RIGHT": right, "RIGHT_ANTI": right, "FULL": _all([left, right])}.get(kind, NEVER)


def _any(parts: Iterable[Sets]) -> Sets:
    return _smallest(tables for sets in parts for tables in sets)


def _all(parts: Iterable[Sets]) -> Sets:
    together = ALWAYS
    for sets in parts:
        together = _smallest(one | other for one in together for other in sets)
    return together


def _smallest(sets: Iterable[frozenset[str]]) -> Sets:
    every = frozenset(sets)
    return frozenset(tables for tables in every if not any(other < tables for other in every))
