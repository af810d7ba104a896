"""What of a model's SQL can be left out where tables have no rows: planning it takes longer than running it.

dbt puts an ephemeral model, a step, into the SQL of its readers. Which tables decide whether a model or a step has rows
is found when the plan is compiled (emptiness.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpulake.lake.engine import name as quoted

PREFIX = "__dbt__cte__"
READ = re.compile(rf"{PREFIX}(\w+)")
# A step that only renames columns of what landed.
RENAMING = re.compile(r'(?!.*\b(?:with|join|group by|over|union|distinct)\b)\s*select\b.+\sas\s.+\sfrom "landed"', re.S)
# Or one that says that it is to be streamed: of its many columns each reader needs a few.
STREAMED = "-- Streamed:"
COMMENT = re.compile(r"--.*")
FIRST = re.compile(r"^with ", re.M)
# It has no rows if all tables of one of these have none.
EmptyWithout = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Step:
    name: str
    sql: str
    columns: Mapping[str, str]  # the type of each
    empty_without: EmptyWithout = ()

    @cached_property
    def text(self) -> str:
        """As it stands in the SQL of a reader. What is streamed is read again by each reader: keeping it would take the
        memory, and the time, of all columns of all rows."""
        is_streamed = self.sql.startswith(STREAMED) or RENAMING.match(COMMENT.sub("", self.sql))
        kept = "not materialized " if is_streamed else ""
        return f"{PREFIX}{self.name} as {kept}(\n{self.sql}\n),\n"

    @cached_property
    def empty_select(self) -> str:
        columns = ", ".join(f"null::{kind} as {quoted(column)}" for column, kind in self.columns.items())
        return f"select {columns} where false"

    @cached_property
    def empty_text(self) -> str:
        return f"{PREFIX}{self.name} as ({self.empty_select}),\n"


def is_empty(empty_without: EmptyWithout, empty: Collection[str]) -> bool:
    return any(set(tables) <= set(empty) for tables in empty_without)


def with_steps(sql: str, steps: Mapping[str, Step]) -> str:
    """The SQL, which begins with a common table expression, preceded by the steps that it reads."""
    needed: dict[str, Step] = {}

    def add(read: str) -> None:
        for name in READ.findall(read):
            if name not in needed:
                add(steps[name].sql)
                needed[name] = steps[name]

    add(sql)
    return FIRST.sub(lambda _: f"with {''.join(step.text for step in needed.values())}", sql, count=1)


def without_steps(sql: str, steps: Sequence[Step]) -> str:
    for step in steps:
        sql = sql.replace(step.text, "")
    return sql


def pruned(sql: str, steps: Sequence[Step], empty: Collection[str]) -> str:
    """The SQL without what reads only tables that have no rows. Each step stands after those that it reads."""
    for step in reversed(steps):
        if step.text in sql:
            is_unread = len(re.findall(rf"{PREFIX}{step.name}\b", sql)) == 1
            if is_unread:
                sql = sql.replace(step.text, "")
            elif is_empty(step.empty_without, empty):
                sql = sql.replace(step.text, step.empty_text)
    return sql
