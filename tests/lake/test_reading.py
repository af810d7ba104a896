"""Readers: bounded memory, no traces in the lake, and never in a writer's way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.lake import Lake, views
from gpulake.lake.engine import Connection


@pytest.mark.slow
def test_a_query_larger_than_its_memory_spills_and_answers(shared_lake: Config) -> None:
    small = replace(shared_lake, memory_limit="60MB")
    query = """
    SELECT count(*) AS n, sum(r) AS s
    FROM (SELECT row_number() OVER (ORDER BY hash(a.range, b.range)) AS r FROM range(1500) AS a, range(1500) AS b)
    """
    assert rows_of(Lake(small), query) == [{"n": 2_250_000, "s": 2_250_000 * 2_250_001 // 2}]


def test_a_lake_that_may_only_be_read_can_be_read(built_lake: Config) -> None:
    folders = [built_lake.lake, *(path for path in built_lake.lake.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    before = sorted(built_lake.lake.rglob("*"))
    assert rows_of(Lake(built_lake), "SELECT count(*) AS n FROM bronze_job_events") == [{"n": 1000}]
    assert rows_of(Lake(built_lake), "SELECT count(*) AS n FROM silver_jobs") == [{"n": 1000}]
    assert sorted(built_lake.lake.rglob("*")) == before
    for folder in folders:
        folder.chmod(stat.S_IRWXU)


@pytest.mark.slow
def test_another_process_reads_while_a_build_runs_and_it_builds_while_they_read(built_lake: Config) -> None:
    program = (
        "import sys; from pathlib import Path; from gpulake.core.config import Config; from gpulake.lake import Lake;"
        "lake = Lake(Config(lake=Path(sys.argv[1]), threads=1)).open();\n"
        "with lake.reading() as reader:\n"
        "    print(reader.query('SELECT build_id FROM build_info').to_pylist()[0]['build_id'], flush=True)\n"
        "    sys.stdin.readline()\n"
        "    print(reader.query('SELECT build_id FROM build_info').to_pylist()[0]['build_id'], flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(built_lake.lake)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout
        first = reader.stdout.readline()
        result = Flow(built_lake).build(is_forced=True)
        rest, _ = reader.communicate("go on\n")
    assert rest == first
    assert first.strip() != result.build_id
    assert rows_of(Lake(built_lake), "SELECT build_id FROM build_info") == [{"build_id": result.build_id}]


def test_a_cut_off_line_of_the_journal_costs_only_itself(built_lake: Config) -> None:
    count = rows_of(Lake(built_lake), "SELECT count(*) AS n FROM runs")
    with (built_lake.lake / "runs.jsonl").open("a") as journal:
        journal.write('{"run_id": "x", "st')
    assert rows_of(Lake(built_lake), "SELECT count(*) AS n FROM runs") == count


def test_a_crash_while_the_lake_is_made_does_not_lock_its_owner_out(config: Config, tmp_path: Path) -> None:
    config.lake.mkdir()
    (config.lake / f".gpulake.json.{os.getpid()}").write_text("")
    (tmp_path / "pai_job_table.csv").write_text("j,i,u,Failed,1.0,2.0\n")
    landings = Flow(config).land([tmp_path / "pai_job_table.csv"]).landings
    assert [landing.rows_landed for landing in landings] == [1]


def test_a_build_that_ends_in_free_blocks_is_not_taken_to_be_cut_short(tmp_path: Path) -> None:
    """An increment drops tables of the build that it extends; the engine counts their blocks, written or not."""
    lake = Lake(Config(lake=tmp_path / "lake")).create()
    with lake.writing(), lake.stage("one") as staging:
        for table, rows in (("kept", 1000), ("dropped", 300_000)):
            staging.connection.execute(f"CREATE TABLE lake.main.{table} AS SELECT hash(i) AS h FROM range({rows}) t(i)")
            staging.connection.execute("CHECKPOINT lake")
        staging.connection.execute("DROP TABLE lake.main.dropped")
        staging.publish()
    with lake.reading() as reader:
        assert reader.query("SELECT count(*) AS n FROM kept").to_pylist() == [{"n": 1000}]


def test_a_view_is_made_when_a_query_first_names_it(shared_lake: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make = views._view

    def noted(connection: Connection, view: str, body: str) -> None:
        made.append(view)
        make(connection, view, body)

    monkeypatch.setattr(views, "_view", noted)
    with Lake(shared_lake).open().reading() as reader:
        assert reader.rows("SELECT count(*) AS n FROM silver_jobs") == [{"n": 1000}]
        assert not made
        assert reader.rows("SELECT count(*) AS n FROM Bronze_Job_Events") == [{"n": 1000}]
        assert reader.rows("SELECT count(*) AS n FROM alerts") == [{"n": 0}]
        assert made == ["bronze_job_events", "alert_events", "alerts"]
        query = "SELECT count(*) AS n FROM query_table('bronze_' || 'machine_spec')"
        assert reader.rows(query)[0]["n"] > 0
        assert len(made) == len(set(made)) > len(bronze_tables())


@pytest.mark.parametrize(
    "query",
    [
        "SHOW TABLES",
        "SELECT view_name AS name FROM duckdb_views()",
        "SELECT table_name AS name FROM information_schema.tables",
        "FROM (SHOW ALL TABLES)",
        "SELECT name FROM sqlite_master",
    ],
)
def test_a_query_that_lists_tables_finds_those_that_no_query_has_named(shared_lake: Config, query: str) -> None:
    with Lake(shared_lake).open().reading() as reader:
        assert {row["name"] for row in reader.rows(query)} >= {*bronze_tables(), "alerts", "quarantine"}
