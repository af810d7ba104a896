"""Alibaba's GPU trace of 2023 (Weng et al., ATC'23): lists of nodes and of pods, as CSV with a header row.

Lists overlap, and one node id means different nodes in two of them: each row says which list it is from.
"""

from __future__ import annotations

from pathlib import PurePath

from gpulake.core.types import CsvLayout
from gpulake.land.readers import READERS, Sample, header_layout


@READERS.register("openb")
class OpenbReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        stem = PurePath(sample.name).stem
        return header_layout(sample, "bronze_openb_nodes", list=stem) or header_layout(
            sample, "bronze_openb_pods", list=stem
        )
