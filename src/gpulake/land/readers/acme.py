"""AcmeTrace (Hu et al., NSDI'24): jobs of the clusters Seren and Kalos, as CSV with a header row."""

from __future__ import annotations

from gpulake.core.types import CsvLayout
from gpulake.land.readers import READERS, Sample, header_layout


@READERS.register("acme")
class AcmeReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        return header_layout(sample, "bronze_acme_seren_jobs") or header_layout(sample, "bronze_acme_kalos_jobs")
