"""One more day: in a copy of the last build, rebuild the rows that the new files touch.

Which rows these are is SQL in the .yml of each model (docs/design.md, Increments). The SQL of the model runs as it is,
on inputs narrowed to what those rows need, and its result replaces them. A model without such SQL is rebuilt whole,
unless nothing that it reads has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from gpulake.core.tables import bronze_tables
from gpulake.lake import Staging
from gpulake.lake.archive import seen_from
from gpulake.lake.engine import text
from gpulake.lake.gold import Changes
from gpulake.model.plan import Plan, PlannedModel, PlannedTest
from gpulake.model.pruning import is_empty, pruned
from gpulake.model.retained import Retained
from gpulake.model.samples import Samples

NewFiles = Mapping[str, Sequence[Path]]
MANY_ROWS = 50_000  # narrowed ones, which are not kept for the tests


@dataclass(frozen=True)
class Touched:
    touched_jobs: int
    touched_days: int
    late_attempts: int


class TouchesTooMuchError(Exception):
    """It is not possible, or not worth it, to extend the last build: make a whole one instead."""


@dataclass(frozen=True)
class Scope:
    """Table touched.<name>: the keys whose rows are rebuilt. Views touched.<name>.<input>: the inputs, narrowed."""

    name: str
    key: str
    keyed: Mapping[str, str] = field(default_factory=dict)  # bronze table: SQL of the key of a row
    touched: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    bounds: str = ""  # SQL of the least and the most instant that matter to the inputs

    @cached_property
    def columns(self) -> set[str]:
        return set(self.key.split(", "))

    def tables(self, catalogue: str) -> set[str]:
        """The tables of a catalogue that its SQL names."""
        words = "\n".join((self.touched, self.bounds, *self.inputs.values()))
        return set(re.findall(rf"\b{catalogue}\.(\w+)", words)) - {"this"}

    @cached_property
    def rows_of_others(self) -> list[tuple[str, str]]:
        """Rows of a model, narrowed to another scope, of which its touched keys are made: the scope and the model."""
        return re.findall(r"\btouched\.(\w+)\.(\w+)", self.touched)


class Increment:
    def __init__(self, staging: Staging, plan: Plan, base: Path, new_files: NewFiles) -> None:
        self.connection = staging.connection
        self.plan = plan
        self.base = base
        self.new_files = {table: files for table, files in new_files.items() if files}
        self.empty = set(staging.empty)  # tables that have no rows
        self.scopes = _scopes(plan.models)
        self.changed: set[str] = set()  # models that are not what they were
        self._days: dict[str, frozenset[date]] = {}  # of models with days that are built by their scope
        self._prepared: set[str] = set()
        self._bounds: dict[str, tuple[str, str]] = {}  # of scopes, as literals: the engine passes over the rest
        self._samples: dict[str, Samples] = {}
        self._asked: set[str] = set()  # what speaks against an increment, and has no rows
        self._retained = Retained.of(staging.lake)
        self._seen = seen_from(self._retained.state)
        # Tables of rows, by scope and model: those that were made, which are kept for tests, and narrowed inputs.
        self._made: set[tuple[str, str]] = set()
        self._inputs: set[tuple[str, str]] = set()
        self._run(f"ATTACH {text(str(base))} AS was (READ_ONLY)")
        self._run("ATTACH ':memory:' AS new")
        self._run("ATTACH ':memory:' AS touched")

    def build(self) -> Touched:
        if unknown := sorted(table for table in self.new_files if not self._is_accepted(table)):
            raise TouchesTooMuchError(f"new files in {', '.join(unknown)}")
        named = {table for scope in self.scopes.values() for table in (*scope.keyed, *scope.tables("new"))}
        for table in named.union(*(model.sources for model in self.plan.models if "samples" in model.increment)):
            files = ", ".join(text(str(file)) for file in self.new_files.get(table, ()))
            rows = f"read_parquet([{files}], hive_partitioning = false)" if files else f"landed.{table} WHERE false"
            seen = f"WHERE {self._seen[table]}" if files and table in self._seen else ""
            self._run(f"CREATE VIEW new.{table} AS FROM {rows} {seen}")
        pending = {model.name for model in self.plan.models}
        for model in self._in_order():
            pending.remove(model.name)
            if not is_empty(model.empty_without, self.empty):
                self._build(replace(model, sql=pruned(model.sql, self.plan.steps, self.empty)))
            elif "samples" in model.increment:
                self._samples_of(model).note_no_days()
            if not self.connection.execute(f"SELECT 1 FROM lake.main.{model.name} LIMIT 1").fetchall():
                self.empty.add(model.name)
            self._forget(pending)
        counts = {
            name: query for model in self.plan.models for name, query in model.increment.get("counts", {}).items()
        }
        for scope in self.scopes.values():
            if any(f"touched.{scope.name}" in query for query in counts.values()):
                self._prepare(scope)
        return Touched(**{name: self._number(_in_full(query)) for name, query in counts.items()})

    def changes(self) -> Changes:
        """What is to be exported again."""
        unchanged = frozenset(model.name for model in self.plan.models) - self.changed
        return Changes(self.base, unchanged, self._days)

    def narrowed(self, test: PlannedTest, sql: str) -> str:
        """The SQL of data tests of one table, on the rows that this build made."""
        scope, samples = self.scopes.get(test.table), self._samples.get(test.table)
        if samples:
            # Samples that are there twice are so at one time.
            return sql.replace(f'"lake"."main"."{test.table}"', samples.rows_made)
        return self._narrowed(sql, scope, test.depends_on) if scope else sql

    def is_unchanged(self, test: PlannedTest) -> bool:
        """Nothing that the test reads has changed since the last build passed it."""
        return test.severity == "error" and not test.sources and self.changed.isdisjoint(test.depends_on)

    def _is_accepted(self, table: str) -> bool:
        """Every model that reads the table is rebuilt whole, or says which of its rows new files of it touch."""
        readers = (self.scopes.get(model.name) for model in self.plan.models if table in model.sources)
        return all(scope is None or table in {*scope.keyed, *scope.inputs, *scope.tables("new")} for scope in readers)

    def _in_order(self) -> Iterable[PlannedModel]:
        """A model comes after what it reads and after what the SQL of its scope reads."""
        pending = {model.name: model for model in self.plan.models}
        while pending:
            model = next(model for model in pending.values() if pending.keys().isdisjoint(self._needs(model)))
            yield pending.pop(model.name)

    def _needs(self, model: PlannedModel) -> set[str]:
        needed, scope = set(model.depends_on), self.scopes.get(model.name)
        return needed | self._needs_of(scope) if scope else needed

    def _needs_of(self, scope: Scope) -> set[str]:
        named = scope.tables("touched") & self.scopes.keys() - {scope.name}
        others = (self._needs_of(self.scopes[name]) for name in named)
        # touched.<model>_days of a model of samples is there once that model is built.
        models = {name.removesuffix("_days") for name in scope.tables("touched")}
        samples = {model.name for model in self.plan.models if "samples" in model.increment and model.name in models}
        return scope.tables("lake").union(samples, {model for _, model in scope.rows_of_others}, *others)

    def _build(self, model: PlannedModel) -> None:
        target, scope = f'"lake"."main"."{model.name}"', self.scopes.get(model.name)
        if "samples" in model.increment:
            self._build_samples(model)
        elif scope:
            self._prepare(scope)
            self._refuse(model)
            if not self._number(f"SELECT count(*) FROM touched.{scope.name}"):
                return
            sql = self._narrowed(model.sql, scope, model.depends_on)
            keys, fresh = f"touched.{scope.name}", f"touched.{scope.name}.{model.name}"
            # Models of the same scope and data tests read these rows instead of looking for them in the whole table.
            self._run(f"CREATE TABLE {fresh} AS FROM ({sql}) SEMI JOIN {keys} USING ({scope.key})")
            self._retained.replace(self.connection, model, fresh, keys, scope.key)
            self._made.add((scope.name, model.name))
            self._note_days(model, scope)
            self._run(f"DELETE FROM {target} WHERE ({scope.key}) IN (SELECT {scope.key} FROM {keys})")
            self._run(f"INSERT INTO {target} FROM {fresh}")
            self.changed.add(model.name)
        elif not self.changed.isdisjoint(model.depends_on) or not self.new_files.keys().isdisjoint(model.sources):
            self._run(f"CREATE OR REPLACE TABLE {target} AS {model.sql}")
            self._retained.add(self.connection, model)
            self._refuse(model)
            if self._content("lake", model) != self._content("was", model):
                self.changed.add(model.name)

    def _build_samples(self, model: PlannedModel) -> None:
        samples = self._samples[model.name] = self._samples_of(model)
        is_touched = samples.find_touched()
        self._refuse(model)
        if is_touched:
            samples.rebuild()
            self.changed.add(model.name)
        if any(f"{model.name}_days" in scope.touched for scope in self.scopes.values()):
            samples.note_days()

    def _samples_of(self, model: PlannedModel) -> Samples:
        return Samples(self.connection, model, self._retained.horizon(model.name))

    def _note_days(self, model: PlannedModel, scope: Scope) -> None:
        """The days of the rows that go and of those that come."""
        if "dt" not in {column.name for column in model.columns}:
            return
        was = f"SELECT dt FROM was.{model.name} SEMI JOIN touched.{scope.name} USING ({scope.key})"
        rows = f"{was} UNION SELECT dt FROM touched.{scope.name}.{model.name}"
        self._days[model.name] = frozenset(day for (day,) in self.connection.execute(rows).fetchall())

    def _content(self, catalogue: str, model: PlannedModel) -> Any:
        """Equal for equal rows, whatever their order."""
        rows = f'FROM "{catalogue}"."main"."{model.name}" AS one'
        return self.connection.execute(f"SELECT count(*), sum(hash(one)::HUGEINT) {rows}").fetchone()

    def _refuse(self, model: PlannedModel) -> None:
        for reason, query in model.increment.get("unless", {}).items():
            # Tables of samples ask the same of all pages.
            if query not in self._asked and self._number(f"SELECT count(*) FROM ({_in_full(query)})"):
                raise TouchesTooMuchError(reason)
            self._asked.add(query)

    def _prepare(self, scope: Scope) -> None:
        if scope.name in self._prepared:
            return
        self._prepared.add(scope.name)
        for name in sorted(scope.tables("touched") & self.scopes.keys() - {scope.name}):
            self._prepare(self.scopes[name])
        for name, model in scope.rows_of_others:
            self._narrow(self.scopes[name], model)
        new = (f"SELECT {key} AS {scope.key} FROM new.{table}" for table, key in scope.keyed.items())
        parts = [*new, *([f"({_in_full(scope.touched, scope)})"] if scope.touched else [])]
        self._run(f"CREATE TABLE touched.{scope.name} AS {' UNION '.join(parts)}")
        self._run(f"CREATE SCHEMA touched.{scope.name}")
        if scope.keyed:
            self._narrow_bronze(scope)
        for table, query in scope.inputs.items():
            if table in bronze_tables():
                self._view(scope, table, query)

    def _narrow_bronze(self, scope: Scope) -> None:
        # The old files are read again only where the last build has rows of these keys.
        is_known = any(
            self._number(f"SELECT count(*) FROM touched.{scope.name} SEMI JOIN was.{name} USING ({scope.key})")
            for name, other in self.scopes.items()
            if other is scope
        )
        for table in bronze_tables().keys() - scope.inputs.keys():
            # Other tables than these have no rows of these keys.
            key = scope.keyed.get(table)
            known = f"{key} IN (FROM touched.{scope.name})" if key else "false"
            self._view(
                scope, table, f"FROM landed.{table} WHERE {known}" if is_known or not key else f"FROM new.{table}"
            )

    def _view(self, scope: Scope, table: str, query: str) -> None:
        self._run(f"CREATE VIEW touched.{scope.name}.{table} AS {_in_full(query, scope)}")

    def _narrowed(self, sql: str, scope: Scope, needed: Sequence[str]) -> str:
        """The SQL on the rows that the scope's keys need."""
        bronze = bronze_tables().keys() if scope.keyed else bronze_tables().keys() & scope.inputs.keys()
        names = bronze | {name for name in needed if self._narrow(scope, name)}
        for name in names:
            sql = re.sub(rf'"(lake|landed)"\."main"\."{name}"', f'touched.{scope.name}."{name}"', sql)
        return sql

    def _narrow(self, scope: Scope, name: str) -> bool:
        """Whether a scope narrows a model: the rows are written down at their first use, since several models and
        their tests read them."""
        columns = {column.name for model in self.plan.models if model.name == name for column in model.columns}
        query = scope.inputs.get(name)
        if query is None and scope.columns <= columns:
            query = f"FROM lake.{name} SEMI JOIN touched.this USING ({scope.key})"
        if query is not None:
            # Samples are many and their readers few: they are not written down.
            kind = "VIEW" if name in self._samples else "TABLE"
            query = self._bounded(query, scope)
            self._run(f"CREATE {kind} IF NOT EXISTS touched.{scope.name}.{name} AS {_in_full(query, scope)}")
            if kind == "TABLE" and (scope.name, name) not in self._made:
                self._inputs.add((scope.name, name))
        return query is not None

    def _forget(self, pending: set[str]) -> None:
        """Drops many narrowed rows that no model reads any more: large models need the memory. Tests narrow again."""
        models = [model for model in self.plan.models if model.name in pending]
        needed = {
            (scope.name, name)
            for model in models
            if (scope := self.scopes.get(model.name))
            for name in model.depends_on
        }
        needed |= {read for model in models if (scope := self.scopes.get(model.name)) for read in scope.rows_of_others}
        for scope_name, name in self._inputs - needed:
            if self._number(f"SELECT count(*) FROM touched.{scope_name}.{name}") >= MANY_ROWS:
                self._run(f"DROP TABLE touched.{scope_name}.{name}")
        self._inputs &= needed

    def _bounded(self, query: str, scope: Scope) -> str:
        """The query of an input, with the bounds of its scope as literals."""
        if not scope.bounds:
            return query
        if scope.name not in self._bounds:
            bounds = f"SELECT lo::VARCHAR, hi::VARCHAR FROM ({_in_full(scope.bounds, scope)}) AS bounds (lo, hi)"
            ((low, high),) = self.connection.execute(bounds).fetchall()
            self._bounds[scope.name] = (_instant(low or "infinity"), _instant(high or "-infinity"))
        low, high = self._bounds[scope.name]
        return query.replace("bounds.from_at", low).replace("bounds.until_at", high)

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)

    def _number(self, query: str) -> int:
        row = self.connection.execute(query).fetchone()
        return int(row[0]) if row else 0


