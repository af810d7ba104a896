"""Builds: whole or not at all, tested before they are seen, the same from dbt and from the plan."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest

from conftest import count_of, rows_of
from gpulake.core.config import Cluster, Config, GpuType
from gpulake.core.errors import BuildError, LakeError, UsageError
from gpulake.core.gpu_models import gpu_models
from gpulake.core.ledger import BUCKETS, HELD, LOST
from gpulake.core.progress import silent
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.lake import Lake, Staging
from gpulake.lake.engine import surrogate_key
from gpulake.model import build
from gpulake.model import plan as plans
from gpulake.model.build import test as data_tests
from gpulake.model.build import write_settings
from gpulake.model.plan import Plan, from_files, shipped_plan, to_files


def with_model(plan: Plan, name: str, sql: str) -> Plan:
    models = tuple(replace(model, sql=sql) if model.name == name else model for model in plan.models)
    return replace(plan, models=models)


@pytest.fixture
def change_plan(monkeypatch: pytest.MonkeyPatch) -> object:
    def change(plan: Plan) -> None:
        monkeypatch.setattr(plans, "shipped_plan", lambda: plan)

    return change


def build_names(config: Config) -> list[str]:
    return sorted(path.name for path in (config.lake / "builds").glob("*.duckdb"))


def test_a_plan_survives_being_written_and_read() -> None:
    assert from_files(to_files(shipped_plan()).__getitem__) == shipped_plan()


def test_macros_say_what_python_says_of_keys_and_buckets() -> None:
    macros = files("gpulake.model").joinpath("project/macros")
    assert surrogate_key("{{ columns | join(', ') }}") in macros.joinpath("engine.sql").read_text()
    lists = re.findall(r"macro (\w*buckets)\(\) %}(.*?){% endmacro", macros.joinpath("ledger.sql").read_text())
    named = {name: set(re.findall(r"'(\w+)'", body)) for name, body in lists}
    held = named["held_buckets"] | named["lost_buckets"]
    assert (named["lost_buckets"], held, held | named["buckets"]) == (set(LOST), set(HELD), set(BUCKETS))


def test_a_selection_brings_what_it_needs_in_an_order_that_works() -> None:
    by_name = {model.name: model for model in shipped_plan().models}
    without_samples = by_name["silver_nodes"].empty_without[0]
    names = [model.name for model in shipped_plan().select(["gold_cluster_util_daily"], without_samples).models]
    assert sorted(names) == [
        "gold_cluster_coverage_daily",
        "gold_cluster_util_daily",
        "silver_gpu_hours",
        "silver_gpu_timeseries",
        "silver_host_samples",
        "silver_machine_stretches",
        "silver_machines",
        "silver_nodes",
    ]
    assert names.index("silver_machines") < names.index("silver_gpu_timeseries")
    assert names.index("silver_gpu_timeseries") < names.index("silver_machine_stretches")
    assert names[-1] == "gold_cluster_util_daily"
    with_samples = {model.name for model in shipped_plan().select(["gold_cluster_util_daily"]).models}
    assert with_samples - set(names) >= {"silver_gpu_samples", "silver_instances"}


def test_an_unknown_table_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="no model named 'silver_job'") as raised:
        shipped_plan().select(["silver_job"])
    assert raised.value.hint == "did you mean 'silver_jobs'?"


def test_every_model_says_its_grain_and_has_a_tested_key() -> None:
    tested = {test.table for test in shipped_plan().tests if test.name.startswith("unique_")}
    keyed = tested | {test.table for test in shipped_plan().tests if "group by" in test.sql}
    for model in shipped_plan().models:
        assert model.description.startswith("One row per "), model.name
        assert model.name in keyed, model.name
        assert all(column.description for column in model.columns), model.name


@pytest.mark.slow
def test_a_build_that_breaks_a_contract_is_not_seen(built_lake: Config, change_plan: object) -> None:
    before = build_names(built_lake)
    change_plan(with_model(shipped_plan(), "gold_jobs_daily", "SELECT 1 AS dt"))  # type: ignore[operator]
    with pytest.raises(BuildError, match="model gold_jobs_daily breaks its contract"):
        Flow(built_lake).build()
    assert build_names(built_lake) == before
    assert count_of(Lake(built_lake), "gold_jobs_daily") > 1


@pytest.mark.slow
def test_a_build_whose_data_tests_fail_is_not_seen_but_its_results_are(built_lake: Config, change_plan: object) -> None:
    before = build_names(built_lake)
    sql = next(model.sql for model in shipped_plan().models if model.name == "silver_machines")
    twice = f"SELECT * FROM ({sql}) UNION ALL SELECT * FROM ({sql})"
    change_plan(with_model(shipped_plan(), "silver_machines", twice))  # type: ignore[operator]
    with pytest.raises(BuildError, match=r"\d+ of \d+ data tests failed: a_machine_of_a_cluster_has_one_row") as raised:
        Flow(built_lake).build()
    assert "gpulake tests" in raised.value.hint
    assert build_names(built_lake) == before
    failed = rows_of(Lake(built_lake), "SELECT name FROM test_results WHERE status = 'fail'")
    assert {"name": "unique_silver_machines_machine_key"} in failed


WRONG = {"varchar": "'nonsense'", "boolean": "NULL", "date": "NULL", "timestamp with time zone": "NULL"}


@pytest.mark.slow
def test_tests_that_are_asked_at_once_find_what_each_finds_alone(shared_lake: Config, tmp_path: Path) -> None:
    lake = Lake(shared_lake)
    current = lake.builds.current()
    assert current is not None
    copy = Path(shutil.copy(current, tmp_path / "damaged.duckdb"))
    plan = shipped_plan()
    tests = tuple(test for test in plan.tests if test.condition)
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{copy}' AS lake")
        for model in plan.models:
            # A row of nothing, and one of values that no column should have.
            wrong = ", ".join(WRONG.get(column.type, "-1") for column in model.columns)
            nothing = ", ".join("NULL" for _ in model.columns)
            connection.execute(f"INSERT INTO lake.main.{model.name} VALUES ({nothing}), ({wrong})")
        found = data_tests(Staging(lake, "damaged", copy, connection), replace(plan, tests=tests), silent, None)
        alone = [connection.execute(f"SELECT count(*) FROM ({test.sql})").fetchall()[0][0] for test in tests]
    assert [(result.name, result.failures) for result in found] == list(
        zip((test.name for test in tests), alone, strict=True)
    )
    assert sum(failures > 0 for failures in alone) > 600


def test_keys_that_are_sorted_repeat_where_they_repeat_when_grouped(
    shared_lake: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = Lake(shared_lake).builds.current()
    assert current is not None
    copy = Path(shutil.copy(current, tmp_path / "damaged.duckdb"))
    tests = tuple(test for test in shipped_plan().tests if "having count(*) > 1" in test.query)
    assert all(test.key_hashes for test in tests)
    plan = replace(shipped_plan(), tests=tests)

    def failures(staging: Staging, least: int) -> list[int]:
        monkeypatch.setattr(build, "MANY_KEYS", least)
        return [result.failures for result in data_tests(staging, plan, silent, None)]

    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{copy}' AS lake")
        staging = Staging(Lake(shared_lake), "damaged", copy, connection)
        assert failures(staging, 0) == [0] * len(tests)
        repeated = [model.name for model in plan.models if model.name.startswith("silver_")]
        for table in repeated:
            connection.execute(f"INSERT INTO lake.main.{table} FROM (FROM lake.main.{table} LIMIT 3)")
        found = failures(staging, 0)
        assert found == failures(staging, sys.maxsize)
    assert sum(count > 0 for count in found) > 10


@pytest.mark.slow
def test_where_nothing_landed_every_model_is_empty_and_no_test_fails(tmp_path: Path) -> None:
    """A build makes such tables from their contracts alone and skips their tests."""
    known = {"a": Cluster(gpus=8, gpu_type="A100")}
    config = Config(lake=tmp_path / "lake", threads=1, clusters=known, gpu_types={"A100": GpuType(price_per_hour=2.0)})
    lake, plan = Lake(config).create(), shipped_plan()
    with lake.writing(), lake.stage("empty") as staging:
        write_settings(staging.connection, config)
        for model in plan.models:
            staging.connection.execute(f'CREATE TABLE "lake"."main"."{model.name}" AS {model.sql}')
        rows = staging.counts()
        failures = {test.name: staging.read(f"FROM ({test.sql})").num_rows for test in plan.tests}
    # The catalogue of GPU models is there without any landing.
    empty = dict.fromkeys(sorted(model.name for model in plan.models), 0)
    assert rows == empty | {"silver_gpu_models": len(gpu_models())}
    assert failures == {test.name: 0 for test in plan.tests}
    assert staging.empty >= set(bronze_tables())


def test_a_model_that_cannot_run_is_named(built_lake: Config, change_plan: object) -> None:
    change_plan(with_model(shipped_plan(), "silver_jobs", "SELECT nothing FROM nowhere"))  # type: ignore[operator]
    with pytest.raises(BuildError, match="model silver_jobs failed"):
        Flow(built_lake).build()


def test_a_lake_without_rows_says_what_to_do(config: Config) -> None:
    Lake(config).create()
    with pytest.raises(LakeError, match="nothing has landed yet"):
        Flow(config).build()


@pytest.mark.slow
def test_building_a_part_keeps_the_rest(built_lake: Config) -> None:
    lake = Lake(built_lake)
    before = rows_of(lake, "FROM gold_user_gpu_usage_daily ORDER BY ALL")
    result = Flow(built_lake).build(["gold_jobs_daily"], is_forced=True)
    assert rows_of(lake, "SELECT build_id FROM build_info") == [{"build_id": result.build_id}]
    assert rows_of(lake, "FROM gold_user_gpu_usage_daily ORDER BY ALL") == before


@pytest.mark.slow
@pytest.mark.parametrize("table", ["findings", "gold_cluster_util_daily_scored", "gold_jobs_daily", "silver_clusters"])
def test_any_table_can_be_built_alone(trace: tuple[Path, object], config: Config, table: str) -> None:
    flow = Flow(config)
    flow.land([trace[0]])
    flow.build([table])
    assert count_of(Lake(config), table) > 0


@pytest.mark.slow
def test_a_reader_keeps_its_build_while_others_are_swapped_in(built_lake: Config) -> None:
    lake = Lake(built_lake)
    with lake.reading() as reader:
        before = reader.query("SELECT build_id FROM build_info").to_pylist()
        for _ in range(3):
            Flow(built_lake).build(["gold_jobs_daily"], is_forced=True)
        assert reader.query("SELECT build_id FROM build_info").to_pylist() == before
        assert reader.query("SELECT count(*) AS n FROM gold_jobs_daily").to_pylist()[0]["n"] > 1
    assert rows_of(lake, "SELECT build_id FROM build_info") != before
    assert len(build_names(built_lake)) == built_lake.keep_builds


def test_a_moved_lake_still_answers(built_lake: Config, tmp_path: Path) -> None:
    shutil.move(built_lake.lake, tmp_path / "elsewhere")
    moved = Lake(replace(built_lake, lake=tmp_path / "elsewhere"))
    assert count_of(moved, "bronze_job_events") == count_of(moved, "silver_jobs") > 0


def test_other_engines_find_gold_as_delta_tables(built_lake: Config) -> None:
    from deltalake import DeltaTable

    table = DeltaTable(str(built_lake.lake / "gold" / "gold_jobs_daily")).to_pyarrow_table()
    expected = rows_of(Lake(built_lake), "FROM gold_jobs_daily ORDER BY dt")
    assert table.sort_by("dt").to_pylist() == expected


@pytest.mark.slow
def test_dbt_itself_builds_the_same_tables_and_its_unit_tests_pass(built_lake: Config) -> None:
    lake = Lake(built_lake)
    tables = [model.name for model in shipped_plan().models]
    before = {table: rows_of(lake, f"FROM {table} ORDER BY ALL") for table in tables}
    Flow(built_lake).build(is_forced=True, is_dbt=True)
    for table in tables:
        after = rows_of(lake, f"FROM {table} ORDER BY ALL")
        assert len(after) == len(before[table]), table
        for row, expected in zip(after, before[table], strict=True):
            assert row == expected or _close(row, expected), table


def _close(row: dict[str, object], expected: dict[str, object]) -> bool:
    return row.keys() == expected.keys() and all(
        value == pytest.approx(expected[name], rel=1e-9) if isinstance(value, float) else value == expected[name]
        for name, value in row.items()
    )
