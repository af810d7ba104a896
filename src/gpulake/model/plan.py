"""The plan: what dbt compiled from the project, in the order in which it runs. Plain SQL, so a build needs no dbt.

It ships as compiled/<model>.sql, the SQL of a model and of its data tests, compiled/<step>.sql, the SQL of a step that
models share, and compiled/index.json, the contracts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal

from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.tables import Column, Table
from gpulake.lake.engine import surrogate_key
from gpulake.model.pruning import PREFIX, EmptyWithout, Step, is_empty, with_steps, without_steps

FOLDER = "compiled"
INDEX = "index.json"
TEST = re.compile(r"^-- test: (\S+?)\((\w*)\) (error|warn)\n", re.M)
# A data test that looks at the rows of its table one by one: no join, no group, no other table.
ROW_BY_ROW = re.compile(
    r'select [^()]+?\sfrom "lake"\."main"\."(\w+)"\s+where\s+((?:(?!\b(?:select|group by)\b).)+)', re.S
)
# One that finds rows with the same values of some columns.
REPEATS = re.compile(
    r"select\s[^()]+?(?:count\(\*\) as \w+)?\s+"
    r'(from "lake"\."main"\."\w+"(?:\s+where \w+ is not null)?)\s+group by ([\w, ]+)\s+having count\(\*\) > 1'
)
TABLE = re.compile(r'"(lake|landed)"\."main"\."(\w+)"')
# Its columns may be calls, of calls at most.
PROJECT = "gpulake"
MACRO = re.compile(r"\{% macro (?P<name>\w+)\(\) -?%\}(?P<sql>[^{}]+)\{%-? endmacro %\}")
KEY = re.compile(r"surrogate_key\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")


@dataclass(frozen=True)
class PlannedModel:
    name: str
    description: str
    columns: tuple[Column, ...]
    sql: str
    # Which of its rows new files touch; none: all. docs/design.md, Increments, says what stands in it.
    increment: Mapping[str, Any] = field(default_factory=dict)
    empty_without: EmptyWithout = ()

    @cached_property
    def depends_on(self) -> tuple[str, ...]:
        return _tables(self.sql, "lake")

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The bronze and settings tables that it reads itself."""
        return _tables(self.sql, "landed")

    def as_table(self) -> Table:
        return Table(self.name, self.description, self.columns)


@dataclass(frozen=True)
class PlannedTest:
    name: str
    table: str
    column: str
    severity: Literal["error", "warn"]
    query: str = ""
    condition: str = ""  # instead of a query: of the rows that fail it

    @cached_property
    def sql(self) -> str:
        """The rows that fail it."""
        return self.query or f'select * from "lake"."main"."{self.table}" where {self.condition}'

    @cached_property
    def depends_on(self) -> tuple[str, ...]:
        return _tables(self.sql, "lake")

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return _tables(self.query, "landed")

    @cached_property
    def key_hashes(self) -> str:
        """Of a test that no two rows have the same key: a query of a hash of each key. Without it, nothing."""
        found = REPEATS.fullmatch(self.query)
        return f"select hash({found[2]}) as hashed {found[1]}" if found else ""

    @cached_property
    def reads_only_its_table(self) -> bool:
        return not self.sources and self.depends_on == (self.table,)


@dataclass(frozen=True)
class Plan:
    models: tuple[PlannedModel, ...]
    tests: tuple[PlannedTest, ...]
    steps: tuple[Step, ...] = ()  # each after those that it reads
    empty: frozenset[str] = frozenset()  # models, selected or not, that are known to have no rows

    def select(self, names: Sequence[str], empty: Collection[str] = ()) -> Plan:
        """The named models with all that they need, and the tests that these can answer. What has no rows, since the
        `empty` tables have none, needs nothing."""
        if not names:
            return self
        by_name = {model.name: model for model in self.models}
        without_rows = set(empty)
        for model in self.models:
            if is_empty(model.empty_without, without_rows):
                without_rows.add(model.name)
        wanted: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in by_name:
                raise UsageError(f"no model named {name!r}", choice_hint(name, by_name))
            if name not in wanted:
                wanted.add(name)
                pending += () if name in without_rows else by_name[name].depends_on
        return Plan(
            tuple(model for model in self.models if model.name in wanted),
            tuple(test for test in self.tests if wanted.issuperset(test.depends_on)),
            self.steps,
            frozenset(without_rows & by_name.keys()),
        )

    def bronze(self) -> dict[str, tuple[str, ...]]:
        """The bronze tables that each model is made of, those that it reads itself first."""
        found: dict[str, tuple[str, ...]] = {}
        for model in self.models:
            every = (*model.sources, *(table for name in model.depends_on for table in found[name]))
            found[model.name] = tuple(dict.fromkeys(table for table in every if table.startswith("bronze_")))
        return found

    @cached_property
    def fingerprint(self) -> str:
        """Of all that decides what the tables hold, and which tests they pass."""
        models = ((model.name, model.columns, model.sql, model.increment) for model in self.models)
        return hashlib.sha256(repr([*models, *self.tests]).encode()).hexdigest()


def to_files(plan: Plan) -> dict[str, str]:
    models = {
        model.name: {
            "description": model.description,
            "columns": {column.name: f"{column.type}: {column.description}" for column in model.columns},
            "empty_without": _words(model.empty_without),
            **({"increment": model.increment} if model.increment else {}),
        }
        for model in plan.models
    }
    steps = {step.name: {"columns": step.columns, "empty_without": _words(step.empty_without)} for step in plan.steps}
    index = {"models": models, "steps": steps}
    contents = {INDEX: json.dumps(index, indent=1, ensure_ascii=False) + "\n"}
    for model in plan.models:
        tests = (test for test in plan.tests if test.table == model.name)
        bodies = (
            f"\n-- test: {test.name}({test.column}) {test.severity}\n{test.query or f'where {test.condition}'}\n"
            for test in tests
        )
        contents[f"{model.name}.sql"] = f"{without_steps(model.sql, plan.steps)}\n{''.join(bodies)}"
    return contents | {f"{step.name}.sql": f"{step.sql}\n" for step in plan.steps}


