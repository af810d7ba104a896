"""Questions to the lake: an SQL file for each theme. Pages, API and downloads share them.

A file is a template of Jinja. Each question begins with `-- question: name` and its other fields, of which a long one
continues on lines that are indented; then comes its SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpulake.core.config import Config
from gpulake.core.tables import bronze_tables, written_tables
from gpulake.lake import LakeReader

if TYPE_CHECKING:
    import pyarrow as pa

Value = str | int | float | None
Kind = Literal["text", "date", "integer", "number"]
TYPES: Mapping[Kind, type] = {"text": str, "date": date, "integer": int, "number": float}
FILTERS = ("days", "cluster", "gpu_type")
MOST_TEXT = 300
_FILTER = re.compile(r"\{(days|cluster|gpu_type)(?::([\w.\"]+)(?:,([\w.\"]+))?)?\}")
_CLAUSE = re.compile(r"\[\[(\w+)\s(.*?)\]\]", re.DOTALL)
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)", re.IGNORECASE)
_FIELD = re.compile(r"-- (\w+): (.*)")
_CONTINUED = "--     "
_FURTHER = re.compile(r"^-- (details|sort \w+)\n", re.MULTILINE)
_COLUMN = {"days": "dt", "cluster": "cluster_id", "gpu_type": "gpu_type"}


@dataclass(frozen=True)
class Option:
    """A value that a question takes beside the filters. Its SQL reads getvariable('name'): NULL if not given."""

    name: str
    about: str
    kind: Kind = "text"
    is_needed: bool = False
    choices: tuple[str, ...] = ()
    usual: str = ""  # the default choice


@dataclass(frozen=True)
class Computed:
    """A table that a Python function computes, and that the question's SQL reads as `computed`."""

    make: Callable[[LakeReader, Config, Mapping[str, Value]], pa.Table]
    tables: frozenset[str]  # that it reads
    filters: frozenset[str] = frozenset()  # that it applies


@dataclass(frozen=True)
class Question:
    """One SELECT. A filter narrows it where it says {days}, {cluster} or {gpu_type}; or {days:column}.

    {days:began,ended}: rows that lasted from one time to another, on at least one of the days.

    [[name ...]] is part of the query only if that value was given: unused filters cost nothing.

    With `details`, `sql` only finds rows; `details` is a SELECT from `page` that completes them, one for each `key`.
    Of a million rows only those of the page are then joined and summed.
    """

    name: str  # in the API, and in URLs
    title: str  # what its rows are
    sql: str
    order: str  # the terms of its ORDER BY: rows always come in the same order
    options: tuple[Option, ...] = ()
    about: str = ""  # definitions and units, for people
    computed: Computed | None = None
    is_expensive: bool = False  # few rows that take long to find: counted in the same query
    details: str = ""
    key: str = ""  # of `details`; not part of the answer
    sorts: Mapping[str, str] = field(
        default_factory=dict
    )  # columns that only `details` has: a SELECT of the key and the column

    @cached_property
    def filters(self) -> frozenset[str]:
        computed = self.computed.filters if self.computed else frozenset()
        return computed | frozenset(match[1] for match in _FILTER.finditer(self.sql))

    @cached_property
    def tables(self) -> frozenset[str]:
        """Those of the lake that it reads."""
        named = set(_TABLE.findall(" ".join((self.sql, self.details, *self.sorts.values()))))
        ours = set(written_tables()) | set(bronze_tables())
        computed = self.computed.tables if self.computed else frozenset()
        return computed | frozenset(name for name in named if name in ours or name.startswith(("silver_", "gold_")))

    def query(self, given: Mapping[str, Value], order: str = "true") -> str:
        """Its SQL under the given filters. Their values are bound, never interpolated."""
        rows = self.rows_sql(given)
        if not self.details:
            return f"SELECT * FROM ({rows}) ORDER BY {order}"
        # The order may name the key, which is not part of the answer.
        return f"WITH page AS ({rows}) SELECT * EXCLUDE ({self.key}) FROM ({self.details}) ORDER BY {order}"

    def page(self, given: Mapping[str, Value], order: str, rows: str, sort: str = "") -> str:
        """A page of rows, chosen before they are completed; and, where that is cheap, their total as `answered_rows`.

        To sort by a column that only `details` has, that column alone is looked up.
        """
        is_counted = self.counts(given)
        found = f"WITH found AS {'MATERIALIZED' if is_counted else ''} ({self.rows_sql(given)})"
        count = ", (SELECT count(*) FROM found) AS answered_rows" if is_counted else ""
        if not self.details:
            return f"{found} SELECT *{count} FROM found ORDER BY {order} {rows}"
        source, columns = "found", "*"
        if sort in self.sorts:
            source, columns = f"found LEFT JOIN ({self.sorts[sort]}) USING ({self.key})", f"* EXCLUDE ({sort})"
        page = f"page AS MATERIALIZED (SELECT {columns} FROM {source} ORDER BY {order} {rows})"
        return f"{found}, {page} SELECT * EXCLUDE ({self.key}){count} FROM ({self.details}) ORDER BY {order}"

    def counts(self, given: Mapping[str, Value]) -> bool:
        """Whether rows are counted in the same query: of a million rows a second query is faster."""
        return self.is_expensive or (bool(self.details) and any(value is not None for value in given.values()))

    def rows_sql(self, given: Mapping[str, Value]) -> str:
        """The SQL that finds the rows, under the given filters."""

        def condition(match: re.Match[str]) -> str:
            kind, column = match[1], match[2] or _COLUMN[match[1]]
            if kind != "days":
                return f"{column} = getvariable('{kind}')" if given.get(kind) is not None else "true"
            begin = f"{column} >= getvariable('from')::DATE" if given.get("from") is not None else "true"
            if match[3] and begin != "true":
                begin = f"({begin} OR {match[3]} > getvariable('from')::DATE)"
            end = f"{column} < getvariable('to')::DATE + 1" if given.get("to") is not None else "true"
            return f"({begin} AND {end})"

        chosen = _CLAUSE.sub(lambda part: part[2] if given.get(part[1]) is not None else "", self.sql)
        return _FILTER.sub(condition, chosen)


