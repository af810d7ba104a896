"""Alibaba PAI v2020 (Weng et al., NSDI'22): seven tables, published as CSV without a header row."""

from __future__ import annotations

import re

from gpulake.core.errors import InputError
from gpulake.core.tables import Table, bronze_tables
from gpulake.core.types import CsvLayout
from gpulake.land.readers import READERS, Sample

TABLES = {
    "pai_job_table": "bronze_job_events",
    "pai_task_table": "bronze_task_table",
    "pai_instance_table": "bronze_instance_table",
    "pai_sensor_table": "bronze_sensor_table",
    "pai_group_tag_table": "bronze_group_tag_table",
    "pai_machine_spec": "bronze_machine_spec",
    "pai_machine_metric": "bronze_machine_metrics",
}
NUMBER = r"[\d.eE+-]*"
JOB = MACHINE = "(?:[0-9a-f]{24}|synth-[0-9a-f]{18})"
INSTANCE = "(?:[0-9a-f]{60}|synth-[0-9a-f]{54})"
SHORTER = "(?:synth-)?[0-9a-f]{0,60}"
USER = "(?:synth-)?[0-9a-f]{12}"
GROUP = "(?:[0-9a-f]{32}|synth-[0-9a-f]{26})"
# What a first row looks like, for a file that was renamed: the lengths of the ids tell the tables apart.
SHAPES = {
    "pai_job_table": rf"{JOB},{INSTANCE},{USER},\w+,{NUMBER},{NUMBER}",
    "pai_task_table": rf"{JOB},\w+,{NUMBER},\w+(,{NUMBER}){{5}},\w*",
    "pai_instance_table": rf"{JOB},\w+(,{SHORTER}){{3}},\w+,{NUMBER},{NUMBER},{SHORTER}",
    "pai_sensor_table": rf"{JOB},\w+,{INSTANCE},{INSTANCE},{MACHINE},[^,]*(,{NUMBER}){{10}}",
    "pai_group_tag_table": rf"{INSTANCE},{USER},\w*,{GROUP},\w*",
    "pai_machine_spec": rf"{MACHINE},\w+,{NUMBER},{NUMBER},{NUMBER}",
    "pai_machine_metric": rf"{INSTANCE},{MACHINE}(,{NUMBER}){{10}}",
}


@READERS.register("pai")
class PaiReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        first = sample.lines[0]
        for source, table_name in TABLES.items():
            table = bronze_tables()[table_name]
            fields = tuple(field.strip().lower() for field in first.split(","))
            if set(fields) == set(table.column_names):
                return CsvLayout(table, fields, has_header=True)
            if sample.name.startswith(source):
                _check_width(sample, fields, table)
                return CsvLayout(table, table.column_names, has_header=False)
        for source, shape in SHAPES.items():
            if re.fullmatch(shape, first):
                table = bronze_tables()[TABLES[source]]
                return CsvLayout(table, table.column_names, has_header=False)
        return None


def _check_width(sample: Sample, fields: tuple[str, ...], table: Table) -> None:
    """A first row of the wrong width, or a header of other names, is the whole file's fault and not that row's."""
    expected = ", ".join(table.column_names)
    if len(fields) != len(table.columns) and all(len(line.split(",")) != len(table.columns) for line in sample.lines):
        raise InputError(
            f"{sample.name}: {len(fields)} comma-separated columns where {len(table.columns)} are expected",
            f"the columns of {table.name} are: {expected}",
        )
    unknown = [field for field in fields if field not in table.column_names]
    if unknown and len(unknown) < len(fields):
        raise InputError(f"{sample.name}: unknown column {unknown[0]!r} in its header", f"the columns are: {expected}")
