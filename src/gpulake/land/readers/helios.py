"""Helios (Hu et al., SC'21): jobs of SenseTime's clusters, and how many GPUs each virtual cluster had on each day.

The files are called the same in every cluster; the cluster is the name of their folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpulake.core.lines import text_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.land.readers import READERS, Sample, header_layout

CLUSTERS = ("Venus", "Earth", "Saturn", "Uranus")


@READERS.register("helios")
class HeliosReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        folder = sample.folder.capitalize()
        cluster = folder if folder in CLUSTERS else "helios"
        if _is_gpu_numbers(sample.header):
            table = bronze_tables()["bronze_helios_gpu_numbers"]
            columns = ("date", "vc", "gpus")
            return CsvLayout(table, columns, True, constants=(("cluster", cluster),), rewrite=_gpu_numbers)
        # The authors' scripts join the clusters into one file, which then has the column.
        return header_layout(sample, "bronze_helios_jobs", cluster=cluster) or header_layout(
            sample, "bronze_helios_jobs"
        )


def _is_gpu_numbers(header: tuple[str, ...]) -> bool:
    first, *clusters, last = header if len(header) > 2 else ("", "")
    return (first, last) == ("date", "total") and all(name.startswith("vc") for name in clusters)


def _gpu_numbers(path: Path) -> Iterator[TextRow | BadRow]:
    """A day is a line and a virtual cluster a column; each cluster has others, so each becomes a row."""
    clusters: list[str] = []
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        text = line.rstrip("\r\n")
        day, *counts = text.split(",")
        if number == 1:
            clusters = [name.strip() for name in counts]
        elif text and len(counts) != len(clusters):
            yield BadRow(number, f"{len(counts) + 1} columns where {len(clusters) + 1} are expected", text)
        elif text:
            for vc, count in zip(clusters, counts, strict=True):
                yield TextRow(number, (day, vc, count.strip()), text)
