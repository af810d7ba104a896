"""What no scheduler records: which machines there are, and when they were out of service. CSV with a header row."""

from __future__ import annotations

from gpulake.core.types import CsvLayout
from gpulake.land.readers import READERS, Sample, header_layout


@READERS.register("inventory")
class InventoryReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        # People write these by hand, and reasons have commas.
        return header_layout(sample, "bronze_machines", quote='"') or header_layout(sample, "bronze_outages", quote='"')