@cache
def questions() -> Mapping[str, Question]:
    """Every question by its name."""
    known: dict[str, Question] = {}
    for head, body in sections("question"):
        question = _question(head, body)
        if question.name in known:
            raise AssertionError(f"two questions are named {question.name}")
        known[question.name] = question
    return dict(sorted(known.items()))


def sections(kind: str) -> Iterator[tuple[dict[str, str], str]]:
    """Fields and SQL of each section that begins with `-- kind: name`."""
    for text in _rendered():
        yield from map(_head, re.split(rf"^(?=-- {kind}: )", text, flags=re.MULTILINE)[1:])


@cache
def _rendered() -> tuple[str, ...]:
    from gpulake.show.web.questions.options import VALUES

    sql = Environment(  # noqa: S701 - SQL, not HTML
        loader=PackageLoader("gpulake.show.web", "questions"), undefined=StrictUndefined, trim_blocks=True
    )
    sql.globals.update(VALUES)
    return tuple(sql.get_template(file).render() for file in sql.list_templates(["sql"]))


def _question(head: dict[str, str], body: str) -> Question:
    from gpulake.show.web.questions import holders, job_facts
    from gpulake.show.web.questions.options import OPTIONS

    sql, *further = _FURTHER.split(body)
    parts = dict(zip(further[::2], further[1::2], strict=True))
    name = head.pop("question")
    question = Question(
        name=name,
        title=head.pop("title"),
        sql=sql,
        order=head.pop("order"),
        options=tuple(OPTIONS[option] for option in head.pop("options", "").split(", ") if option),
        about=head.pop("about", ""),
        computed=(holders.COMPUTED | job_facts.COMPUTED).get(name),
        is_expensive=head.pop("is_expensive", "no") == "yes",
        details=parts.pop("details", ""),
        key=head.pop("key", ""),
        sorts={part.removeprefix("sort "): column for part, column in parts.items()},
    )
    if head:
        raise AssertionError(f"question {name} has unknown fields: {', '.join(head)}")
    return question


def _head(section: str) -> tuple[dict[str, str], str]:
    """The fields at its top, and what follows them."""
    fields: dict[str, str] = {}
    lines = section.splitlines(keepends=True)
    while lines and (lines[0].startswith(_CONTINUED) or _FIELD.match(lines[0])):
        line = lines.pop(0)
        if line.startswith(_CONTINUED):
            last = next(reversed(fields))
            fields[last] += f" {line.removeprefix(_CONTINUED).strip()}"
        elif field := _FIELD.match(line):
            fields[field[1]] = field[2].strip()
    return fields, "".join(lines)
