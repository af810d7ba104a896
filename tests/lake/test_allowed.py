"""Queries of others name tables of the lake and functions of the list, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import duckdb
import pytest

from gpulake.core.errors import UsageError
from gpulake.lake.allowed import MOST_DEPTH, MOST_QUERY, check, tables_of
from gpulake.model.plan import shipped_plan

TOO_LONG = "the query is too long or too deeply nested"
READ_ONLY = "only queries are allowed: the lake is read-only"


@pytest.fixture(scope="module")
def lake() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"enable_external_access": False}) as connection:
        connection.execute("ATTACH ':memory:' AS lake")
        connection.execute("CREATE TABLE lake.jobs (job_id VARCHAR, user_id VARCHAR, gpus INT, started_at TIMESTAMPTZ)")
        connection.execute("USE lake")
        yield connection


def refused(lake: duckdb.DuckDBPyConnection, query: str) -> str:
    with pytest.raises(UsageError) as error:
        check(lake, query, tables_of(lake))
    assert error.value.hint
    return error.value.message


@pytest.mark.parametrize(
    "query",
    [
        "FROM jobs",
        "TABLE jobs",
        "VALUES (1, 'a')",
        "SELECT user_id, sum(gpus) FILTER (WHERE gpus > 0) AS n FROM main.jobs GROUP BY ALL ORDER BY n DESC LIMIT 3",
        "SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY started_at) FROM lake.main.jobs QUALIFY true",
        "SELECT date_trunc('day', started_at) AT TIME ZONE 'UTC', started_at + INTERVAL 1 DAY FROM Jobs",
        "WITH a AS (FROM jobs), b AS (FROM a) SELECT * FROM b JOIN a USING (job_id) ANTI JOIN jobs USING (gpus)",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 9) FROM n",
        "SELECT [x * 2 FOR x IN [1, 2]], list_transform([1], lambda x: x + 1), {'a': 1}.a, MAP {'a': 1}, (1, 2)",
        "SELECT extract(year FROM started_at), substring(job_id FROM 1 FOR 2), position('a' IN job_id) FROM jobs",
        "SELECT CASE WHEN gpus IS NULL THEN 0 ELSE -gpus END, coalesce(gpus, 1), try_cast(job_id AS INT) FROM jobs",
        "FROM jobs WHERE gpus IN (1, 2) AND job_id NOT IN (SELECT user_id FROM jobs) AND EXISTS (FROM jobs)",
        "FROM range(3) a, generate_series(1, 3) b, unnest([1, 2]) c",
        "PIVOT jobs ON user_id IN ('a', 'b') USING sum(gpus)",
        "UNPIVOT (SELECT gpus FROM jobs) ON gpus",
        "DESCRIBE jobs",
        "SUMMARIZE jobs",
        "SHOW TABLES",
        "FROM information_schema.columns",
        "SELECT 1::DOUBLE, 'a'::TEXT, 1::DECIMAL(9, 2), [1]::INT8[], NULL::STRUCT(a TIMESTAMPTZ, b MAP(TEXT, JSON))",
        "SELECT COLUMNS('.*_id') FROM jobs USING SAMPLE 10%",
        "SELECT current_date, now(), json_extract_string('{}', '$.a'), '{}' ->> 'a', job_id.lower() FROM jobs",
    ],
)
def test_what_people_ask_of_a_lake_is_allowed(lake: duckdb.DuckDBPyConnection, query: str) -> None:
    check(lake, query, tables_of(lake))


@pytest.mark.parametrize(
    "function",
    [
        *("getenv('HOME')", "current_setting('threads')", "getvariable('x')", "json_structure('[]')", "version()"),
        *("json_serialize_sql('x')", "json_deserialize_sql('x')", "json_serialize_plan('x')", "write_log('x')"),
        *("json_transform('[]', '[]')", "from_json('[]', '[]')", "pg_sleep(1)", "sleep_ms(1)", "nextval('x')"),
        *("finalize(1)", "combine(1, 2)", "in_search_path('a', 'b')", "current_query()", "txid_current()"),
        *("system.main.getenv('HOME')", "GETENV('HOME')", "\"getenv\"('HOME')", "(job_id).getenv()"),
    ],
)
def test_a_function_that_is_not_listed_is_named(lake: duckdb.DuckDBPyConnection, function: str) -> None:
    name = re.findall(r"(\w+)\"?\(['1)]", function)[0].lower()
    for query in (f"SELECT {function} FROM jobs", f"FROM jobs WHERE gpus IN (SELECT {function})"):
        assert refused(lake, query) == f"the function {name}() is not allowed in a query"


@pytest.mark.parametrize(
    "call",
    [
        *(
            "read_csv('/etc/passwd')",
            "read_text('/proc/self/environ')",
            "read_blob('x')",
            "glob('/*')",
            "sniff_csv('x')",
        ),
        *("read_parquet('http://127.0.0.1:1/x')", "parquet_metadata('x')", "read_json('x')", "read_duckdb('x')"),
        *(
            "pandas_scan(NULL)",
            "arrow_scan(1, 2, 3)",
            "arrow_scan_dumb(1, 2, 3)",
            "python_map_function(NULL)",
            "seq_scan()",
        ),
        *("json_execute_serialized_sql('{}')", "query('SELECT 1')", "query_table('jobs')", "duckdb_settings()"),
        *(
            "duckdb_secrets()",
            "pragma_version()",
            "test_all_types()",
            "repeat('x', 3)",
            "enable_logging()",
            "checkpoint()",
        ),
        *("json_each('[]')", "duckdb_logs_parsed('x')", "which_secret('x', 'y')", "summary(NULL)", "repeat_row(1)"),
    ],
)
def test_a_table_function_that_is_not_listed_is_named(lake: duckdb.DuckDBPyConnection, call: str) -> None:
    name = call.partition("(")[0]
    for query in (f"FROM {call}", f"FROM jobs, LATERAL (FROM {call})", f"WITH a AS (FROM {call}) SELECT 1"):
        assert refused(lake, query) == f"the function {name}() is not allowed in a query"


@pytest.mark.parametrize(
    "source",
    [
        *("duckdb_views", "duckdb_settings", "sqlite_master", "pg_settings", "pragma_database_list", "nothing"),
        *("'/etc/passwd'", "'s3://bucket/x.csv'", "information_schema.views", "pg_catalog.pg_proc", "other.main.jobs"),
    ],
)
def test_a_table_that_is_not_of_the_lake_is_not_found(lake: duckdb.DuckDBPyConnection, source: str) -> None:
    assert refused(lake, f"FROM {source}") == f"no table {source.strip(chr(39))!r} in the lake"


@pytest.mark.parametrize(
    "query",
    [
        "WITH duckdb_views AS (FROM duckdb_views) FROM duckdb_views",
        "WITH a AS (FROM duckdb_views), duckdb_views AS (SELECT 1) FROM a",
        "WITH a AS (WITH duckdb_views AS (SELECT 1) FROM duckdb_views) FROM a, duckdb_views",
        "FROM (WITH duckdb_views AS (SELECT 1) FROM duckdb_views), duckdb_views",
    ],
)
def test_a_name_of_a_with_clause_hides_a_table_only_where_the_engine_looks_it_up(
    lake: duckdb.DuckDBPyConnection, query: str
) -> None:
    assert refused(lake, query) == "no table 'duckdb_views' in the lake"


def test_constants_that_are_pointers_do_not_reach_the_engine(lake: duckdb.DuckDBPyConnection) -> None:
    (found,) = duckdb.sql("SELECT json_serialize_sql('FROM arrow_scan(1, 2, 3)')").fetchall()[0]
    plan = json.loads(found)
    for argument in plan["statements"][0]["node"]["from_table"]["function"]["children"]:
        argument["value"] = {"type": {"id": "POINTER", "type_info": None}, "is_null": False, "value": 0x4141414141}
    query = f"FROM json_execute_serialized_sql('{json.dumps(plan)}')"
    assert refused(lake, query) == "the function json_execute_serialized_sql() is not allowed in a query"


@pytest.mark.parametrize(
    "query",
    [
        *("ATTACH '/tmp/x.db' AS x", "COPY (SELECT 1) TO '/tmp/x'", "EXPORT DATABASE '/tmp/x'", "INSTALL httpfs"),
        *("LOAD httpfs", "SET threads = 9", "RESET threads", "PRAGMA enable_profiling", "CALL enable_logging()"),
        *("CREATE TABLE x AS SELECT 1", "CREATE MACRO jobs() AS 1", "INSERT INTO jobs FROM jobs", "DELETE FROM jobs"),
        *("DROP TABLE jobs", "UPDATE jobs SET gpus = 1", "USE memory", "BEGIN", "EXPLAIN ANALYZE SELECT 1"),
        *(
            "PREPARE x AS SELECT 1",
            "SELECT 1; DROP TABLE jobs",
            "VACUUM",
            "CHECKPOINT",
            "DETACH lake",
            "PIVOT jobs ON gpus",
        ),
    ],
)
def test_only_queries_are_allowed(lake: duckdb.DuckDBPyConnection, query: str) -> None:
    assert refused(lake, query) == READ_ONLY


@pytest.mark.parametrize(
    ("query", "reported"),
    [
        ("SELECT 1; SELECT 2", "2 statements given"),
        ("-- nothing", "0 statements given"),
        ("SELECT $1", "parameter is not allowed in a query"),
        ("SELECT 1::POINTER", "the type POINTER is not allowed in a query"),
        ("SELECT NULL::STRUCT(a INT, b pointer[])", "the type pointer is not allowed in a query"),
        ("SHOW DATABASES", "databases is not allowed in a query"),
        ("SELECT sum(gpus) EXPORT_STATE FROM jobs", "EXPORT_STATE is not allowed in a query"),
        ("SELECT '" + "x" * MOST_QUERY + "'", TOO_LONG),
        ("SELECT " + "(" * (MOST_DEPTH + 1) + "1" + ")" * (MOST_DEPTH + 1), TOO_LONG),
        ("SELECT " + "CASE WHEN true THEN " * 700 + "1" + " END" * 700, TOO_LONG),
    ],
)
def test_what_is_no_single_plain_query_is_refused(lake: duckdb.DuckDBPyConnection, query: str, reported: str) -> None:
    assert refused(lake, query) == reported


@pytest.mark.parametrize("query", ["SELECT", "SELECT '\x00'", "SELECT 'a", "SELECT " + "NOT " * 4_000 + "true"])
def test_a_syntax_error_has_the_message_of_the_engine(lake: duckdb.DuckDBPyConnection, query: str) -> None:
    assert refused(lake, query).startswith("the query failed: ")


def test_models_of_our_own_name_nothing_that_is_not_listed(lake: duckdb.DuckDBPyConnection) -> None:
    models = [model.sql for model in shipped_plan().models if len(model.sql) <= MOST_QUERY]
    assert len(models) > 30
    for query in models:
        check(lake, query, None)
