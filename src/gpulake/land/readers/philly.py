"""Philly (Jeon et al., ATC'19): the job log, one JSON list of jobs, and the list of machines, as CSV.

A job has attempts, an attempt runs on machines, and a machine gives some of its GPUs: the log becomes a row for each
machine. The log has 150 MB, so that it is read a job at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.json_items import items
from gpulake.land.readers import READERS, Sample

KEYS = ("jobid", "vc", "attempts")
MACHINE_HEADER = ("machineId", "number of GPUs", "single GPU mem")


@READERS.register("philly")
class PhillyReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        if sample.header == MACHINE_HEADER:
            table = bronze_tables()["bronze_philly_machines"]
            # A quote, since fields have blanks before them, which only a careful look takes away.
            return CsvLayout(table, table.column_names, has_header=True, quote='"')
        head = "".join(sample.lines)
        if head.lstrip().startswith("[") and all(f'"{key}"' in head for key in KEYS):
            table = bronze_tables()["bronze_philly_attempts"]
            return CsvLayout(table, table.column_names, has_header=False, rewrite=_attempts)
        return None


def _attempts(path: Path) -> Iterator[TextRow | BadRow]:
    for number, (_, _, job, text) in enumerate(items(path, what="job"), start=1):
        try:
            rows = [tuple(_word(field) for field in fields) for fields in _rows(job)]
        except (TypeError, KeyError, AttributeError):
            yield BadRow(number, "not a job: a key is missing or not of its kind", text)
            continue
        for fields in rows:
            yield TextRow(number, fields, text)


def _rows(job: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """A row for each machine of each attempt; one for an attempt without machines and for a job without attempts."""
    of_job = (job["status"], job["vc"], job["jobid"], job["user"], job["submitted_time"])
    attempts = job["attempts"]
    for number, attempt in enumerate(attempts, start=1):
        times = (number, attempt.get("start_time"), attempt.get("end_time"))
        for machine in attempt["detail"]:
            gpus = machine["gpus"]
            yield *of_job, *times, machine["ip"], ",".join(gpus), len(gpus)
        if not attempt["detail"]:
            yield *of_job, *times, None, None, None
    if not attempts:
        yield *of_job, *(None,) * 6


def _word(value: object) -> str:
    if value is None or value == "None":
        return ""
    if isinstance(value, (str, int)):
        return str(value)
    raise TypeError(type(value).__name__)
