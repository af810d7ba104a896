"""Which machines died: the SQL of silver_outages on attempts written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from gpulake.core.tables import bronze_tables
from gpulake.lake.engine import create_table
from gpulake.lake.types import ENGINE
from gpulake.model.plan import shipped_plan
from gpulake.model.sources import SETTINGS

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
Row = dict[str, Any]


def attempt(machine: int, hour: int, status: str = "succeeded", job: int = 0) -> Row:
    begin = BEGIN + hour * HOUR
    return {
        "cluster_id": "c",
        "machine_key": machine,
        "job_key": job or 100_000 * machine + hour,
        "status": status,
        "held_from": begin,
        "held_until": begin + timedelta(minutes=50),
        "start_basis": "recorded",
        "end_basis": "recorded",
    }


def fleet(lost: int) -> list[Row]:
    """Four machines at work for 120 hours; two lose so many attempts each in the 100th, and rest from then on."""
    held: list[Row] = []
    for machine in range(4):
        for hour in range(120):
            is_dead = machine < 2 and hour >= 100
            if is_dead and hour > 100:
                continue
            status, places = ("failed", lost) if is_dead else ("succeeded", 4)
            held += [attempt(machine, hour, status, len(held) + place + 1) for place in range(places)]
    return held


def died(held: list[Row], hours: int = 120, recorded: bool = False) -> set[int]:
    """The machines, by what the model says of these attempts."""
    plan = {model.name: model for model in shipped_plan().models}
    outages = plan["silver_outages"]
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; ATTACH ':memory:' AS lake; ATTACH ':memory:' AS landed")
    span = {"observed_from": BEGIN, "observed_until": BEGIN + hours * HOUR, "hour_shift_seconds": 0}
    rows: dict[str, list[Row]] = {
        "silver_holdings": held,
        "silver_clusters": [{"cluster_id": "c", **span}],
        "silver_capacity": [
            {"cluster_id": "c", "machine_key": key, "gpus": 4, "basis": "inventory"} for key in range(4)
        ],
        "bronze_outages": [{"cluster": "c", "machine": "x", "started_at": BEGIN, "ended_at": BEGIN + HOUR}] * recorded,
        "parameters": [{"missed_busy_hours": 1e9}],
    }
    for name in outages.depends_on:
        create_table(
            connection, f"lake.main.{name}", {each.name: each.type for each in plan[name].columns}, rows.get(name, [])
        )
    for name in outages.sources:
        bronze, settings = bronze_tables().get(name), SETTINGS.get(name)
        types = {column.name: ENGINE[column.type] for column in bronze.columns} if bronze else {}
        types |= {column: kind for column, (kind, _) in settings[1].items()} if settings else {}
        create_table(connection, f"landed.main.{name}", types, rows.get(name, []))
    found = connection.execute(f"SELECT machine_key, basis FROM ({outages.sql})").fetchall()
    return {key for key, basis in found if basis == "died"}


def test_machines_that_lose_an_attempt_each_at_one_moment_died_together() -> None:
    assert died(fleet(lost=1)) == {0, 1}


def test_what_a_gang_had_elsewhere_is_interrupted_and_no_sign_of_life() -> None:
    assert died([*fleet(lost=1), attempt(0, 100, "interrupted", 999_999)]) == {0, 1}


def test_one_attempt_that_failed_alone_tells_nothing() -> None:
    held = fleet(lost=1)
    assert died([row for row in held if row["status"] != "failed" or row["machine_key"] == 0]) == set()


def test_a_machine_on_which_one_job_came_through_is_alive() -> None:
    through = [attempt(machine, 100, "succeeded", 900_000 + machine) for machine in (0, 1)]
    assert died([*fleet(lost=4), *through]) == set()


def test_machines_that_rest_with_all_others_did_not_die() -> None:
    assert died([row for row in fleet(lost=4) if row["held_from"] <= BEGIN + 100 * HOUR]) == set()


def test_the_more_often_as_much_is_lost_the_less_a_silence_tells() -> None:
    held = []
    for row in fleet(lost=1):
        hour = (row["held_from"] - BEGIN) // HOUR
        if row["machine_key"] > 1 or hour % 10 > 4:
            held.append(row)
        elif hour % 10 == 0:
            held.append(row | {"status": "failed"})
    assert died([row for row in held if row["held_from"] < BEGIN + 85 * HOUR], hours=85) == set()


def test_machines_that_often_stand_still_for_a_day_did_not_die() -> None:
    assert died([row for row in fleet(lost=4) if (row["held_from"] - BEGIN) // HOUR % 20 == 0]) == set()


def test_an_outage_of_another_machine_says_nothing_of_these() -> None:
    assert died(fleet(lost=4), recorded=True) == {0, 1}
