"""Rows of the product's tables beside what the oracle says of them: every row, every column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from gpulake.flow import Flow
from gpulake.model.build import refuse_failures, test
from gpulake.model.plan import shipped_plan
from oracle.facts import Facts
from oracle.outages import POOL, place_of
from repeating import modelling

Row = dict[str, object]
Rows = Mapping[tuple[object, ...], Row]
# Keys that are hashes, and texts that explain.
NOT_COMPARED = {"cluster_id", "job_key", "task_key", "instance_key", "machine_key", "meaning", "rests_on"}
NAMES = ("silver_jobs", "silver_instances", "silver_machines")  # where keys have names


def plain(value: object) -> object:
    return int(value.timestamp()) if isinstance(value, datetime) else value


def is_same(one: object, other: object) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            return False
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-7)
    return one == other


class Product:
    """The product's rows of one cluster, by table, with ids of jobs and names of machines by its keys.

    A machine is known by the inventory, or through a job that ran on it only.
    """

    def __init__(self, tables: Mapping[str, list[Row]], facts: Facts) -> None:
        self.facts = facts
        self.rows = {name: [row for row in rows if row["cluster_id"] == facts.cluster] for name, rows in tables.items()}
        self.job = {row["job_key"]: row["job_id"] for row in self.rows["silver_jobs"]}
        attempts = self.rows["silver_instances"]
        self.task = {row["task_key"]: row["task_name"] for row in attempts}
        machines: dict[object, set[str | None]] = {}
        for attempt in facts.attempts:
            machines.setdefault(attempt.job.job_id, set()).add(place_of(facts, attempt.machine))
        self.machine: dict[object, object] = {None: None}
        for row in attempts:
            found = machines[self.job[row["job_key"]]]
            # What waits has no machine, though the product may say the pool's.
            if len(found) == 1 and row["machine_key"] is not None and None not in found:
                self.machine[row["machine_key"]] = next(iter(found))
        for row in self.rows["silver_machines"]:
            self.machine.setdefault(row["machine_key"], row["machine_id"])

    def machine_of(self, key: object) -> object:
        return self.machine.get(key, POOL)

    def keyed(self, table: str, *names: str) -> dict[tuple[object, ...], Row]:
        """The table's rows by these columns, less the columns; rows of one key are numbered in the order of values.

        For the key of a machine, job or task stands its name.
        """
        reported: dict[str, Callable[[object], object]] = {
            "machine_key": self.machine_of,
            "job_key": self.job.get,
            "task_key": self.task.get,
        }
        found: dict[tuple[object, ...], list[Row]] = {}
        for row in self.rows[table]:
            rest = {name: plain(value) for name, value in row.items() if name not in {*NOT_COMPARED, *names}}
            found.setdefault(tuple(reported.get(name, plain)(row[name]) for name in names), []).append(rest)
        return numbered(found)


def rows_by_table(flow: Flow, names: Iterable[str]) -> dict[str, list[Row]]:
    """Built with all that they need; every data test of these holds."""
    tables = {*names, *NAMES}
    plan = shipped_plan().select(tuple(tables))
    with modelling(flow, *tables) as staging:
        refuse_failures(staging, plan, test(staging, plan, lambda *_: None, None), None)
        return {name: staging.read(f"SELECT * FROM {name}").to_pylist() for name in tables}


def numbered(groups: Mapping[tuple[object, ...], list[Row]]) -> dict[tuple[object, ...], Row]:
    return {
        (*key, number) if number else key: row
        for key, rows in groups.items()
        for number, row in enumerate(sorted(rows, key=lambda row: str(sorted(row.items(), key=str))))
    }


def differences(facts: Facts, table: str, got: Rows, expected: Rows) -> list[str]:
    found = []
    for key in [*expected, *(key for key in got if key not in expected)]:
        name = f"seed {facts.seed}, {facts.cluster}, {table}, {key}"
        if key not in got:
            found.append(f"{name}: the product has no such row; the oracle says {_short(expected[key])}")
        elif key not in expected:
            found.append(f"{name}: the oracle has no such row; the product says {_short(got[key])}")
        else:
            for column in [*got[key], *(column for column in expected[key] if column not in got[key])]:
                if column not in expected[key]:
                    found.append(f"{name}, {column}: the oracle does not know this column")
                elif column not in got[key]:
                    found.append(f"{name}, {column}: the product does not have this column")
                elif not is_same(got[key][column], expected[key][column]):
                    theirs, ours = got[key][column], expected[key][column]
                    found.append(f"{name}, {column}: product {theirs!r}, oracle {ours!r}")
    return found


def _short(row: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items() if value not in (0, 0.0, None))


def hours_of(amounts: Mapping[str, object], names: Iterable[str]) -> Row:
    return {f"{name}_gpu_hours": amounts.get(name, 0.0) for name in names}
