"""Jobs in the Standard Workload Format, as the Parallel Workloads Archive has them.

Times are seconds from the header's UnixStartTime; without it, from the epoch. Processors are CPUs, unless the header
has a line `; Processors: GPUs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath

from gpulake.core.lines import text_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.swf import CPU, FIELDS, GPU, PROCESSORS, START, comment, is_row
from gpulake.land.readers import READERS, Sample

COLUMNS = (*FIELDS, "unix_start_time", "processors")


@READERS.register("swf")
class SwfReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        lines = [line for line in (*sample.lines, *sample.later) if line.strip()]
        rows = [line for line in lines if not line.lstrip().startswith(";")]
        is_header = len(rows) < len(lines) and lines[0].lstrip().startswith(";")
        if not (is_row(rows[0]) if rows else is_header and sample.name.endswith(".swf")):
            return None
        stem = PurePath(sample.name).stem
        table = bronze_tables()["bronze_swf_jobs"]
        return CsvLayout(table, COLUMNS, has_header=False, constants=(("workload", stem),), rewrite=_rows)


def _rows(path: Path) -> Iterator[TextRow | BadRow]:
    start, processors = "", CPU
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        text = line.strip()
        if text.startswith(";"):
            name, value = comment(text)
            start = value if name == START and value.isdecimal() else start
            processors = GPU if name == PROCESSORS and value == GPU else processors
            continue
        fields = text.split()
        if fields and len(fields) != len(FIELDS):
            yield BadRow(number, f"{len(fields)} fields where {len(FIELDS)} are expected", text)
        elif fields:
            yield TextRow(number, (*fields, start, processors), text)
