"""The hostile queries of suite `sql`, put together from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from gpulake.lake.allowed import MOST_QUERY, listed


@dataclass(frozen=True)
class Hostile:
    query: str
    must_fail: bool = True  # an answer would be a hole
    is_bomb: bool = False  # meets a limit, or nearly


# How often each kind comes, of 100.
WEIGHTS = {"function": 30, "table function": 18, "file": 10, "statement": 8, "system": 6, "pointer": 4}
WEIGHTS |= {"nested": 6, "odd": 12, "mutated": 4, "bomb": 2}
FILES = (
    "{secret}",
    "{lake}/gpulake.json",
    "/etc/passwd",
    "/proc/self/environ",
    "/proc/1/environ",
    "http://127.0.0.1:1/x",
)
READERS = (
    *(
        "read_text",
        "read_blob",
        "read_csv",
        "read_csv_auto",
        "read_json",
        "read_json_auto",
        "read_ndjson",
        "read_parquet",
    ),
    *("parquet_scan", "parquet_metadata", "parquet_schema", "sniff_csv", "glob", "read_duckdb", "read_json_objects"),
)
STATEMENTS = (
    *("SET {x} = 1", "SET GLOBAL {x} = '1TB'", "RESET {x}", "PRAGMA {x}", "PRAGMA {x} = 1", "CALL pragma_{x}()"),
    *(
        "ATTACH '{file}' AS x",
        "DETACH lake",
        "USE memory",
        "COPY (SELECT 1) TO '{file}.out'",
        "COPY runs FROM '{file}'",
    ),
    *(
        "EXPORT DATABASE '{file}'",
        "IMPORT DATABASE '{file}'",
        "INSTALL httpfs",
        "LOAD '{file}'",
        "FORCE INSTALL x FROM '{file}'",
    ),
    *(
        "CREATE TABLE x AS SELECT 1",
        "CREATE MACRO lower(a) AS getenv(a)",
        "CREATE SECRET x (TYPE s3)",
        "DROP VIEW landed.runs",
    ),
    *(
        "INSERT INTO landed.runs SELECT 1",
        "DELETE FROM landed.runs",
        "PREPARE x AS SELECT 1",
        "EXECUTE x",
        "VACUUM",
        "BEGIN",
    ),
    *(
        "EXPLAIN ANALYZE SELECT 1",
        "SELECT 1; COPY (SELECT 1) TO '{file}.out'",
        "CHECKPOINT",
        "SHOW DATABASES",
        "SHOW VARIABLES",
    ),
)
SETTINGS = (
    "memory_limit",
    "enable_external_access",
    "lock_configuration",
    "threads",
    "allowed_paths",
    "temp_directory",
)
SYSTEM = (
    *("duckdb_views", "duckdb_settings", "duckdb_databases", "duckdb_logs", "sqlite_master", "pg_settings", "pg_views"),
    *(
        "pragma_database_list",
        "information_schema.views",
        "pg_catalog.pg_proc",
        "system.main.duckdb_views",
        "temp.main.x",
    ),
    *("reader", "connection", "given", "query", "found", "lake.information_schema.schemata"),
)
BOMBS = (
    *(
        "SELECT levenshtein(repeat('x', 500000), repeat('y', 500000))",
        "SELECT repeat('x', {big})",
        "SELECT range({big})",
    ),
    *(
        "SELECT list(range) FROM range({big})",
        "SELECT count(*) FROM range({big}) a, range({big}) b WHERE a.range % 7 = b.range",
    ),
    *("WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t", "SELECT {big}!"),
    *(
        "SELECT a.range FROM range(100000000) a, range(100000000) b ORDER BY hash(a.range + b.range)",
        "SELECT lpad('x', {big}, 'y')",
    ),
    *(
        "SELECT string_agg(repeat('x', 100000), ',') FROM range(1000000)",
        "SELECT repeat('x', 1000000) FROM range(1000)",
    ),
    *(
        "SELECT regexp_matches(repeat('a', 200000), '(a{{0,30}}){{0,30}}$')",
        "SELECT damerau_levenshtein(repeat('x', 40000), repeat('y', 40000))",
    ),
    *(
        "SELECT list_transform(range(100000), lambda x: list_sum(range(x)))",
        "SELECT histogram(hash(range)) FROM range({big})",
    ),
    *("SELECT count(DISTINCT hash(range)) FROM range({big})", "SELECT quantile_cont(range, 0.5) FROM range({big})"),
    *("SELECT list_reduce(range(1000), lambda a, b: a || repeat('x', b))", "SELECT json_array(repeat('x', {big}))"),
)
VALUES = (
    *(
        "NULL",
        "0",
        "-1",
        "1",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "'nan'::DOUBLE",
        "'-inf'::DOUBLE",
        "''",
    ),
    *(
        "'x'",
        "repeat('[', 10000)",
        "repeat('é', 10000)",
        "chr(0)",
        "'\\xff'::BLOB",
        "[]",
        "[NULL]",
        "[[1], NULL]",
        "{{'a': 1}}",
    ),
    *("MAP {{}}", "DATE '9999-12-31'", "TIMESTAMPTZ '294247-01-01'", "INTERVAL 99999999 YEAR", "true", "range(100000)"),
    *(
        "(SELECT NULL)",
        "'{{\"a\": [1, {{}}]}}'::JSON",
        "'%s%n%x'",
        "'(((a+)+)+)$'",
        "1::HUGEINT",
        "'101'::BIT",
        "uuid()",
    ),
    *(
        "lambda x: x",
        "lambda x, y: x + y",
        "'day'",
        "'%Y'",
        "1.5::DECIMAL(38, 37)",
        "-5",
        "100000000",
        "'a'::ENUM('a')",
    ),
)


def queries(tries: int, chance: random.Random, secret: Path, pointers: str) -> Iterator[Hostile]:
    unlisted, unlisted_tables = _unlisted("functions"), _unlisted("tables")
    allowed = sorted(name for name in listed()["functions"] if name.isidentifier())

    def file() -> str:
        return chance.choice(FILES).format(secret=secret, lake=secret.parent / "lake")

    def values() -> str:
        return ", ".join(chance.choice(VALUES).format() for _ in range(chance.randrange(4)))

    def statement() -> str:
        return chance.choice(STATEMENTS).format(x=chance.choice(SETTINGS), file=file())

    def reading() -> str:
        source = f"'{file()}'" if chance.random() < 0.3 else f"{_written(chance, chance.choice(READERS))}('{file()}')"
        return _within(chance, f"SELECT * FROM {source}")

    made: dict[str, Callable[[], Hostile]] = {
        "function": lambda: Hostile(_hidden(chance, f"{_written(chance, chance.choice(unlisted))}({values()})")),
        "table function": lambda: Hostile(
            _within(chance, f"SELECT * FROM {_written(chance, chance.choice(unlisted_tables))}({values()})")
        ),
        "file": lambda: Hostile(reading()),
        "statement": lambda: Hostile(statement()),
        "system": lambda: Hostile(_within(chance, f"SELECT * FROM {chance.choice(SYSTEM)}")),
        "pointer": lambda: Hostile(_within(chance, _pointer(chance, pointers))),
        "nested": lambda: Hostile(_nested(chance), must_fail=False),
        "odd": lambda: Hostile(_hidden(chance, f"{chance.choice(allowed)}({values()})"), must_fail=False, is_bomb=True),
        "mutated": lambda: Hostile(
            _mutated(chance, _within(chance, "SELECT run_id, count(*) FROM runs GROUP BY 1")), False, True
        ),
        "bomb": lambda: Hostile(_bomb(chance), must_fail=False, is_bomb=True),
    }
    for kind in chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=tries):
        yield made[kind]()


def _unlisted(kind: str) -> Sequence[str]:
    """Every function that this engine has and the list does not."""
    types = "'table', 'table_macro', 'pragma'" if kind == "tables" else "'scalar', 'aggregate', 'macro'"
    found = duckdb.sql(
        f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ({types})"
    ).fetchall()
    names = {name for (name,) in found if name.isidentifier()}
    return sorted(
        {*names, "getenv", "query", "query_table"} - {name for name in names if name.lower() in listed()[kind]}
    )


def _written(chance: random.Random, name: str) -> str:
    """The same name in another spelling."""
    spelled = chance.choice((name, name.upper(), f'"{name}"', name.title(), f"main.{name}", f"system.main.{name}"))
    return spelled + chance.choice(("", "", " ", "/* x */", "\n"))


def _hidden(chance: random.Random, call: str) -> str:
    """A call where a check may not look."""
    forms = (
        *(
            "SELECT {0}",
            "SELECT 1 WHERE {0} IS NULL",
            "SELECT 1 ORDER BY {0}",
            "SELECT count(*) FILTER (WHERE {0} IS NULL)",
        ),
        *(
            "SELECT CASE WHEN true THEN 1 ELSE {0} END",
            "SELECT [{0} FOR x IN [1]]",
            "SELECT list_transform([1], lambda x: {0})",
        ),
        *(
            "SELECT {{'a': {0}}}",
            "SELECT MAP {{'a': {0}}}",
            "SELECT try_cast({0} AS VARCHAR)",
            "SELECT coalesce(NULL, {0})",
        ),
        *(
            "VALUES ({0})",
            "SELECT 1 LIMIT (SELECT {0})",
            "SELECT sum(1) OVER (ORDER BY {0})",
            "SELECT * REPLACE ({0} AS a) FROM (SELECT 1 AS a)",
        ),
        *(
            "FROM range(1) a JOIN range(1) b ON {0} IS NULL",
            "SELECT 1 GROUP BY {0}",
            "SELECT 1 HAVING {0} IS NULL",
            "SELECT typeof({0})",
        ),
        *(
            "FROM unnest([{0}])",
            "FROM range(length({0}::VARCHAR))",
            "SELECT 1 QUALIFY row_number() OVER (PARTITION BY {0}) = 1",
        ),
        *(
            "SELECT first(1 ORDER BY {0})",
            "SELECT ({0})::VARCHAR COLLATE nocase",
            "SELECT ({0})[1:2]",
            "SELECT 1 BETWEEN 0 AND {0}",
        ),
    )
    return _within(chance, chance.choice(forms).format(call))


def _within(chance: random.Random, query: str) -> str:
    forms = (
        *(
            "{0}",
            "{0}",
            "SELECT * FROM ({0})",
            "WITH a AS ({0}) SELECT 1",
            "WITH a AS ({0}) FROM a",
            "SELECT ({0})",
            "SELECT EXISTS ({0})",
        ),
        *("SELECT 1 UNION ALL ({0})", "FROM runs, LATERAL ({0})", "DESCRIBE {0}", "SUMMARIZE {0}", "SELECT 1 IN ({0})"),
        *("WITH RECURSIVE a AS (SELECT 1 UNION ALL ({0})) FROM a", "SELECT list_transform([1], lambda x: ({0}))"),
        *(
            "WITH b AS (WITH runs AS ({0}) FROM runs) FROM b",
            "PIVOT ({0}) ON a IN (1) USING count(*)",
            "SELECT ARRAY({0})",
        ),
    )
    for _ in range(chance.randrange(4)):
        query = chance.choice(forms).format(query)
    return query


def _pointer(chance: random.Random, pointers: str) -> str:
    quoted = pointers.replace("'", "''")
    forms = (
        *(
            "FROM json_execute_serialized_sql('{0}')",
            "PRAGMA json_execute_serialized_sql('{0}')",
            "SELECT json_deserialize_sql('{0}')",
        ),
        *(
            "FROM json_execute_serialized_sql('{0}'::JSON)",
            "FROM query(json_deserialize_sql('{0}'))",
            "FROM query_table('{1}')",
        ),
        *(
            "FROM arrow_scan({1}, {1}, {1})",
            "FROM pandas_scan({1})",
            "FROM arrow_scan_dumb({1}, {1}, {1})",
            "SELECT {1}::POINTER",
        ),
        *("SELECT finalize({1}::BLOB)", "SELECT combine(sum(1) EXPORT_STATE, NULL)", "FROM python_map_function({1})"),
    )
    return chance.choice(forms).format(quoted, chance.choice((0, 1, 0x41414141, 2**63)))


def _nested(chance: random.Random) -> str:
    opening, closing = chance.choice(
        [
            ("(", ")"),
            ("[", "]"),
            ("CASE WHEN true THEN ", " END"),
            ("NOT ", ""),
            ("- ", ""),
            ("abs(", ")"),
            ("(SELECT ", ")"),
        ]
        + [
            ("{'a': ", "}"),
            ("1 + ", ""),
            ("SELECT * FROM (", ")"),
            ("x.", ""),
            ("json(", ")"),
            ("1 IN (", ")"),
            ("~", ""),
        ]
    )
    depth = chance.randrange(1, MOST_QUERY // len(opening + closing) + 10)
    return ("SELECT " + opening * depth + "1" + closing * depth)[: MOST_QUERY + chance.randrange(10)]


def _mutated(chance: random.Random, query: str) -> str:
    letters = list(query)
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(letters))
        letters[place : place + chance.randrange(3)] = chance.choice(
            ["", "'", '"', ";", "\x00", "--", "/*", "$$", "é", "\u202e", "?"]
        )
    return "".join(letters) or "x"


def _bomb(chance: random.Random) -> str:
    return chance.choice(BOMBS).format(big=chance.choice((10**7, 10**8, 10**9, 4 * 10**9)))
