"""Slurm's accounting, as `sacct --parsable2` prints it: any fields in any order, behind a header row.

A field may hold line breaks and there are no quotes: lines are joined until a row has as many fields as the header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.land import slurm_words as words
from gpulake.land.readers import READERS, Sample

TABLE = "bronze_slurm_jobs"
LONGEST_ROW_CHARACTERS = 1 << 20
RENAMED = {"Reserved": "Planned"}  # by version 21.08
NO_NUMBER = {"UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None"}
# NO_VAL and INFINITE, of 32 and of 64 bits, where nobody caught them on their way out.
NO_NUMBER |= {str(2**bits - less) for bits in (32, 64) for less in (1, 2)}
NO_NODES = {"", "None assigned", "None", "(null)", "Unknown"}


@READERS.register("slurm")
class SlurmReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        if _header(sample.lines[0]) is None:
            return None
        table = bronze_tables()[TABLE]
        return CsvLayout(table, table.column_names, has_header=True, rewrite=_rewrite)


@dataclass(frozen=True)
class Header:
    delimiter: str
    names: tuple[str, ...]
    width: int  # one more than names, where each line ends with a delimiter

    def begins_a_row(self, line: str) -> bool:
        """Whether the line has the id of a job where a row has it."""
        fields = line.split(self.delimiter)
        at = self.names.index("JobID" if "JobID" in self.names else "JobIDRaw")
        return at < len(fields) and words.JOB_ID.fullmatch(fields[at]) is not None


def _header(line: str) -> Header | None:
    """The delimiter may be anything but letters and blanks: --delimiter sets it."""
    found = re.match(r"[A-Za-z]+(?P<delimiter>[^A-Za-z ]+)", line)
    if not found:
        return None
    delimiter = found["delimiter"]
    fields = line.split(delimiter)
    names = tuple(fields[:-1] if not fields[-1] else fields)
    is_ours = "State" in names and ("JobID" in names or "JobIDRaw" in names)
    return Header(delimiter, names, len(fields)) if is_ours and all(name.isalpha() for name in names) else None


def _rewrite(path: Path) -> Iterator[TextRow | BadRow]:
    # Only a line feed ends a line here: a field may hold what else Unicode takes for an end.
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(file, start=1))
        header = next((found for _, line in lines if line and (found := _header(line))), None)
        if header is None:
            return
        for row in _joined(lines, header):
            yield row if isinstance(row, BadRow) else _typed(row, header)


def _joined(lines: Iterator[tuple[int, str]], header: Header) -> Iterator[TextRow | BadRow]:
    """Rows as wide as the header. A line that is whole, or begins like a row, never continues the one before it."""
    pending: list[str] = []
    begins = 0
    for number, line in lines:
        width = line.count(header.delimiter) + 1
        if pending:
            joined = [*pending, line]
            is_part = _width(joined, header) <= header.width and not header.begins_a_row(line)
            if width < header.width and is_part and sum(map(len, joined)) < LONGEST_ROW_CHARACTERS:
                pending = joined
                if _width(pending, header) == header.width:
                    yield _whole(begins, pending, header)
                    pending = []
                continue
            yield _broken(begins, pending, header)
            pending = []
        if width == header.width:
            yield _whole(number, [line], header)
        elif width > header.width:
            yield _broken(number, [line], header)
        elif line:
            pending, begins = [line], number
    if pending:
        yield _broken(begins, pending, header)


def _width(lines: list[str], header: Header) -> int:
    return sum(line.count(header.delimiter) for line in lines) + 1


def _whole(number: int, lines: list[str], header: Header) -> TextRow:
    fields = "\\n".join(lines).split(header.delimiter)
    return TextRow(number, tuple(fields[: len(header.names)]), "\n".join(lines))


def _broken(number: int, lines: list[str], header: Header) -> BadRow:
    reason = f"{_width(lines, header)} fields where {header.width} are expected"
    return BadRow(number, reason, "\n".join(lines))


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
    }
