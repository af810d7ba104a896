"""What an untrusted query may name: tables of the lake and listed functions, checked on the parsed statement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import duckdb

from gpulake.core.errors import UsageError
from gpulake.core.packaged import packaged_toml
from gpulake.lake.engine import Connection, first_line, text

MOST_QUERY = 20_000  # characters
MOST_DEPTH = 100  # brackets within brackets
LIST = "docs/serve.md, Queries, says which are"
TABLES = """
SELECT table_name AS name FROM duckdb_tables() WHERE NOT internal
UNION SELECT view_name FROM duckdb_views() WHERE NOT internal
"""
QUALIFIERS = frozenset({"", "lake", "landed", "main", "before"})
ABOUT_TABLES = frozenset({("information_schema", "tables"), ("information_schema", "columns")})
SHOWN = frozenset({"", '"tables"', "__show_tables_expanded"})
# Parts of a parsed statement. A table reference or an expression of another kind is refused.
EXPRESSIONS = frozenset(
    {
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "DEFAULT"),
        *("FUNCTION", "LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW"),
    }
)
SOURCES = frozenset(
    {"BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION"}
)


def tables_of(connection: Connection) -> frozenset[str]:
    return frozenset(name.lower() for (name,) in connection.execute(TABLES).fetchall())


def check(connection: Connection, query: str, tables: frozenset[str] | None) -> None:
    """Raises an error that names what is not allowed. Without tables, they are left for later."""
    if len(query) > MOST_QUERY or _depth(query) > MOST_DEPTH:
        raise _too_long()
    try:
        _walk(_parsed(connection, query), tables)
    except RecursionError:
        raise _too_long() from None


def _too_long() -> UsageError:
    hint = f"use up to {MOST_QUERY:,} characters and {MOST_DEPTH} brackets within each other"
    return UsageError("the query is too long or too deeply nested", hint)


def _parsed(connection: Connection, query: str) -> list[Any]:
    try:
        # As text, since binding values would import pandas wherever it is installed.
        (found,) = connection.execute(f"SELECT json_serialize_sql({text(query)})").fetchall()[0]
    except duckdb.Error as error:
        raise UsageError(f"the query failed: {first_line(error)}", "see the tables with: gpulake tables") from error
    answer = json.loads(found)
    if answer["error"] and answer["error_type"] == "not implemented":
        raise UsageError("only queries are allowed: the lake is read-only", "begin with SELECT, WITH or FROM")
    if answer["error"]:
        raise UsageError(f"the query failed: {answer['error_message']}", "see the tables with: gpulake tables")
    statements: list[Any] = answer["statements"]
    if len(statements) != 1:
        raise UsageError(f"{len(statements)} statements given", "give one query at a time")
    return statements


def _walk(part: Any, tables: frozenset[str] | None) -> None:
    """`tables` are those that can be named here: of the lake, and of the WITH clauses around."""
    if isinstance(part, list):
        for one in part:
            _walk(one, tables)
    if not isinstance(part, dict):
        return
    _check_part(part, tables)
    for name, query in _named(part):
        # A query sees those before it, and itself if it is recursive.
        is_recursive = query["query"]["node"]["type"] == "RECURSIVE_CTE_NODE"
        _walk(query, _with(tables, name) if is_recursive else tables)
        tables = _with(tables, name)
    for key, one in part.items():
        if key != "cte_map":
            _walk(one, tables)


def _check_part(part: Mapping[str, Any], tables: frozenset[str] | None) -> None:
    if "class" in part and part["class"] not in EXPRESSIONS:
        raise UsageError(f"{_words(part['class'])} is not allowed in a query", "write it in another way")
    if "function_name" in part:
        _check_function(part, "functions")
    if part.get("type") == "UNBOUND_TYPE_INFO" and part["name"].lower() not in listed()["types"]:
        raise UsageError(f"the type {part['name']} is not allowed in a query", LIST)
    if "query_location" in part and "class" not in part:
        _check_source(part, tables)


def _with(tables: frozenset[str] | None, name: str) -> frozenset[str] | None:
    return None if tables is None else tables | {name}


def _named(part: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for one in part.get("cte_map", {}).get("map", ()):
        yield one["key"].lower(), one["value"]


def _check_source(part: Mapping[str, Any], tables: frozenset[str] | None) -> None:
    kind, table = part["type"], part.get("table_name", "")
    if kind not in SOURCES or (kind == "SHOW_REF" and table not in SHOWN):
        raise UsageError(f"{_words(table or kind)} is not allowed in a query", "name tables of the lake")
    if kind == "TABLE_FUNCTION":
        _check_function(part["function"], "tables")
    if kind != "BASE_TABLE" or tables is None:
        return
    schema, catalogue = part["schema_name"].lower(), part["catalog_name"].lower()
    is_ours = table.lower() in tables and {schema, catalogue} <= QUALIFIERS
    if not is_ours and (schema, table.lower()) not in ABOUT_TABLES:
        whole = ".".join(filter(None, (part["catalog_name"], part["schema_name"], table)))
        raise UsageError(f"no table {whole!r} in the lake", "see the tables with: gpulake tables")


def _check_function(part: Mapping[str, Any], kind: str) -> None:
    function = part["function_name"]
    if function.lower() not in listed()[kind]:
        raise UsageError(f"the function {function}() is not allowed in a query", LIST)
    if part.get("export_state"):
        raise UsageError("EXPORT_STATE is not allowed in a query", "name the aggregate alone")


@cache
def listed() -> dict[str, frozenset[str]]:
    """Names of functions, of those that give a table, and of types."""
    lists = packaged_toml("gpulake.lake", "functions.toml")
    known = {kind: frozenset(" ".join(names.values()).split()) for kind, names in lists.items()}
    # The call of a table function is inside its source, to which the narrower list applies.
    return {**known, "functions": known["functions"] | known["tables"]}


def _words(part: str) -> str:
    return part.strip('"').replace("_", " ").lower()


def _depth(query: str) -> int:
    """Of brackets; those within quotes count too, since this is before any parsing."""
    depth = most = 0
    for letter in query:
        if letter in "([{":
            depth += 1
            most = max(most, depth)
        elif letter in ")]}":
            depth -= 1
    return most
