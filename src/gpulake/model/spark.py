"""Models worked out by Apache Spark: it reads the Parquet files of bronze and writes Parquet files, which become the
tables of the staged build. What is tested, scored and published after that is the same as of any build.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulake.core.errors import BuildError, LakeError
from gpulake.core.tables import bronze_tables
from gpulake.lake import Staging
from gpulake.lake.engine import DAMAGED, REPAIR, Connection, name, text
from gpulake.lake.types import engine_types
from gpulake.model.emptiness import without_rows
from gpulake.model.plan import Plan, PlannedModel
from gpulake.model.pruning import PREFIX, READ, is_empty, without_steps
from gpulake.model.sources import SETTINGS
from gpulake.model.spark_sql import Function, Translation

# By DuckDB's type, Spark's.
TYPES = {
    "varchar": "string",
    "double": "double",
    "bigint": "bigint",
    "integer": "int",
    "smallint": "smallint",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "timestamp with time zone": "timestamp",
    "json": "string",
    "varchar[]": "array<string>",
    "double[]": "array<double>",
}
WIDER = {("int", "bigint"), ("smallint", "bigint"), ("smallint", "int")}
SESSION = {
    # A day must not depend on the time zone of a machine, and what does not fit is an error, as DuckDB's is.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@contextmanager
def session(master: str) -> Iterator[Any]:
    """Spark's session. Settings of a cluster are taken from its spark-defaults.conf, as ever."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with warnings.catch_warnings():
        # Of pandas, which is not used.
        warnings.simplefilter("ignore", FutureWarning)
        from pyspark.sql import SparkSession

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName("gpulake build").master(master)
    local = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4"} if master.startswith("local") else {}
    for key, value in {**SESSION, **local}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@dataclass
class SparkEngine:
    spark: Any
    staging: Staging
    plan: Plan
    described: Connection
    folder: Path
    _functions: set[str] = field(default_factory=set)
    _views: set[str] = field(default_factory=set)

    def create(self, model: PlannedModel, empty: Collection[str]) -> int:
        sql = without_steps(model.sql, self.plan.steps)
        types = {column.name: TYPES[column.type] for column in model.columns}
        frame = self._query(model.name, sql, empty)
        files = self._write(model.name, frame.select(*self._as_agreed(model.name, frame, types)))
        self._view(f"lake__{model.name}", self._read([files], types))
        return self._load(model, files)

    def _load(self, model: PlannedModel, files: Path) -> int:
        columns = ", ".join(f"{name(column.name)} {column.type}" for column in model.columns)
        target = f'"lake"."main"."{model.name}"'
        self.staging.connection.execute(f"CREATE OR REPLACE TABLE {target} ({columns})")
        rows = f"FROM read_parquet({text(str(files / '*.parquet'))}, hive_partitioning = false)"
        row = self.staging.connection.execute(f"INSERT INTO {target} BY NAME {rows}").fetchone()
        return int(row[0]) if row else 0

    def _query(self, table: str, sql: str, empty: Collection[str]) -> Any:
        """The frame of a query, after the steps and tables that it reads. Steps are written down: inlined into each
        reader, as DuckDB has them, they make plans that take Spark minutes."""
        for step in dict.fromkeys(READ.findall(sql)):
            self._step(step, empty)
        translation = Translation(self.described)
        translated = translation.of(sql)
        for function in translation.functions.values():
            self._register(function)
        for view in dict.fromkeys(re.findall(r"\b(?:landed|lake)__\w+", translated)):
            self._need(view)
        with _named(table):
            return self.spark.sql(translated)

    def _step(self, step_name: str, empty: Collection[str]) -> None:
        view = f"{PREFIX}{step_name}"
        if view in self._views:
            return
        step = next(one for one in self.plan.steps if one.name == step_name)
        types = {column: TYPES[kind] for column, kind in step.columns.items()}
        if is_empty(step.empty_without, empty):
            self._view(view, self._read([], types))
            return
        frame = self._query(step_name, step.sql, empty)
        files = self._write(step_name, frame.select(*self._as_agreed(step_name, frame, types)))
        self._view(view, self._read([files], types))

    def _as_agreed(self, table: str, frame: Any, types: Mapping[str, str]) -> list[Any]:
        """The columns in the types of the contract: whole numbers may become wider, and nothing else."""
        from pyspark.sql import functions

        found = {one.name: one.dataType.simpleString() for one in frame.schema}
        wrong = {
            column: f"{found.get(column)}, not {types.get(column)}"
            for column in {**found, **types}
            if found.get(column) != types.get(column) and (found.get(column), types.get(column)) not in WIDER
        }
        if wrong:
            raise BuildError(f"{table} breaks its contract on Spark: {wrong}", "build with DuckDB, and report this")
        return [functions.col(f"`{column}`").cast(kind).alias(column) for column, kind in types.items()]

    def _write(self, table: str, frame: Any) -> Path:
        path = self.folder / table
        with _named(table):
            frame.write.mode("overwrite").option("compression", "zstd").parquet(str(path))
        return path

    def _read(self, paths: Sequence[Path], types: Mapping[str, str]) -> Any:
        schema = ", ".join(f"`{column}` {kind}" for column, kind in types.items())
        if not paths:
            return self.spark.createDataFrame([], schema)
        # Spark takes a name for a pattern.
        plain = [re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path)) for path in paths]
        return self.spark.read.schema(schema).parquet(*plain)

    def _need(self, view: str) -> None:
        """What landed, and the settings. A model stands before those that read it; one without rows was not made."""
        if view in self._views:
            return
        catalogue, _, table = view.partition("__")
        if catalogue == "lake":
            columns = next(model.columns for model in self.plan.models if model.name == table)
            self._view(view, self._read([], {column.name: TYPES[column.type] for column in columns}))
        elif table in SETTINGS:
            path = self.folder / f"{table}.parquet"
            self.staging.connection.execute(f"COPY landed.main.{table} TO {text(str(path))}")
            self._view(
                view, self._read([path], {column: TYPES[kind] for column, (kind, _) in SETTINGS[table][1].items()})
            )
        else:
            if table not in self.staging.files:
                raise LakeError(f"{DAMAGED} {table}: its log", REPAIR)
            types = {column: TYPES[kind.lower()] for column, kind in engine_types(bronze_tables()[table]).items()}
            self._view(view, self._read(self.staging.files[table], types))

    def _view(self, view: str, frame: Any) -> None:
        frame.createOrReplaceTempView(view)
        self._views.add(view)

    def _register(self, function: Function) -> None:
        if function.name not in self._functions:
            from gpulake.model.spark_worker import arrow_function

            self.spark.udf.register(function.name, arrow_function(function.sql, function.returns))
            self._functions.add(function.name)


@contextmanager
def spark_engine(staging: Staging, plan: Plan, master: str) -> Iterator[SparkEngine]:
    folder = staging.lake.staging / "spark"
    folder.mkdir()
    with session(master) as spark, without_rows(plan) as described:
        yield SparkEngine(spark, staging, plan, described, folder.absolute())


@contextmanager
def _named(table: str) -> Iterator[None]:
    """Errors of Spark with the name of the table that it works out."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        said = re.sub(r"\s+", " ", str(error)).strip()
        raise BuildError(f"{table} failed on Spark: {said[:400]}", "build with DuckDB: gpulake build") from error
