"""Slurm's jobs: as `sacct --parsable2` or `scontrol show job` prints them, and --json of sacct, squeue and scontrol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from gpulake.core.lines import line_blocks, text_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, Rewritten, RowBlock, TextRow
from gpulake.formats.json_text import word
from gpulake.formats.sacct import NO_NUMBER, RENAMED, Header, Joining, header_of, joined_rows
from gpulake.formats.scontrol import Note, note_of
from gpulake.formats.slurm_jobs import Said, is_job_records, is_json_jobs, json_jobs, record_jobs, worked_out
from gpulake.land.readers import READERS, Sample

TABLE = "bronze_slurm_jobs"
COLUMNS = tuple(name for name in bronze_tables()[TABLE].column_names if name != "other_fields")
Jobs = Callable[[Path], Iterator[Said | BadRow]]
WORKED_OUT = (
    *("job_id", "raw_job_id", "array_job_id", "array_task_id", "het_job_id", "het_offset", "step", "base_state"),
    *("cancelled_by", "gpus", "requested_gpus", "gpu_type", "memory_bytes", "nodes", "gpu_util_ratio", "js1"),
    *("ElapsedRaw", "other_fields"),
)


@READERS.register("slurm")
class SlurmReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        note = note_of(sample.lines[0])
        first = next((line for line in sample.lines[1 if note else 0 :] if line.strip()), "")
        if is_job_records(first):
            known = ("Cluster", "asked_at", "time_zone") if note else ()
            return _layout(note, record_jobs, tuple(name for name in COLUMNS if name not in known))
        if is_json_jobs("\n".join((*sample.lines, *sample.later))):
            return _layout(None, json_jobs, COLUMNS)
        header = header_of(sample.lines[1 if note and len(sample.lines) > 1 else 0])
        if header is None:
            return None
        table = bronze_tables()[TABLE]
        filled = {*WORKED_OUT, *(RENAMED.get(name, name) for name in header.names)}
        columns = tuple(name for name in table.column_names if name in filled)
        rewrite = partial(_rewrite, columns=columns)
        said = _said(note) if note else ()
        constants = tuple((name, value) for name, value in said if name not in columns)
        return CsvLayout(table, columns, has_header=True, constants=constants, rewrite=rewrite)


def _said(note: Note) -> tuple[tuple[str, str], ...]:
    every = (("Cluster", note.cluster), ("asked_at", note.asked_at), ("time_zone", note.time_zone))
    return tuple((name, value) for name, value in every if value)


def _layout(note: Note | None, read: Jobs, columns: tuple[str, ...]) -> CsvLayout:
    rewrite = partial(_jobs, read=read, columns=columns)
    constants = _said(note) if note else ()
    return CsvLayout(bronze_tables()[TABLE], columns, has_header=False, constants=constants, rewrite=rewrite)


def _jobs(path: Path, read: Jobs, columns: tuple[str, ...]) -> Iterator[TextRow | BadRow]:
    for found in read(path):
        if isinstance(found, BadRow):
            yield found
            continue
        number, row, text = found
        try:
            row |= worked_out(row)
        except ValueError as error:
            yield BadRow(number, str(error), text)
            continue
        yield TextRow(number, tuple(word(row.get(name, "")) for name in columns), text)


def _rewrite(path: Path, columns: tuple[str, ...]) -> Iterator[Rewritten]:
    header, header_line = _header(path)
    if header is None:
        return
    reading = _Reading(header, columns)
    for first, found in line_blocks(path):
        if isinstance(found, BadRow):
            yield found
            if first > header_line:
                yield from reading.line(first, b"")
        else:
            skipped = max(0, header_line + 1 - first)
            block = found.split(b"\n", skipped)[-1] if found.count(b"\n") >= skipped else b""
            yield from reading.block(first + skipped, block)
    yield from reading.finish()


def _header(path: Path) -> tuple[Header | None, int]:
    for number, line in text_lines(path):
        if not isinstance(line, BadRow) and (header := header_of(line.rstrip("\r\n"))):
            return header, number
    return None, 0


class _Reading:
    """Reads usual lines a block at a time and joins all others to rows."""

    def __init__(self, header: Header, columns: tuple[str, ...]) -> None:
        # With Arrow's parser of CSV, which nothing else of a landing needs.
        from gpulake.formats.sacct_columns import UsualRows, usual_rows

        table = bronze_tables()[TABLE]
        self._header = header
        self._columns = columns
        self._usual = usual_rows(header, table)
        self._rows = UsualRows(header, table)
        self._joining = Joining(header)
        # The last usual line waits: one behind it that is not usual may continue it.
        self._last = b""
        self._last_number = 0

    def block(self, first: int, block: bytes) -> Iterator[Rewritten]:
        """Whole lines; the first has this number."""
        if self._last:
            block, first, self._last = self._last + block, self._last_number, b""
        if block and not block.endswith(b"\n"):
            block += b"\n"
        number = first
        for is_usual, begin, end in self._usual.runs(block):
            if not is_usual:
                yield from self.line(number, block[begin:end])
                number += 1
                continue
            yield from self._typed(self._joining.finish())
            cut = block.rfind(b"\n", begin, end - 1) + 1 or begin
            for found in self._usual_rows(number, block[begin:cut]):
                number += found.count if isinstance(found, RowBlock) else 1
                yield found
            self._last, self._last_number = block[cut:end], number
            number += 1

    def line(self, number: int, line: bytes) -> Iterator[Rewritten]:
        """Only a line feed ends a line: a field may hold what else Unicode takes for an end."""
        yield from self._go_on()
        yield from self._typed(self._joining.add(number, _text(line)))

    def finish(self) -> Iterator[Rewritten]:
        yield from self._go_on()
        yield from self._typed(self._joining.finish())

    def _go_on(self) -> Iterator[Rewritten]:
        """Lets lines that follow continue the last usual one."""
        if self._last:
            last, self._last = self._last, b""
            yield from self._typed(self._joining.add(self._last_number, _text(last)))

    def _usual_rows(self, first: int, lines: bytes) -> Iterator[Rewritten]:
        if not lines:
            return
        row, bad = self._rows.columns(lines)
        yield RowBlock(row)
        texts = lines.split(b"\n") if bad else []
        for at in bad:
            yield from self._typed(joined_rows([(first + at, _text(texts[at]))], self._header))

    def _typed(self, rows: Iterator[TextRow | BadRow]) -> Iterator[TextRow | BadRow]:
        for row in rows:
            yield row if isinstance(row, BadRow) else _typed(row, self._header, self._columns)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


@cache
def _kinds() -> dict[str, str]:
    return bronze_tables()[TABLE].column_types


def _typed(found: TextRow, header: Header, columns: tuple[str, ...]) -> TextRow | BadRow:
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
        row |= worked_out(row)
    except ValueError as error:
        return BadRow(found.line_number, str(error), found.text)
    others = {name: value for name, value in others.items() if value}
    row["other_fields"] = json.dumps(others, separators=(",", ":")) if others else ""
    return replace(found, fields=tuple(row.get(column, "") for column in columns))
