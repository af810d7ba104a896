"""Slurm's accounting, as `sacct --parsable2` prints it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from gpulake.core.lines import text_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats import slurm as words
from gpulake.formats.sacct import NO_NODES, Header, header_of, joined_rows
from gpulake.land.readers import READERS, Sample

TABLE = "bronze_slurm_jobs"
RENAMED = {"Reserved": "Planned"}  # by version 21.08
NO_NUMBER = {"UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None"}
# NO_VAL and INFINITE, of 32 and of 64 bits, where sacct prints them as numbers.
NO_NUMBER |= {str(2**bits - less) for bits in (32, 64) for less in (1, 2)}


@READERS.register("slurm")
class SlurmReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        if header_of(sample.lines[0]) is None:
            return None
        table = bronze_tables()[TABLE]
        return CsvLayout(table, table.column_names, has_header=True, rewrite=_rewrite)


def _rewrite(path: Path) -> Iterator[TextRow | BadRow]:
    long: list[BadRow] = []
    lines = _lines(path, long)
    header = next((found for _, line in lines if line and (found := header_of(line))), None)
    if header is None:
        return
    for row in joined_rows(lines, header):
        yield row if isinstance(row, BadRow) else _typed(row, header)
    yield from long


def _lines(path: Path, long: list[BadRow]) -> Iterator[tuple[int, str]]:
    """Only a line feed ends a line: a field may hold what else Unicode takes for an end. A long one reads as empty."""
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            long.append(line)
            yield number, ""
        else:
            yield number, line.rstrip("\r\n")


@cache
def _kinds() -> dict[str, str]:
    return bronze_tables()[TABLE].column_types


def _typed(found: TextRow, header: Header) -> TextRow | BadRow:
    kinds = _kinds()
    row: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in zip(header.names, found.fields, strict=True):
        column = RENAMED.get(name, name)
        if column not in kinds or column in row:
            others[name] = value
        else:
            row[column] = "" if kinds[column] == "number" and value in NO_NUMBER else value
    try:
        row |= _worked_out(row)
    except ValueError as error:
        return BadRow(found.line_number, str(error), found.text)
    others = {name: value for name, value in others.items() if value}
    row["other_fields"] = json.dumps(others, separators=(",", ":")) if others else ""
    return replace(found, fields=tuple(row.get(column, "") for column in kinds))


def _worked_out(row: dict[str, str]) -> dict[str, str]:
    """What SQL should not have to."""
    shown = words.job_id(row.get("JobID") or row.get("JobIDRaw", ""))
    raw = words.job_id(row["JobIDRaw"]).job_id if row.get("JobIDRaw") else ""
    base_state, cancelled_by = words.state(row["State"])
    gpus, gpu_type = words.gpus(row.get("AllocTRES", ""))
    wanted = row.get("ReqTRES", "")
    requested_gpus, requested_type = words.gpus(wanted)
    nodes = row.get("NodeList", "")
    node_count = row.get("NNodes") or row.get("AllocNodes", "")
    cpus = row.get("NCPUS") or row.get("AllocCPUS") or row.get("ReqCPUS", "")
    elapsed = words.elapsed_seconds(row.get("ElapsedRaw", ""), row.get("Elapsed", ""))
    return {
        "job_id": shown.job_id,
        "raw_job_id": raw or (shown.job_id if shown.is_plain else ""),
        "array_job_id": shown.array_job_id,
        "array_task_id": shown.array_task_id,
        "het_job_id": shown.het_job_id,
        "het_offset": shown.het_offset,
        "step": shown.step,
        "base_state": base_state,
        "cancelled_by": cancelled_by,
        "gpus": gpus,
        "requested_gpus": requested_gpus,
        "gpu_type": gpu_type or requested_type,
        "memory_bytes": words.memory_bytes(row.get("ReqMem", ""), wanted, node_count, cpus),
        "nodes": "" if nodes in NO_NODES else ",".join(words.hosts(nodes)),
        "gpu_util_ratio": words.gpu_ratio(row.get("TRESUsageInAve", "")),
        "js1": words.summary(row.get("AdminComment", "")),
        **({} if row.get("ElapsedRaw") or elapsed is None else {"ElapsedRaw": f"{elapsed:.0f}"}),
    }
