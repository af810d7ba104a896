"""Answers: the rows of a question, page by page, cached until the tables behind them change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from gpulake.core.errors import UsageError, choice_hint
from gpulake.lake import Lake, LakeReader
from gpulake.lake.snapshots import Snapshots
from gpulake.lake.values import kind_of, values
from gpulake.show.web.questions import Question, Value
from gpulake.show.web.render_cache import RenderCache
from gpulake.show.web.viewers import NOBODY, Viewer

MOST_ROWS = 1_000  # of one answer; a download has them all
MOST_CACHED_CELLS = 500_000
LEAST_WEIGHT = 50  # cells: the cached key of an answer without rows takes memory, too
AT_ONCE = 4  # questions: more would share the same cores, and hold memory
BATCH_ROWS = 20_000
Row = dict[str, Any]
RANGES = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}  # the last days of the data
EVERY = "*"  # in place of a cluster: all of them, each by itself
_LAST_DAY = Question(
    "last_day",
    "the last day under observation",
    "SELECT max((observed_until - INTERVAL 1 MICROSECOND) AT TIME ZONE time_zone)::DATE AS day FROM silver_clusters "
    "WHERE {cluster}",
    "day",
)


@dataclass(frozen=True)
class Asked:
    """A question with its values, for one viewer."""

    question: Question
    given: Mapping[str, Value]
    viewer: Viewer
    limit: int = 100
    offset: int = 0
    sort: str = ""  # a column; with a minus before it from the largest

    @property
    def key(self) -> tuple[object, ...]:
        # Of a viewer only the groups change the rows.
        values = tuple(sorted((name, value) for name, value in self.given.items() if value is not None))
        return self.question.name, values, self.viewer.groups, self.limit, self.offset, self.sort


@dataclass(frozen=True)
class Answer:
    question: Question
    columns: tuple[tuple[str, str], ...]  # name and type
    rows: tuple[Row, ...]
    total: int
    version: str
    missing: tuple[str, ...] = ()  # tables that no build has made yet

    @cached_property
    def weight(self) -> int:
        """Its cells, and those within lists. `kind_of` calls a list text."""
        texts = [name for name, kind in self.columns if kind == "text"]
        lists = sum(len(row[name]) for name in texts for row in self.rows if isinstance(row[name], list))
        return LEAST_WEIGHT + len(self.rows) * len(self.columns) + lists


@dataclass
class Answers:
    lake: Lake
    snapshots: Snapshots = field(init=False)
    rendered: RenderCache = field(default_factory=RenderCache)
    _kept: OrderedDict[tuple[object, ...], Answer] = field(default_factory=OrderedDict)
    _asking: dict[tuple[object, ...], threading.Event] = field(default_factory=dict)
    _cells: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turns: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))
    _long_turns: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.snapshots = Snapshots(self.lake)

    def ask(self, asked: Asked) -> Answer:
        """Concurrent requests for the same answer share one query."""
        version = self.snapshots.version(asked.question.tables)
        key = (version, *asked.key)
        while True:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
                asking = self._asking.get(key)
                if asking is None:
                    asking = self._asking[key] = threading.Event()
                    break
            asking.wait()
        try:
            with self._lock:
                unsorted = self._kept.get((version, *replace(asked, sort="").key))
            answer = replace(self._ask(asked, unsorted), version=version)
            self._keep(key, answer)
            return answer
        finally:
            with self._lock:
                del self._asking[key]
            asking.set()

    def settled(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """With the days that a relative range means now. It moves on with the data."""
        result = {**given}
        if result.get("cluster") == EVERY:
            result["cluster"] = None
        days = RANGES.get(str(result.pop("range", None)))
        if days is None or result.get("from") or result.get("to"):
            return result
        rows = self.ask(Asked(_LAST_DAY, {"cluster": result.get("cluster")}, NOBODY, 1)).rows
        if rows and (last := rows[0]["day"]):
            result |= {"from": (last - timedelta(days=days - 1)).isoformat(), "to": last.isoformat()}
        return result

    def forget(self) -> None:
        """Answers of a replaced build are not asked for again."""
        with self._lock:
            self._kept.clear()
            self._cells = 0
        self.rendered.forget()

    def version(self, question: Question) -> str:
        return self.snapshots.version(question.tables)

    @contextmanager
    def stream(self, asked: Asked) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """All rows of a question, some at a time, for a download."""
        missing = self._missing(asked.question)
        if missing:
            raise UsageError(f"no build has made {', '.join(missing)} yet", "run: gpulake build")
        with self.snapshots.reading(asked.viewer.groups) as reader:
            self._compute(asked, reader)
            query = asked.question.query(asked.given, _order(asked))
            schema = reader.query(f"SELECT * FROM ({query}) LIMIT 0", **asked.given).schema
            yield schema, reader.stream(query, BATCH_ROWS, **asked.given)

    def _missing(self, question: Question) -> tuple[str, ...]:
        return tuple(sorted(question.tables - self.snapshots.tables()))

    def _ask(self, asked: Asked, unsorted: Answer | None = None) -> Answer:
        missing = self._missing(asked.question)
        if missing:
            return Answer(asked.question, (), (), 0, "", missing)
        with self._turn(asked.question), self.snapshots.reading(asked.viewer.groups) as reader:
            self._compute(asked, reader)
            rows = reader.query(_query(asked, reader, unsorted), **asked.given)
            rows, total = _counted(asked, reader, rows)
        columns = tuple((column.name, kind_of(column.type)) for column in rows.schema)
        return Answer(asked.question, columns, tuple(_rows(rows)), total, "")

    @contextmanager
    def _turn(self, question: Question) -> Iterator[None]:
        """Computed questions run one at a time, so that they never take all turns."""
        with ExitStack() as stack:
            if question.computed:
                stack.enter_context(self._long_turns)
            stack.enter_context(self._turns)
            yield

    def _compute(self, asked: Asked, reader: LakeReader) -> None:
        if asked.question.computed:
            reader.offer("computed", asked.question.computed.make(reader, self.lake.config, asked.given))

    def _keep(self, key: tuple[object, ...], answer: Answer) -> None:
        with self._lock:
            self._kept[key] = answer
            self._cells += answer.weight
            while self._cells > MOST_CACHED_CELLS:
                _, oldest = self._kept.popitem(last=False)
                self._cells -= oldest.weight


def _rows(table: pa.Table) -> list[Row]:
    columns = [values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _query(asked: Asked, reader: LakeReader, unsorted: Answer | None) -> str:
    """Values are bound, and the column to sort by must be one of the answer's.

    Who sorts has mostly seen the same page unsorted: its columns are known without another query.
    """
    question, given, page = asked.question, asked.given, f"LIMIT {int(asked.limit)} OFFSET {int(asked.offset)}"
    column = asked.sort.removeprefix("-")
    if not column:
        return question.page(given, _order(asked), page)
    if unsorted is not None:
        names = [name for name, _ in unsorted.columns]
    else:
        names = reader.query(f"SELECT * FROM ({question.query(given)}) LIMIT 0", **given).column_names
    if column not in names:
        raise UsageError(f"no column {column!r} to sort by", choice_hint(column, names))
    return question.page(given, _order(asked), page, column)


def _counted(asked: Asked, reader: LakeReader, rows: pa.Table) -> tuple[pa.Table, int]:
    """The total number of rows: from the answer, from a last page, or by another query."""
    counts: list[int] = []
    if "answered_rows" in rows.column_names:
        rows, counts = rows.drop_columns("answered_rows"), rows["answered_rows"].to_pylist()
    if counts:
        return rows, counts[0]
    if 0 < rows.num_rows < asked.limit or (not rows.num_rows and not asked.offset):
        return rows, asked.offset + rows.num_rows
    query = f"SELECT count(*) AS n FROM ({asked.question.rows_sql(asked.given)})"
    (count,) = reader.rows(query, **asked.given)
    return rows, count["n"]


def _order(asked: Asked) -> str:
    if not asked.sort:
        return asked.question.order
    quoted = '"' + asked.sort.removeprefix("-").replace('"', '""') + '"'
    return f"{quoted} {'DESC' if asked.sort.startswith('-') else 'ASC'} NULLS LAST, {asked.question.order}"
