"""Logs of the kernel: dmesg with any kind of time, /dev/kmsg, pstore, syslog; recognised by the file's name.

Every line lands; the event in it (an Xid, a kill for memory, a link) is in columns of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpulake.core.lines import text_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.json_text import word
from gpulake.formats.kernel import Kills, event_in, read_line
from gpulake.land.inputs import KERNEL_LOG
from gpulake.land.readers import READERS, Sample, content_columns

TABLE = "bronze_kernel_log"
COLUMNS = content_columns(TABLE)
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


@READERS.register("kernel_log")
class KernelLogReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        if not KERNEL_LOG.search(sample.name):
            return None
        lines = [read_line(line) for line in sample.lines]
        if not any(line.at is not None or line.elapsed_ms is not None for line in lines):
            return None
        table = bronze_tables()[TABLE]
        # Times since boot are counted back from the file's: of two files of a node they differ for the same line.
        return CsvLayout(
            table,
            COLUMNS,
            has_header=False,
            constants=sample.file_constants(),
            is_replaced=not any(line.at for line in lines),
            rewrite=_rows,
        )


def _rows(path: Path) -> Iterator[TextRow | BadRow]:
    kills = Kills()
    for number, raw in text_lines(path):
        if isinstance(raw, BadRow):
            yield raw
            continue
        text = raw.strip()
        if not text:
            continue
        line = read_line(text)
        at_ms = line.elapsed_ms
        if at_ms is None and line.at is not None:
            at_ms = round(line.at.timestamp() * 1000)
        event = event_in(line.message)
        is_counted = event is not None and kills.is_new(event, at_ms or 0)
        kind, subject, code, pid = event if event is not None and is_counted else (None, None, None, None)
        fields = (
            "" if line.at is None else line.at.isoformat(sep=" ", timespec="microseconds"),
            word(line.elapsed_ms),
            UNPRINTABLE.sub(" ", line.message),
            kind or "",
            UNPRINTABLE.sub(" ", subject or ""),
            word(code),
            word(pid),
        )
        yield TextRow(number, fields, text)
