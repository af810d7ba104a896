"""POST /api/v1/sql: off unless allowed, and then for reading the lake and nothing else."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpulake.core.config import Config
from gpulake.core.serving import Serve, ServeUser
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.lake.sandbox import size
from gpulake.show.web.guard import Guard

SECONDS = 0.5
ALLOWED = Serve(sql=True, sql_seconds=SECONDS, sql_rows=3, sql_memory="100MB")
TOKENS = {"ann-has-this-token": "ann", "bob-has-that-token": "bob"}
URL = "/api/v1/sql"


def client_of(config: Config, serve: Serve, tokens: dict[str, str] | None = None) -> TestClient:
    lake = Lake(replace(config, serve=serve))
    return TestClient(application(lake, Guard(serve, tokens or {})), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def allowed(shared_lake: Config) -> TestClient:
    return client_of(shared_lake, ALLOWED)


def ask(client: TestClient, query: Any, **headers: str) -> tuple[int, Any]:
    response = client.post(URL, json={"query": query}, headers=headers)
    return response.status_code, response.json()


def test_rows_come_by_position_and_no_more_than_allowed(allowed: TestClient) -> None:
    assert ask(allowed, "SELECT 1 AS a, 'x' AS a") == (
        200,
        {
            "columns": [{"name": "a", "type": "integer"}, {"name": "a", "type": "text"}],
            "rows": [[1, "x"]],
            "is_cut": False,
        },
    )
    columns = [{"name": "range", "type": "integer"}]
    assert ask(allowed, "FROM range(3)")[1] == {"columns": columns, "rows": [[0], [1], [2]], "is_cut": False}
    assert ask(allowed, "FROM range(4) -- and so on")[1] == {
        "columns": columns,
        "rows": [[0], [1], [2]],
        "is_cut": True,
    }
    assert ask(allowed, "FROM range(0)")[1] == {"columns": columns, "rows": [], "is_cut": False}


def test_it_reads_what_is_published(allowed: TestClient, shared_lake: Config) -> None:
    with Lake(shared_lake).open().reading() as reader:
        expected = reader.query("SELECT count(*) AS n FROM silver_jobs").to_pylist()[0]["n"]
    assert ask(allowed, "SELECT count(*) FROM silver_jobs")[1]["rows"] == [[expected]]


def test_values_are_as_json_has_them(allowed: TestClient) -> None:
    query = """SELECT 'nan'::DOUBLE, 9223372036854775807, DATE '2026-01-02', [1, 2], {'a': 'b'}, true, NULL,
        TIMESTAMPTZ '2026-01-02 03:04:05+00', 1.5::DECIMAL(4, 2), INTERVAL 1 DAY, '\\x00'::BLOB"""
    status, found = ask(allowed, query)
    assert status == 200
    assert found["rows"][0][:9] == [
        None, "9223372036854775807", "2026-01-02", [1, 2], {"a": "b"}, True, None, "2026-01-02T03:04:05+00:00", 1.5
    ]  # fmt: skip


def test_it_is_off_unless_it_is_allowed(shared_lake: Config) -> None:
    status, told = ask(client_of(shared_lake, Serve()), "SELECT 1")
    assert (status, "set sql = true in [serve]" in told["error"]) == (403, True)


def test_who_sees_some_groups_alone_may_not(shared_lake: Config) -> None:
    users = {"bob": ServeUser(groups=("math",))}
    client = client_of(shared_lake, replace(ALLOWED, users=users), TOKENS)
    assert ask(client, "SELECT 1", Authorization="Bearer ann-has-this-token")[0] == 200
    assert ask(client, "SELECT 1", Authorization="Bearer bob-has-that-token")[0] == 403
    assert ask(client, "SELECT 1")[0] == 401


@pytest.mark.parametrize(
    "query",
    [
        "FROM read_csv('/etc/passwd')",
        "FROM '/etc/passwd'",
        "FROM read_text('/proc/self/environ')",
        "FROM read_blob('/etc/passwd')",
        "FROM glob('/*')",
        "FROM sniff_csv('/etc/passwd')",
        "FROM read_parquet('http://127.0.0.1:1/x.parquet')",
        "FROM 's3://bucket/x.csv'",
        "SELECT getenv('HOME')",
        "FROM duckdb_secrets()",
        "ATTACH '/tmp/x.db' AS x",
        "ATTACH ':memory:' AS x",
        "COPY (SELECT 1) TO '/tmp/gpulake-was-here'",
        "COPY silver_jobs TO '/dev/stdout'",
        "EXPORT DATABASE '/tmp/gpulake-was-here'",
        "IMPORT DATABASE '/tmp'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "CALL enable_logging()",
        "CREATE TABLE x AS SELECT 1",
        "CREATE MACRO silver_jobs() AS 1",
        "INSERT INTO silver_jobs SELECT * FROM silver_jobs",
        "DELETE FROM silver_jobs",
        "DROP TABLE silver_jobs",
        "UPDATE silver_jobs SET user_id = 'x'",
        "USE landed",
        "BEGIN",
        "EXPLAIN ANALYZE SELECT 1",
        "SELECT 1; DROP TABLE silver_jobs",
        "SELECT 1; SELECT 2",
        "PREPARE x AS SELECT 1",
        "-- nothing",
        ";",
        "SELECT",
        "SELECT '\x00'",
        "FROM nothing",
    ],
)
def test_nothing_but_the_lake_can_be_read_and_nothing_written(allowed: TestClient, query: str) -> None:
    status, told = ask(allowed, query)
    assert (status, set(told)) == (400, {"error", "hint"}), told
    assert "root:" not in str(told)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM range(1000000000000) a, range(1000000000000) b",
        "SELECT a.range FROM range(100000000) a, range(100000000) b ORDER BY hash(a.range + b.range)",
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
        "SELECT count(*) FROM silver_jobs a, silver_jobs b, silver_jobs c, silver_jobs d WHERE a.job_id > b.job_id",
        "SELECT list(a.range) FROM range(10000000000) a",
    ],
)
def test_a_query_that_asks_too_much_is_ended_and_the_server_goes_on(allowed: TestClient, query: str) -> None:
    begun = time.monotonic()
    status, told = ask(allowed, query)
    assert (status, set(told)) == (400, {"error", "hint"})
    assert time.monotonic() - begun < 20 * SECONDS
    assert allowed.get("/api/v1").status_code == 200
    assert ask(allowed, "SELECT 1")[0] == 200


def test_too_late_is_told_with_the_way_out(allowed: TestClient) -> None:
    _, told = ask(allowed, "SELECT count(*) FROM range(1000000000000) a, range(1000) b")
    assert told == {
        "error": f"the query took more than {SECONDS:g} seconds",
        "hint": "narrow it, or raise sql_seconds in [serve] of gpulake.toml",
    }


def test_a_huge_answer_is_refused(shared_lake: Config) -> None:
    client = client_of(shared_lake, replace(ALLOWED, sql_rows=1_000, sql_seconds=30, sql_memory="500MB"))
    status, told = ask(client, "SELECT repeat('x', 1000000) FROM range(100)")
    assert (status, told["error"][:20], told["hint"]) == (
        400,
        "the answer has 100,0",
        "name fewer columns, or add a LIMIT",
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"{",
        b'{"query": 1}',
        b'{"query": ""}',
        b'{"query": "\\ud800"}',
        b'{"query": "%s"}' % (b"x" * 30_000),
    ],
)
def test_what_is_no_query_is_told(allowed: TestClient, body: bytes) -> None:
    response = allowed.post(URL, content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, set(response.json())) == (422, {"error", "hint"})


def test_sizes_are_bytes() -> None:
    assert [size(words) for words in ("1KB", "1.5 MiB", "2GB", "1TiB")] == [1_000, 1_572_864, 2 * 10**9, 2**40]
