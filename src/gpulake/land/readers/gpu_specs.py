"""GPU specifications as the TechPowerUp tables print them: CSV with a header row and quoted fields."""

from __future__ import annotations

from gpulake.core.types import CsvLayout
from gpulake.land.readers import READERS, Sample, header_layout


@READERS.register("gpu_specs")
class GpuSpecsReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        return header_layout(sample, "bronze_gpu_specs", quote='"')