def from_files(read: Callable[[str], str]) -> Plan:
    index = json.loads(read(INDEX))
    steps = {
        name: Step(name, read(f"{name}.sql").rstrip("\n"), entry["columns"], _sets(entry))
        for name, entry in index["steps"].items()
    }
    models, tests = [], []
    for name, entry in index["models"].items():
        sql, *parts = TEST.split(read(f"{name}.sql"))
        columns = tuple(Column(column, *words.split(": ", 1)) for column, words in entry["columns"].items())
        whole = with_steps(sql.rstrip("\n"), steps)
        increment = entry.get("increment", {})
        models.append(PlannedModel(name, entry["description"], columns, whole, increment, _sets(entry)))
        for test, column, severity, body in zip(*(parts[part::4] for part in range(4)), strict=True):
            query = body.rstrip("\n")
            is_condition = query.startswith("where ")
            words = {"condition": query.removeprefix("where ")} if is_condition else {"query": query}
            tests.append(PlannedTest(test, name, column, severity, **words))
    return Plan(tuple(models), tuple(tests), tuple(steps.values()))


def _words(sets: EmptyWithout) -> list[str]:
    return [" ".join(tables) for tables in sets]


def _sets(entry: Mapping[str, Any]) -> EmptyWithout:
    return tuple(tuple(words.split()) for words in entry["empty_without"])


@cache
def shipped_plan() -> Plan:
    folder = files("gpulake.model").joinpath(FOLDER)
    return from_files(lambda name: folder.joinpath(name).read_text(encoding="utf-8"))


def from_manifest(manifest: dict[str, Any]) -> Plan:
    """What of dbt's manifest a build needs."""
    nodes = manifest["nodes"].values()
    steps: dict[str, Step] = {}
    models = []
    plain = _plain_macros(manifest["macros"].values())
    for node in nodes:
        if node["resource_type"] == "model" and node["config"]["materialized"] != "ephemeral":
            steps |= _steps(node)
            models.append(_planned_model(node, steps, plain))
    tests = [_planned_test(node) for node in nodes if node["resource_type"] == "test"]
    ordered = _in_order(models)
    return Plan(
        tuple(ordered),
        tuple(
            test for model in ordered for test in sorted(tests, key=lambda test: test.name) if test.table == model.name
        ),
        tuple(steps.values()),
    )


def _steps(node: dict[str, Any]) -> dict[str, Step]:
    """Those that dbt has put into the SQL of a model, each after those that it reads."""
    found = {}
    for part in node["extra_ctes"]:
        name = part["id"].rpartition(".")[2]
        found[name] = Step(name, part["sql"].strip().removeprefix(f"{PREFIX}{name} as (").removesuffix(")").strip(), {})
    return found


def _plain_macros(macros: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Those of the project that have no parameters and are plain SQL."""
    found = (MACRO.fullmatch(one["macro_sql"].strip()) for one in macros if one["package_name"] == PROJECT)
    return {f"{one['name']}()": one["sql"] for one in found if one}


def _planned_model(node: dict[str, Any], steps: Mapping[str, Step], plain: Mapping[str, str]) -> PlannedModel:
    injected = ", ".join(part["sql"] for part in node["extra_ctes"])
    sql = node["compiled_code"].strip()
    if injected:
        assert f"with {injected}, " in sql, f"{node['name']} begins with no common table expression"
        sql = with_steps(sql.replace(f"with {injected}, ", "with "), steps)
    return PlannedModel(
        name=node["name"],
        description=node["description"],
        columns=tuple(
            Column(column["name"], column["data_type"], column["description"]) for column in node["columns"].values()
        ),
        sql=sql,
        increment=_expanded(node["config"]["meta"].get("increment", {}), plain),
    )


def _planned_test(node: dict[str, Any]) -> PlannedTest:
    table, sql = node["attached_node"].rsplit(".", 1)[-1], node["compiled_code"].strip()
    found = ROW_BY_ROW.fullmatch(sql)
    words = {"condition": found[2].strip()} if found and found[1] == table else {"query": sql}
    return PlannedTest(node["name"], table, node["column_name"] or "", node["config"]["severity"].lower(), **words)


def _expanded(part: Any, plain: Mapping[str, str]) -> Any:
    """SQL of a .yml, where dbt expands no macro."""
    if isinstance(part, dict):
        return {name: _expanded(value, plain) for name, value in part.items()}
    for call, sql in plain.items():
        part = part.replace(call, sql)
    return KEY.sub(lambda call: surrogate_key(call[1]), part)


def _tables(sql: str, catalogue: str) -> tuple[str, ...]:
    return tuple(sorted({table for database, table in TABLE.findall(sql) if database == catalogue}))


def _in_order(models: Sequence[PlannedModel]) -> list[PlannedModel]:
    """What a model needs stands before it; else by name."""
    ordered: dict[str, PlannedModel] = {}
    while len(ordered) < len(models):
        ready = [one for one in models if one.name not in ordered and ordered.keys() >= set(one.depends_on)]
        ordered |= {one.name: one for one in sorted(ready, key=lambda one: one.name)}
    return list(ordered.values())
