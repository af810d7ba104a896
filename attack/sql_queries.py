"""The hostile queries of suite `sql`, put together from a seed and the words of sql_queries.toml."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from gpulake.lake.allowed import MOST_QUERY, listed

DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WORDS, FORMS = DATA["words"], DATA["forms"]
SCALARS, TABLES = "'scalar', 'aggregate', 'macro'", "'table', 'table_macro', 'pragma'"


@dataclass(frozen=True)
class Hostile:
    query: str
    must_fail: bool = True  # an answer would be a hole
    is_bomb: bool = False  # may run until its limit


class Queries:
    def __init__(self, seed: int, secret: Path) -> None:
        self.chance, self.secret = random.Random(seed), secret
        self.unlisted, self.unlisted_tables = _unlisted("functions", SCALARS), _unlisted("tables", TABLES)
        self.allowed = sorted(name for name in listed()["functions"] if name.isidentifier())
        self.plan = _pointers()

    def make(self, tries: int) -> Iterator[Hostile]:
        weights = DATA["weights"]
        for kind in self.chance.choices(list(weights), list(weights.values()), k=tries):
            yield getattr(self, f"_{kind}")()

    def _function(self) -> Hostile:
        return Hostile(self._hidden(self._call(self.unlisted)))

    def _table_function(self) -> Hostile:
        return Hostile(self._within(f"SELECT * FROM {self._call(self.unlisted_tables)}"))

    def _file(self) -> Hostile:
        source = f"'{self._path()}'"
        if self.chance.random() < 0.7:
            source = f"{self._name(self.chance.choice(WORDS['readers']))}({source})"
        return Hostile(self._within(f"SELECT * FROM {source}"))

    def _statement(self) -> Hostile:
        setting = self.chance.choice(WORDS["settings"])
        return Hostile(self.chance.choice(WORDS["statements"]).format(x=setting, file=self._path()))

    def _system(self) -> Hostile:
        return Hostile(self._within(f"SELECT * FROM {self.chance.choice(WORDS['system'])}"))

    def _pointer(self) -> Hostile:
        address = self.chance.choice((0, 1, 0x41414141, 2**63))
        return Hostile(self._within(self.chance.choice(WORDS["pointers"]).format(self.plan, address)))

    def _nested(self) -> Hostile:
        opening, closing = self.chance.choice(FORMS["nesting"])
        depth = self.chance.randrange(1, MOST_QUERY // len(opening + closing) + 10)
        query = f"SELECT {opening * depth}1{closing * depth}"[: MOST_QUERY + self.chance.randrange(10)]
        return Hostile(query, must_fail=False, is_bomb=True)

    def _odd(self) -> Hostile:
        """Allowed functions on values that they may not expect."""
        return Hostile(self._hidden(self._call(self.allowed)), must_fail=False, is_bomb=True)

    def _mutated(self) -> Hostile:
        letters = list(self._within("SELECT run_id, count(*) FROM runs GROUP BY 1"))
        for _ in range(self.chance.randrange(1, 6)):
            place = self.chance.randrange(len(letters))
            letters[place : place + self.chance.randrange(3)] = self.chance.choice(WORDS["noise"])
        return Hostile("".join(letters), must_fail=False, is_bomb=True)

    def _bomb(self) -> Hostile:
        big = self.chance.choice((10**7, 10**8, 10**9, 4 * 10**9))
        wide = ", ".join(f"repeat('x', {number * 100})" for number in range(400))
        return Hostile(self.chance.choice(WORDS["bombs"]).format(big=big, wide=wide), must_fail=False, is_bomb=True)

    def _path(self) -> str:
        path: str = self.chance.choice(WORDS["files"])
        return path.format(secret=self.secret, lake=self.secret.parent / "lake")

    def _call(self, functions: list[str]) -> str:
        values = self.chance.choices(WORDS["values"], k=self.chance.randrange(4))
        return f"{self._name(self.chance.choice(functions))}({', '.join(values)})"

    def _name(self, name: str) -> str:
        spelled: str = self.chance.choice(FORMS["names"])
        return spelled.format(self.chance.choice((name, name, name.upper(), name.title())))

    def _hidden(self, call: str) -> str:
        return self._within(self.chance.choice(FORMS["calls"]).format(call))

    def _within(self, query: str) -> str:
        for _ in range(self.chance.randrange(4)):
            query = self.chance.choice(FORMS["queries"]).format(query)
        return query


def _unlisted(kind: str, types: str) -> list[str]:
    """Every function that this engine has and the list does not, and some of other versions."""
    query = f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ({types})"
    # One collation stands for its hundred likes.
    query += " AND (function_name NOT LIKE 'icu_collate_%' OR function_name = 'icu_collate_de')"
    names = {name for (name,) in duckdb.sql(query).fetchall() if name.isidentifier()}
    return sorted(name for name in {*names, "getenv", "query", "query_table"} if name.lower() not in listed()[kind])


def _pointers() -> str:
    """A parsed `FROM arrow_scan(...)` whose arguments are addresses."""
    (found,) = duckdb.sql("SELECT json_serialize_sql('FROM arrow_scan(1, 2, 3)')").fetchall()[0]
    plan = json.loads(found)
    for argument in plan["statements"][0]["node"]["from_table"]["function"]["children"]:
        argument["value"] = {
            "type": {"id": "POINTER", "type_info": None},
            "is_null": False,
            "value": 0x4141414141414141,
        }
    return json.dumps(plan)
