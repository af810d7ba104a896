"""Replaying: recorded telemetry is sent to a topic in the order of its time, at its own speed or a multiple of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.errors import InputError, UsageError
from gpulake.core.tables import cctf_tables
from gpulake.pull.kafka import Kafka, KafkaWriter

if TYPE_CHECKING:
    from gpulake.flow import Flow

Sent = tuple[float, bytes, bytes]  # time in milliseconds, key, message
HOUR_MS = 3_600_000
SPAN = "SELECT min(ts_ms) AS first, max(ts_ms) AS last FROM {table}"
ROWS = "SELECT {columns} FROM {table} WHERE ts_ms >= {since} AND ts_ms < {until} ORDER BY ts_ms"
SAMPLES = "bronze_prometheus_samples"
TIMED = tuple(name for name, table in cctf_tables().items() if "ts_ms" in table.column_names)
MOST_WAIT_SECONDS = 1.0  # at a time, so that it can be stopped


def replay(flow: Flow, source: str, kafka: Kafka, topic: str, kind: str, speed: float) -> int:
    """The number of messages that the broker has acknowledged."""
    if kind not in ("json", "cctf"):
        raise UsageError(
            f"telemetry is not replayed as {kind!r}", "choose json for samples, or cctf for collected rows"
        )
    rows = _from_lake(flow, kind) if source == "lake" else _from_files(Path(source), kind)
    begin = first = None
    count = 0
    with KafkaWriter(kafka, topic) as writer:
        for at_ms, key, message in rows:
            if begin is None or first is None:
                begin, first = flow.clock.now(), at_ms
            while speed and (wait := (at_ms - first) / 1000 / speed - (flow.clock.now() - begin).total_seconds()) > 0:
                writer.poll()
                flow.wait(min(wait, MOST_WAIT_SECONDS))
            writer.send(key, message)
            count += 1
    if not count:
        raise InputError(f"{source} has nothing to replay as {kind}", "land telemetry first, or name the other format")
    return count


def _from_lake(flow: Flow, kind: str) -> Iterator[Sent]:
    tables = [SAMPLES] if kind == "json" else [f"bronze_{name}" for name in TIMED]
    return merge(*(_table(flow, table) for table in tables), key=itemgetter(0))


def _table(flow: Flow, table: str) -> Iterator[Sent]:
    """An hour at a time: a lake may have years."""
    with flow.lake.open().reading() as reader:
        (span,) = reader.query(SPAN.format(table=table)).to_pylist()
        if span["first"] is None:
            return
        hours = range(int(span["first"]) // HOUR_MS, int(span["last"]) // HOUR_MS + 1)
        columns = "metric, labels, value, ts_ms" if table == SAMPLES else "*"
        for hour in hours:
            since, until = hour * HOUR_MS, (hour + 1) * HOUR_MS
            asked = ROWS.format(columns=columns, table=table, since=since, until=until)
            for row in reader.query(asked).to_pylist():
                yield _sample(row) if table == SAMPLES else _collected(row, table.removeprefix("bronze_"))


def _sample(row: dict[str, Any]) -> Sent:
    labels = json.loads(row["labels"] or "{}")
    key = labels.get("Hostname") or labels.get("instance") or ""
    body = {"name": row["metric"], "labels": labels, "value": row["value"], "timestamp": row["ts_ms"]}
    return row["ts_ms"], key.encode(), json.dumps(body).encode()


def _collected(row: dict[str, Any], table: str) -> Sent:
    known = {name: value for name, value in row.items() if value is not None}
    node = str(known.get("node") or known.get("node_id") or "")
    return float(row["ts_ms"]), node.encode(), json.dumps({"table": table, **known}, default=str).encode()


def _from_files(folder: Path, kind: str) -> Iterator[Sent]:
    """The JSON lines of a collected run."""
    files = {name: folder / cctf_tables()[name].file for name in TIMED}
    if kind != "cctf" or not any(path.is_file() for path in files.values()):
        raise UsageError(
            f"{folder} has no files of a collected run", "replay them as cctf, or the lake with --from lake"
        )
    return merge(*(_lines(path, name) for name, path in files.items() if path.is_file()), key=itemgetter(0))


def _lines(path: Path, table: str) -> Iterator[Sent]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if "ts_ms" in row:
                yield _collected(row, table)
