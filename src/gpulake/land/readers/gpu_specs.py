"""GPU specifications as the TechPowerUp tables print them: CSV with a header row and quoted fields."""

from __future__ import annotations

import csv

from gpulake.core.tables import bronze_tables
from gpulake.core.types import CsvLayout
from gpulake.land.readers import READERS, Sample


@READERS.register("gpu_specs")
class GpuSpecsReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        table = bronze_tables()["bronze_gpu_specs"]
        fields = next(csv.reader(sample.lines[:1]), [])
        if set(fields) != set(table.column_names):
            return None
        return CsvLayout(table, tuple(fields), has_header=True, quote='"')
