"""What somebody sees who may see the rows of some groups alone: theirs, nobody's, and never those of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gpulake.core.config import Config
from gpulake.lake import Lake, LakeReader
from gpulake.lake.limits import rule
from gpulake.lake.snapshots import Snapshots

IDS = {"job_id", "user_id", "group_id", "account_id", "owner_id", "idle_owner_id"}
KEYS = {"job_key", "worker_key", "task_key", "instance_key"}
LONG_ID = re.compile(r"synth-[0-9a-f]{12,}")  # of the generated trace, wherever a text has one
# Whole tables that everybody sees, since they name nobody. A new table stands here only after somebody thought of it.
WHOLE = {
    *("build_info", "build_inputs", "runs", "table_builds", "test_results"),
    *("maintenance_windows", "maintenance_window_events"),
    *("gold_cluster_coverage_daily", "gold_cluster_util_daily", "gold_cluster_util_daily_reference"),
    *("gold_cluster_util_daily_scored", "gold_cluster_util_hourly", "gold_demand_hourly", "gold_energy_daily"),
    *("gold_failures_daily", "gold_goodput_daily", "gold_gpu_errors_daily", "gold_hot_gpus_daily"),
    *("gold_idle_gpus_daily", "gold_jobs_daily", "gold_ledger_buckets", "gold_ledger_hourly", "gold_lemon_machines"),
    *("gold_machine_hours", "gold_queue_waits", "gold_throttled_gpus_daily"),
    *("gold_reservations", "silver_capacity_stretches", "silver_partitions", "silver_reservations"),
    *("silver_capacity", "silver_clusters", "silver_days", "silver_excess_hours", "silver_gpu_hours"),
    *(
        "silver_gpu_models",
        "silver_gpu_samples",
        "silver_gpu_types",
        "silver_machine_states",
        "silver_held_hours",
        "silver_host_samples",
        "silver_hours",
        "silver_link_samples",
    ),
    *("silver_machine_stretches", "silver_machines", "silver_node_events", "silver_nodes", "silver_outages"),
}


@dataclass(frozen=True)
class Others:
    """What no row may name: ids of jobs, users and groups of which none is theirs."""

    ids: frozenset[str]
    keys: frozenset[int]


def others(reader: LakeReader, groups: frozenset[str]) -> Others:
    """By Python, from the jobs themselves."""
    jobs = reader.query("SELECT * FROM silver_jobs").to_pylist()
    columns = ("job_id", "user_id", "group_id", "account_id")
    theirs = [job for job in jobs if groups & {job["group_id"], job["account_id"], job["user_id"]}]
    own, own_keys = {job[column] for job in theirs for column in columns}, {job["job_key"] for job in theirs}
    foreign = [job for job in jobs if job["job_key"] not in own_keys]
    keys = {job["job_key"] for job in foreign}
    for table, key in (
        ("silver_instances", "worker_key"),
        ("silver_instances", "instance_key"),
        ("silver_tasks", "task_key"),
    ):
        keys |= {
            row[key]
            for row in reader.query(f"SELECT job_key, {key} FROM {table}").to_pylist()
            if row["job_key"] in keys
        }
    ids = {
        str(job[column]) for job in foreign for column in columns if job[column] is not None and job[column] not in own
    }
    return Others(frozenset(ids), frozenset(keys - {None}))


def leaks(row: dict[str, Any], foreign: Others) -> Iterator[tuple[str, Any]]:
    for column, value in row.items():
        if column in KEYS and value in foreign.keys:
            yield column, value
        if column in IDS | {"subject"} and value in foreign.ids:
            yield column, value
        if isinstance(value, str) and foreign.ids.intersection(LONG_ID.findall(value)):
            yield column, value


@pytest.fixture(scope="module")
def snapshots(rich: Config) -> Iterator[Snapshots]:
    found = Snapshots(Lake(rich))
    yield found
    found.close()


@pytest.fixture(scope="module")
def largest_user(snapshots: Snapshots) -> str:
    with snapshots.reading() as reader:
        query = (
            "SELECT user_id FROM silver_jobs WHERE cluster_id = 'synth' GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1"
        )
        return str(reader.query(query).to_pylist()[0]["user_id"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "whose", ["nobody", "a name that is not there", "ann", "math", "a user of the trace", "a group"]
)
def test_no_row_of_any_table_names_a_job_or_a_user_of_others(
    snapshots: Snapshots, largest_user: str, whose: str
) -> None:
    with snapshots.reading() as reader:
        query = f"SELECT max(group_id) AS g FROM silver_jobs WHERE user_id = '{largest_user}'"
        group = str(reader.query(query).to_pylist()[0]["g"])
        words = {"nobody": [], "a user of the trace": [largest_user], "a group": [group]}
        groups = frozenset(words.get(whose, [whose]))
        foreign = others(reader, groups)
    found = {}
    with snapshots.reading(groups) as reader:
        for table in sorted(snapshots.tables()):
            rows = reader.query(f"SELECT * FROM {table}").to_pylist()
            found[table] = [leak for row in rows for leak in leaks(row, foreign)][:3]
    assert {table: reported for table, reported in found.items() if reported} == {}


def test_rows_of_their_own_are_all_there(snapshots: Snapshots, largest_user: str) -> None:
    own = ("silver_jobs", "gold_job_efficiency_daily", "gold_user_gpu_usage_daily")
    with snapshots.reading() as reader:
        expected = {
            table: reader.query(f"SELECT * FROM {table} WHERE user_id = '{largest_user}' ORDER BY ALL").to_pylist()
            for table in own
        }
    with snapshots.reading(frozenset({largest_user})) as reader:
        found = {table: reader.query(f"SELECT * FROM {table} ORDER BY ALL").to_pylist() for table in own}
    assert found == expected
    assert all(expected.values())


def test_an_account_shows_its_jobs_their_telemetry_diagnoses_and_incidents(snapshots: Snapshots) -> None:
    tables = ("silver_jobs", "silver_tasks", "silver_process_samples", "gold_job_energy", "diagnoses", "incidents")
    with snapshots.reading() as reader:
        jobs = {row["job_id"] for row in reader.query("FROM silver_jobs WHERE account_id = 'math'").to_pylist()}
        every = reader.query("FROM diagnoses").to_pylist()
    with snapshots.reading(frozenset({"math"})) as reader:
        found = {table: reader.query(f"FROM {table}").to_pylist() for table in tables}
    assert {row["job_id"] for row in found["silver_jobs"]} == jobs
    assert len(found["diagnoses"]) == len([row for row in every if row["job_id"] in jobs]) > 0
    assert {row["job_id"] for row in found["incidents"] if row["job_id"]} <= jobs
    assert all(found.values())
    assert {row["similar"] for row in found["diagnoses"]} == {None}
    assert {row["members"] for row in found["incidents"]} == {None}


def test_what_names_nobody_is_for_everybody(snapshots: Snapshots) -> None:
    def counts(groups: frozenset[str] | None) -> dict[str, int]:
        with snapshots.reading(groups) as reader:
            tables = sorted(WHOLE & snapshots.tables())
            return {table: reader.query(f"SELECT count(*) AS n FROM {table}").to_pylist()[0]["n"] for table in tables}

    assert counts(frozenset()) == counts(None)


def test_every_table_of_which_all_is_shown_is_known(snapshots: Snapshots) -> None:
    with snapshots.reading() as reader:
        query = "SELECT table_name AS t, list(column_name) AS c FROM duckdb_columns() WHERE NOT internal GROUP BY ALL"
        columns = {row["t"]: row["c"] for row in reader.query(query).to_pylist()}
    whole = {table for table in snapshots.tables() if rule("own", table, columns[table]) == "true"}
    assert whole == WHOLE & snapshots.tables()


def test_what_landed_and_what_did_not_parse_is_for_those_without_limits(snapshots: Snapshots) -> None:
    with snapshots.reading(frozenset({"math"})) as reader:
        for table in snapshots.tables():
            if table.startswith("bronze_") or table in ("quarantine", "landings"):
                assert reader.query(f"FROM {table}").num_rows == 0, table


def test_a_limited_reader_finds_no_table_beside_the_views(snapshots: Snapshots) -> None:
    with snapshots.reading(frozenset()) as reader:
        query = "SELECT current_setting('search_path') AS path"
        assert re.fullmatch(r"own_\d+\.main", reader.query(query).to_pylist()[0]["path"])


@pytest.mark.slow
def test_a_group_is_data_and_not_sql(snapshots: Snapshots) -> None:
    for group in ("x') OR true --", "'; DROP TABLE x; --", "\\", "%", "", '"', "ann' OR 'a'='a"):
        with snapshots.reading(frozenset({group})) as reader:
            assert reader.query("FROM silver_jobs").num_rows == 0, group


def test_who_has_no_groups_sees_all_rows_beside_who_has(snapshots: Snapshots) -> None:
    with snapshots.reading(frozenset({"ann"})) as limited, snapshots.reading() as free:
        few, all_of_them = limited.query("FROM silver_jobs").num_rows, free.query("FROM silver_jobs").num_rows
    assert 0 < few < all_of_them


@pytest.mark.slow
def test_many_sets_of_groups_do_not_pile_up(rich: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulake.lake.snapshots.MOST_CATALOGUES", 3)
    found = Snapshots(Lake(rich))
    for number in range(5):
        with found.reading(frozenset({f"group {number}"})) as reader:
            assert reader.query("FROM silver_jobs").num_rows == 0
    with found.reading() as reader:
        own = "SELECT count(*) AS n FROM duckdb_databases() WHERE database_name LIKE 'own%'"
        assert reader.query(own).to_pylist()[0]["n"] == 2
    found.close()


def test_a_lake_without_a_build_limits_too(lake: Lake) -> None:
    found = Snapshots(lake)
    with found.reading(frozenset({"ann"})) as reader:
        assert reader.query("FROM bronze_slurm_jobs").num_rows == 0
        assert reader.query("FROM incidents").num_rows == 0
    found.close()
