"""Types that rooms exchange."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gpulake.core.tables import Table


@dataclass(frozen=True)
class BadRow:
    line_number: int
    reason: str
    text: str


@dataclass(frozen=True)
class TextRow:
    """A row of a file that does not have one row a line."""

    line_number: int  # of its first line, or its place in a list
    fields: tuple[str, ...]  # one for each of the layout's file columns; empty: there is none
    text: str  # verbatim


@dataclass(frozen=True)
class RowBlock:
    """Rows that a reader has checked itself: columns of text, by their names; what is empty or null is no value."""

    columns: Mapping[str, Any]  # Arrow's arrays of strings; a collector imports this where Arrow is not installed

    @property
    def count(self) -> int:
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True)
class JsonBlock:
    """JSON lines that a reader has checked itself: each is an object whose members are what their columns hold.

    A list or an object among them has no comma and no colon within its strings.
    """

    lines: bytes
    count: int
    offset: int | None = None  # where the same bytes are in the file; none if they are not, or it is not known


Rewritten: TypeAlias = TextRow | BadRow | RowBlock | JsonBlock
Rewrite: TypeAlias = Callable[[Path], Iterator[Rewritten]]


@dataclass(frozen=True)
class CsvLayout:
    """How the text of one file maps onto a bronze table."""

    table: Table
    file_columns: tuple[str, ...]  # in the file's order; the table's others are constants, or empty
    has_header: bool
    quote: str = ""  # empty: a line is a row, whatever it holds
    delimiter: str = ","
    # Columns that the file does not have, and their value in every row. A content that has landed keeps the first ones.
    constants: tuple[tuple[str, str], ...] = ()
    is_replaced: bool = False  # rows of such a file cannot be told from those of an earlier one of the same name
    rewrite: Rewrite | None = None  # for text that is not one row a line; the rest then describes what it gives


@dataclass(frozen=True)
class Payload:
    """A plain text file that is ready to land, and what it was made from."""

    source: str  # the path as given, and the member of an archive after '!'
    path: Path
    layout: CsvLayout


@dataclass(frozen=True)
class Landing:
    """One version of one source, landed whole. rows_read = rows_landed + rows_quarantined."""

    source: str
    table: str
    sha256: str
    size_bytes: int
    rows_read: int
    rows_landed: int
    rows_quarantined: int
    version: int
    landed_at: datetime
    file: str  # the Parquet file in the table's folder; empty: it was taken back, or the source went to another table
    is_new: bool = True
    # Versions of the source that it puts out of force, and in force again. None: all, in older logs.
    replaces: tuple[int, ...] | None = None
    restores: tuple[int, ...] = ()

    @property
    def landing_id(self) -> str:
        words = "\0".join((self.table, self.source, str(self.version)))
        return hashlib.sha256(words.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class FailedFile:
    """A file that was to land and did not. The other files of the command land without it."""

    source: str  # its path, and the member of an archive after '!'
    reason: str
    hint: str = ""


@dataclass(frozen=True)
class LandResult:
    """What became of each file of one command."""

    landings: tuple[Landing, ...] = ()  # new or from before
    unknown: tuple[str, ...] = ()  # files of a folder that no reader recognises: skipped
    failed: tuple[FailedFile, ...] = ()

    @property
    def rows_quarantined(self) -> int:
        return sum(landing.rows_quarantined for landing in self.landings)


@dataclass(frozen=True)
class Run:
    """One step that was run, as a row of table runs."""

    run_id: str
    step: str
    status: Literal["succeeded", "failed", "skipped"]
    started_at: datetime
    seconds: float
    detail: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class NudgeRecord:
    """One step of an escalation that was taken, or its result."""

    seen_at: datetime  # what it rests on was last seen then
    nudged_at: datetime
    run_id: str
    cluster_id: str
    job_id: str
    user_id: str | None
    step: Literal["warn", "final", "cancel"]
    # A message is sent; a cancellation is started, and then done, failed or unknown.
    status: Literal["sent", "started", "done", "failed", "unknown"]
    gpus: float
    gpu_hours: float
    exit_code: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class TestResult:
    """The result of one data test of a build."""

    name: str
    table: str
    column: str
    severity: Literal["error", "warn"]
    failures: int
    seconds: float

    @property
    def status(self) -> Literal["pass", "warn", "fail"]:
        if self.failures == 0:
            return "pass"
        return "warn" if self.severity == "warn" else "fail"


@dataclass(frozen=True)
class Finding:
    """Something that a person should know, the conclusion first."""

    kind: str
    subject: str
    headline: str
    detail: str
    value: float
    unit: str
    day: str = ""
    finding_id: str = ""  # stable: the same finding of a later build has the same id
    severity: str = ""  # critical, warning or info; empty: the default of its kind
    remedy: str = ""
    cluster_id: str | None = None
    node: str | None = None
    job_id: str | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None  # when it was last seen
    watch: str = ""  # that found it; empty: not found by a watch
    series: str = ""  # the subject of its series
    score: float | None = None  # 0..1, by the detector


@dataclass(frozen=True)
class DurationScore:
    """How well one method predicted run times, for tasks whose group had run so often before. None: no such task."""

    method: str  # recurrence, user or everybody
    past_runs: str  # all, 0, 1, 2 to 4, 5 to 9, 10 and more
    tasks: int
    instances: int
    from_group_ratio: float | None  # tasks whose group had runs to go by
    within_quarter_ratio: float | None  # tasks predicted within a quarter of the truth
    within_quarter_instances_ratio: float | None  # the same, each task counted by its instances
    median_log_error: float | None
