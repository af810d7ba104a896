"""The command line as its user meets it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from examples import each
from gpulake.cli import root
from gpulake.cli._verbs import Verbs
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError

ROOT = Path(__file__).resolve().parents[2]


def gpulake(*arguments: str) -> Result:
    return CliRunner().invoke(root, list(arguments))


def in_a_process(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from gpulake.cli import main; main()", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


def verbs(group: click.Group = root, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name)


@each("verb", list(verbs()), name=" ".join)
def test_every_command_has_help_with_an_example_and_is_documented(verb: tuple[str, ...]) -> None:
    answer = gpulake(*verb, "--help")
    assert answer.exit_code == 0
    assert f"gpulake {' '.join(verb)}" in answer.output.split("Options:")[0].replace("root ", "gpulake ")
    assert "Example" in answer.output
    assert f"## gpulake {' '.join(verb)}\n" in (ROOT / "docs" / "cli.md").read_text()


@each("verb", list(verbs()), name=" ".join)
def test_every_command_exits_2_on_a_bad_option(verb: tuple[str, ...]) -> None:
    assert gpulake(*verb, "--no-such-option").exit_code == 2


def test_a_mistyped_command_gets_the_nearest_one() -> None:
    answer = in_a_process("refrsh")
    assert answer.returncode == 2
    assert "no command named 'refrsh'; did you mean 'refresh'?" in answer.stderr


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from click.testing import CliRunner; from gpulake.cli import root;"
        "assert CliRunner().invoke(root, ['--help']).exit_code == 0;"
        "heavy = {'duckdb', 'deltalake', 'pyarrow', 'numpy', 'sklearn', 'dbt', 'prefect', 'rich', 'jinja2'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_help_lists_each_command_as_the_command_describes_itself() -> None:
    context = click.Context(root, terminal_width=100)
    imported, read = (context.make_formatter() for _ in range(2))
    Verbs.format_commands(root, context, imported)
    root.format_commands(context, read)
    assert read.getvalue() == imported.getvalue()


@pytest.mark.slow
def test_a_query_needs_neither_pandas_nor_scikit_learn(shared_lake: Config) -> None:
    query = [
        "sql",
        "SELECT timestamptz '2026-01-02 03:04:05+00' AS a_time_with_a_zone",
        "--lake",
        str(shared_lake.lake),
    ]
    program = (
        f"import sys; from gpulake.cli import main; sys.argv[1:] = {query!r}\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'numpy', 'pandas', 'sklearn', 'dbt'} & set(sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert answer.stdout == "a_time_with_a_zone\n2026-01-02 03:04:05+00:00\n"


def test_an_error_is_two_lines_on_stderr_and_a_code(tmp_path: Path) -> None:
    answer = in_a_process("tables", "--lake", str(tmp_path / "none"))
    assert answer.returncode == 4
    assert answer.stdout == ""
    assert answer.stderr == (
        f"error: no lake at {tmp_path / 'none'}\nhint: create one with: gpulake demo, or: gpulake refresh PATH...\n"
    )


def query(lake: Config, *arguments: str) -> Result:
    return gpulake("sql", *arguments, "--lake", str(lake.lake))


QUERY = "SELECT machine_id, gpus FROM silver_machines ORDER BY machine_id"


def test_sql_answers_in_every_format(shared_lake: Config, tmp_path: Path) -> None:
    rows = json.loads(query(shared_lake, QUERY, "--format", "json").output)
    assert rows
    assert list(rows[0]) == ["machine_id", "gpus"]
    text = query(shared_lake, QUERY, "--format", "csv").output
    assert [dict(row) for row in csv.DictReader(io.StringIO(text))] == [
        {name: str(value) for name, value in row.items()} for row in rows
    ]
    out = tmp_path / "rows.parquet"
    assert query(shared_lake, QUERY, "--format", "parquet", "--out", str(out)).exit_code == 0
    assert pq.read_table(out).to_pylist() == rows
    table = query(shared_lake, QUERY, "--format", "table").output
    assert all(row["machine_id"] in table for row in rows)


@pytest.mark.parametrize("table", ["bronze_job_events", "silver_jobs", "gold_jobs_daily", "runs", "landings"])
def test_sql_knows_every_layer_by_its_name(shared_lake: Config, table: str) -> None:
    rows = json.loads(query(shared_lake, f"SELECT count(*) AS n FROM {table}", "--format", "json").output)
    assert rows[0]["n"] > 0


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE silver_jobs",
        "INSERT INTO silver_jobs SELECT * FROM silver_jobs",
        "COPY (SELECT 1) TO 'stolen.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'stolen.csv'",
        "EXPLAIN (ANALYZE /*) SELECT 1 --*/ ) COPY (SELECT 1) TO 'stolen.csv'",
        "ATTACH 'other.duckdb'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "FROM read_text('/etc/hostname')",
        "FROM read_csv('https://example.org/x.csv')",
        "SELECT * FROM nowhere",
        "SELEC 1",
    ],
)
def test_sql_only_reads_the_lake(shared_lake: Config, statement: str) -> None:
    answer = CliRunner().invoke(root, ["sql", statement, "--lake", str(shared_lake.lake)])
    assert isinstance(answer.exception, GpulakeError)
    assert answer.exception.exit_code == 2
    assert answer.exception.hint


def test_sql_keeps_columns_of_the_same_name_apart(shared_lake: Config) -> None:
    twice = "SELECT 1 AS a, 2 AS a, 3 AS b"
    assert json.loads(query(shared_lake, twice, "--format", "json").output) == [{"a": 1, "a_2": 2, "b": 3}]
    assert query(shared_lake, twice, "--format", "csv").output == "a,a,b\n1,2,3\n"
    assert query(shared_lake, twice, "--format", "table").exit_code == 0


def test_sql_writes_valid_json_for_what_json_does_not_know(shared_lake: Config) -> None:
    odd = "SELECT 'nan'::DOUBLE AS n, 'inf'::DOUBLE AS i, '\\xAB'::BLOB AS b, DATE '2020-01-02' AS d"
    answer = query(shared_lake, odd, "--format", "json").output
    assert json.loads(answer) == [{"n": None, "i": None, "b": "ab", "d": "2020-01-02"}]


def test_sql_says_when_it_cannot_write(shared_lake: Config, tmp_path: Path) -> None:
    answer = query(shared_lake, "SELECT 1", "--out", str(tmp_path / "no" / "x.csv"))
    assert isinstance(answer.exception, GpulakeError)


@pytest.mark.slow
def test_a_partial_build_says_which_tables_are_older(built_lake: Config) -> None:
    lake = ["--lake", str(built_lake.lake)]
    assert gpulake("build", "--select", "gold_jobs_daily", "--force", *lake).exit_code == 0
    listed = {row["name"]: row for row in json.loads(gpulake("tables", "--json", *lake).output)}
    assert listed["gold_jobs_daily"]["fresh_at"] > listed["gold_user_gpu_usage_daily"]["fresh_at"]


@pytest.mark.slow
def test_a_report_needs_a_whole_build(config: Config, trace: tuple[Path, object]) -> None:
    lake = ["--lake", str(config.lake)]
    gpulake("refresh", str(trace[0]), "--select", "silver_jobs", *lake)
    answer = gpulake("report", "overview", *lake)
    assert isinstance(answer.exception, GpulakeError)
    assert (answer.exception.exit_code, answer.exception.hint) == (4, "run: gpulake build")


@pytest.mark.slow
def test_refresh_names_files_that_nobody_recognises(config: Config, trace: tuple[Path, object], tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "notes.csv").write_text("hello\n")
    (tmp_path / "raw" / "pai_job_table.csv").write_bytes((trace[0] / "pai_job_table.csv").read_bytes())
    answer = gpulake("refresh", str(tmp_path / "raw"), "--json", "--lake", str(config.lake))
    assert json.loads(answer.output)["unknown"] == [str(tmp_path / "raw" / "notes.csv")]


def test_tables_lists_every_table_with_rows_and_grain(shared_lake: Config) -> None:
    listed = {
        row["name"]: row for row in json.loads(gpulake("tables", "--json", "--lake", str(shared_lake.lake)).output)
    }
    assert listed["silver_jobs"]["rows"] == listed["bronze_job_events"]["rows"] == 1000
    assert listed["silver_jobs"]["fresh_at"]
    assert {row["layer"] for row in listed.values()} == {"bronze", "silver", "gold", "journal"}
    assert all(row["grain"] and row["columns"] for row in listed.values())
    one = gpulake("tables", "silver_tasks", "--lake", str(shared_lake.lake)).output
    assert "requested_memory_bytes" in one
    with pytest.raises(GpulakeError, match="no table named 'silver_task'"):
        CliRunner().invoke(root, ["tables", "silver_task", "--lake", str(shared_lake.lake)], catch_exceptions=False)


def test_tests_shows_what_the_build_was_tested_for(shared_lake: Config) -> None:
    answer = json.loads(gpulake("tests", "--json", "--lake", str(shared_lake.lake)).output)
    assert answer["counts"]["fail"] == 0
    assert answer["counts"]["pass"] > 80
    assert {"name", "table", "status", "failures"} <= set(answer["results"][0])


def test_tests_fails_when_a_test_failed(built_lake: Config) -> None:
    path = built_lake.lake / "tests.jsonl"
    first, *others = path.read_text().splitlines()
    broken = {**json.loads(first), "status": "fail", "failures": 3}
    path.write_text("\n".join([json.dumps(broken), *others, ""]))
    answer = gpulake("tests", "--lake", str(built_lake.lake))
    assert answer.exit_code == 1
    assert broken["name"] in answer.output


@pytest.mark.slow
def test_doctor_is_content_with_a_sound_lake_and_not_with_a_broken_one(built_lake: Config) -> None:
    sound = json.loads(gpulake("doctor", "--json", "--lake", str(built_lake.lake)).output)
    assert {check["name"]: check["status"] for check in sound if check["status"] != "ok"} == {}
    next((built_lake.lake / "bronze" / "bronze_job_events").glob("*.parquet")).unlink()
    broken = gpulake("doctor", "--json", "--lake", str(built_lake.lake))
    assert broken.exit_code == 1
    assert {check["name"] for check in json.loads(broken.output) if check["status"] == "fail"} >= {"bronze"}


@pytest.mark.slow
def test_a_damaged_log_is_said_to_be_so(built_lake: Config) -> None:
    log = built_lake.lake / "bronze" / "bronze_job_events" / "_delta_log" / "00000000000000000000.json"
    log.write_text("garbage\n")
    broken = gpulake("doctor", "--json", "--lake", str(built_lake.lake))
    assert broken.exit_code == 1
    assert "bronze" in {check["name"] for check in json.loads(broken.output) if check["status"] == "fail"}
    assert query(built_lake, "FROM silver_jobs LIMIT 1").exit_code == 0
    answer = query(built_lake, "FROM bronze_job_events")
    assert isinstance(answer.exception, GpulakeError)
    assert answer.exception.exit_code == 4


@pytest.mark.slow
def test_land_and_build_say_what_they_did(trace: tuple[Path, object], config: Config) -> None:
    lake = ["--lake", str(config.lake)]
    landed = json.loads(gpulake("land", str(trace[0]), "--json", *lake).output)
    assert len(landed["landings"]) == 8
    assert gpulake("land", str(trace[0]), *lake).output.count("had landed") == 8 + 1  # and their number
    built = json.loads(gpulake("build", "--json", *lake).output)
    assert built["is_new"] is True
    assert built["findings"]
    assert "Nothing has changed" in CliRunner().invoke(root, ["build", *lake]).stderr
    page = config.lake / "report.html"
    assert gpulake("report", "overview", *lake).output.strip() == str(page)
    assert page.is_file()


@pytest.mark.slow
def test_demo_goes_from_nothing_to_findings_first(tmp_path: Path) -> None:
    answer = in_a_process("demo", "--trace", "pai", "--jobs", "2000", "--out", str(tmp_path / "demo"), cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    first, *lines = answer.stdout.splitlines()
    assert first == "A generated cluster (synth), not a real one."
    assert lines[0] == "What was found"
    assert lines[1].startswith("  • ")
    assert (tmp_path / "demo" / "report.html").is_file()
    assert (tmp_path / "demo" / "lake" / "builds" / "CURRENT").is_file()
    assert f" tables --lake {tmp_path / 'demo' / 'lake'}" in answer.stdout
    assert answer.stderr == ""


@pytest.mark.slow
def test_a_demo_again_replaces_the_last_one_and_nothing_else(tmp_path: Path) -> None:
    demo = ["demo", "--out", str(tmp_path / "demo"), "--until"]
    gpulake(*demo, "2026-03-02T09:00")
    again = gpulake(*demo, "2026-03-03T09:00").output
    assert again.startswith("A generated site (synth-site), not a real one.\nWhat was found\n")
    assert "from 2026-02-17 09:00 to 2026-03-03" in again
    assert "\nWhy jobs failed\n" in again
    (tmp_path / "mine" / "lake").mkdir(parents=True)
    refused = CliRunner().invoke(root, ["demo", "--out", str(tmp_path / "mine")])
    assert str(refused.exception) == f"{tmp_path / 'mine' / 'lake'} is not of a demo"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    assert "_GPULAKE_COMPLETE" in gpulake("completion", shell).output
