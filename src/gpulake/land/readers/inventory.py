"""What no scheduler records: machines, their outages, and checkpoints of jobs. CSV with a header row."""

from __future__ import annotations

from gpulake.core.types import CsvLayout
from gpulake.land.readers import READERS, Sample, header_layout

TABLES = ("bronze_machines", "bronze_outages", "bronze_checkpoints")


@READERS.register("inventory")
class InventoryReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        # People write these by hand, and reasons have commas.
        layouts = (header_layout(sample, table, quote='"') for table in TABLES)
        return next((layout for layout in layouts if layout), None)