def _scopes(models: Iterable[PlannedModel]) -> dict[str, Scope]:
    """The scope of each model that has one. `like` shares that of another model, or all of it but its touched keys."""
    specs = {model.name: model.increment for model in models}
    scopes = {
        name: Scope(
            name,
            spec["key"],
            spec.get("keyed", {}),
            spec.get("touched", ""),
            spec.get("inputs", {}),
            spec.get("bounds", ""),
        )
        for name, spec in specs.items()
        if "key" in spec
    }
    pending = {name: spec for name, spec in specs.items() if "like" in spec}
    while pending:
        for name, spec in list(pending.items()):
            if other := scopes.get(spec["like"]):
                touched = spec.get("touched", "")
                inputs = {**other.inputs, **spec.get("inputs", {})}
                scopes[name] = replace(other, name=name, keyed={}, touched=touched, inputs=inputs) if touched else other
                del pending[name]
    return scopes


def _instant(value: str) -> str:
    return f"{text(value)}::TIMESTAMPTZ"


def _in_full(sql: str, scope: Scope | None = None) -> str:
    """Tables of the attached databases under their full names, as a view needs them."""
    named = sql.replace("touched.this", f"touched.{scope.name}") if scope else sql
    return re.sub(r"\b(landed|new|was|lake|touched)\.(\w+)\b(?!\.)", r"\1.main.\2", named)
