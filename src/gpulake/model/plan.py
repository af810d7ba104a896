"""The plan: what dbt compiled from the project, in the order in which it runs. Plain SQL, so a build needs no dbt."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.tables import Column, Table

FILE_NAME = "plan.json"
# A data test that looks at the rows of its table one by one: no join, no group, no other table.
ROW_BY_ROW = re.compile(
    r'select [^()]+?\sfrom "lake"\."main"\."(\w+)"\s+where\s+((?:(?!\b(?:select|group by)\b).)+)', re.S
)


@dataclass(frozen=True)
class PlannedModel:
    name: str
    description: str
    columns: tuple[Column, ...]
    depends_on: tuple[str, ...]
    scope: str  # what a new file touches of it: rows of a job, holding, worker, machine or day; whole: all
    sql: str

    def as_table(self) -> Table:
        return Table(self.name, self.description, self.columns)


@dataclass(frozen=True)
class PlannedTest:
    name: str
    table: str
    column: str
    severity: Literal["error", "warn"]
    depends_on: tuple[str, ...]
    sql: str

    @property
    def condition(self) -> str | None:
        """Of the rows that fail it, where it looks at them one by one: many such tests are asked in one query."""
        found = ROW_BY_ROW.fullmatch(self.sql.strip())
        return found[2] if found and found[1] == self.table else None


@dataclass(frozen=True)
class Plan:
    models: tuple[PlannedModel, ...]
    tests: tuple[PlannedTest, ...]

    def select(self, names: Sequence[str]) -> Plan:
        """The named models with all that they need, and the tests that these can answer."""
        if not names:
            return self
        by_name = {model.name: model for model in self.models}
        wanted: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in by_name:
                raise UsageError(f"no model named {name!r}", choice_hint(name, by_name))
            if name not in wanted:
                wanted.add(name)
                pending += by_name[name].depends_on
        return Plan(
            tuple(model for model in self.models if model.name in wanted),
            tuple(test for test in self.tests if wanted.issuperset(test.depends_on)),
        )

    def fingerprint(self) -> str:
        return hashlib.sha256(to_json(self).encode()).hexdigest()


def to_json(plan: Plan) -> str:
    return json.dumps(asdict(plan), indent=1, ensure_ascii=False) + "\n"


def from_json(content: str) -> Plan:
    document = json.loads(content)
    models = tuple(
        PlannedModel(
            **{
                **model,
                "columns": tuple(Column(**column) for column in model["columns"]),
                "depends_on": tuple(model["depends_on"]),
            }
        )
        for model in document["models"]
    )
    tests = tuple(PlannedTest(**{**test, "depends_on": tuple(test["depends_on"])}) for test in document["tests"])
    return Plan(models, tests)


@cache
def shipped_plan() -> Plan:
    return from_json(files("gpulake.model").joinpath(FILE_NAME).read_text(encoding="utf-8"))


def from_manifest(manifest: dict[str, Any]) -> Plan:
    """What of dbt's manifest a build needs."""
    nodes = manifest["nodes"]
    every = {key: node for key, node in nodes.items() if node["resource_type"] == "model"}
    # dbt has put the SQL of an ephemeral model into that of the models that read it.
    inlined = {key: node for key, node in every.items() if node["config"]["materialized"] == "ephemeral"}
    models = {key: {**node, "needs": _needs(node, inlined)} for key, node in every.items() if key not in inlined}
    tests = [node for node in nodes.values() if node["resource_type"] == "test"]
    planned = [
        PlannedModel(
            name=models[key]["name"],
            description=models[key]["description"],
            columns=tuple(
                Column(column["name"], column["data_type"], column["description"])
                for column in models[key]["columns"].values()
            ),
            depends_on=_names(models[key]["needs"], models),
            scope=models[key]["config"]["meta"].get("scope", "whole"),
            sql=models[key]["compiled_code"].strip() + "\n",
        )
        for key in _in_order(models)
    ]
    tested = [
        PlannedTest(
            name=node["name"],
            table=models[node["attached_node"]]["name"],
            column=node["column_name"] or "",
            severity=node["config"]["severity"].lower(),
            depends_on=_names(_needs(node, inlined), models),
            sql=node["compiled_code"].strip() + "\n",
        )
        for node in sorted(tests, key=lambda node: (node["attached_node"], node["name"]))
    ]
    return Plan(tuple(planned), tuple(tested))


def _needs(node: dict[str, Any], inlined: dict[str, Any]) -> set[str]:
    """What a node reads, through the models that are inlined into it."""
    direct = set(node["depends_on"]["nodes"])
    return (direct - inlined.keys()).union(*(_needs(inlined[key], inlined) for key in direct & inlined.keys()))


def _names(needs: Collection[str], models: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(key.rsplit(".", 1)[-1] for key in needs if key in models))


def _in_order(models: dict[str, Any]) -> list[str]:
    ordered: list[str] = []
    while len(ordered) < len(models):
        ready = [
            key
            for key in sorted(models)
            if key not in ordered and all(needed in ordered for needed in models[key]["needs"] if needed in models)
        ]
        ordered += ready
    return ordered
