"""POST /api/v1/sql: off unless allowed, and then for reading the lake and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve, ServeUser
from gpulake.flow.serving import application
from gpulake.lake import Lake
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_it_reads_what_is_published(allowed: TestClient, shared_lake: Config) -> None:
    with Lake(shared_lake).open().reading() as reader:
        expected = reader.query("SELECT count(*) AS n FROM silver_jobs").to_pylist()[0]["n"]
    assert ask(allowed, "SELECT count(*) FROM silver_jobs")[1]["rows"] == [[expected]]


def test_values_are_as_json_has_them(allowed: TestClient) -> None:
    query = """SELECT 'nan'::DOUBLE, 9223372036854775807, DATE '2026-01-02', [1, 2], {'a': 'b'}, true, NULL,
        TIMESTAMPTZ '2026-01-02 03:04:05+00', 1.5::DECIMAL(4, 2), INTERVAL 1 DAY, '\\x00'::BLOB"""
    status, result = ask(allowed, query)
    assert status == 200
    assert result["rows"][0][:9] == [
        None, "9223372036854775807", "2026-01-02", [1, 2], {"a": "b"}, True, None, "2026-01-02T03:04:05+00:00", 1.5
    ]  # fmt: skip


def test_it_is_off_unless_it_is_allowed(shared_lake: Config) -> None:
    status, shown = ask(client_of(shared_lake, Serve()), "SELECT 1")
    assert (status, "set sql = true in [serve]" in shown["error"]) == (403, True)


@pytest.mark.slow
def test_who_sees_some_groups_alone_may_not(shared_lake: Config) -> None:
    users = {"bob": ServeUser(groups=("math",))}
    client = client_of(shared_lake, replace(ALLOWED, users=users), TOKENS)
    assert ask(client, "SELECT 1", Authorization="Bearer ann-has-this-token")[0] == 200
    assert ask(client, "SELECT 1", Authorization="Bearer bob-has-that-token")[0] == 403
    assert ask(client, "SELECT 1")[0] == 401


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("FROM read_csv('/etc/passwd')", "the function read_csv() is not allowed in a query"),
        ("FROM '/etc/passwd'", "no table '/etc/passwd' in the lake"),
        ("FROM pandas_scan(NULL)", "the function pandas_scan() is not allowed in a query"),
        ("SELECT json_structure(repeat('[', 200000))", "the function json_structure() is not allowed in a query"),
        (
            "FROM json_execute_serialized_sql('{}')",
            "the function json_execute_serialized_sql() is not allowed in a query",
        ),
        ("SET memory_limit = '100GB'", "only queries are allowed: the lake is read-only"),
        ("SELECT 1; SELECT 2", "2 statements given"),
    ],
)
def test_what_is_not_allowed_is_named(allowed: TestClient, query: str, refused: str) -> None:
    status, shown = ask(allowed, query)
    assert (status, set(shown), shown["error"]) == (400, {"error", "hint"}, refused)


@pytest.mark.slow
def test_a_query_that_asks_too_much_is_ended_and_the_server_goes_on(allowed: TestClient) -> None:
    for query in ("SELECT repeat('x', 4294967295)", "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000))"):
        status, shown = ask(allowed, query)
        assert (status, set(shown)) == (400, {"error", "hint"})
        assert allowed.get("/api/v1").status_code == 200
        assert ask(allowed, "SELECT 1")[0] == 200


def test_a_timeout_comes_with_a_hint(allowed: TestClient) -> None:
    _, shown = ask(allowed, "SELECT count(*) FROM range(1000000000000) a, range(1000) b")
    assert shown == {
        "error": f"the query took more than {SECONDS:g} seconds",
        "hint": "narrow it, or raise sql_seconds in [serve] of gpulake.toml",
    }


@pytest.mark.slow
def test_a_huge_answer_is_refused(shared_lake: Config) -> None:
    client = client_of(shared_lake, replace(ALLOWED, sql_rows=1_000, sql_seconds=30, sql_memory="500MB"))
    status, shown = ask(client, "SELECT repeat('x', 1000000) FROM range(100)")
    assert (status, shown["error"][:20], shown["hint"]) == (
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
def test_what_is_not_a_query_is_refused(allowed: TestClient, body: bytes) -> None:
    response = allowed.post(URL, content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, set(response.json())) == (422, {"error", "hint"})
