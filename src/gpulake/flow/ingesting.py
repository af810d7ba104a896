"""Ingesting: messages of topics become rows, in batches that are bounded by time and size, each landed exactly once."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, Landing
from gpulake.flow.urgent import Urgent
from gpulake.formats.messages import MESSAGES, Message, MessageFormat
from gpulake.lake.streams import Batch, Move, MovedOnError, Streams
from gpulake.pull.kafka import Kafka, KafkaReader
from gpulake.pull.schema_registry import RegistryError, SchemaRegistry, decoded

if TYPE_CHECKING:
    from gpulake.flow import Flow

FETCH = 5_000  # messages at a time
POLL_SECONDS = 0.1
MOST_HELD_SECONDS = 30.0  # between two questions to a schema registry that does not answer
Say = Callable[[str], None]  # an error that lasts; nothing, once it is over


@dataclass(frozen=True)
class Limits:
    """Of one batch: whichever comes first."""

    seconds: float = 2.0
    most_bytes: int = 32 << 20
    messages: int = 200_000


@dataclass(frozen=True)
class Ingested:
    """What one batch came to."""

    topic: str
    messages: int
    rows_landed: int
    rows_quarantined: int
    until_at: datetime | None  # of the newest message
    lag: int  # messages that are still at the broker
    landings: tuple[Landing, ...] = ()


class Topic:
    """The messages of one topic that wait for their batch, and how far the lake is."""

    def __init__(self, name: str, cluster: str, kind: MessageFormat, streams: Streams, flow: Flow) -> None:
        self.name, self._cluster, self._format, self._streams, self._flow = name, cluster, kind, streams, flow
        self.waiting: list[Message] = []
        self.waiting_bytes = 0
        self._known: dict[str, dict[int, int | None]] = defaultdict(dict)  # by table and partition

    def stream(self, partition: int) -> str:
        return f"kafka/{self._cluster}/{self.name}/{partition}"

    def begin(self, partitions: Sequence[int]) -> Mapping[int, int | None]:
        """Where the lake is, read anew: another consumer may have been at work."""
        streams = {self.stream(number): number for number in partitions}
        for table in self._format.tables:
            found = self._streams.positions(table, list(streams))
            self._known[table].update({number: found[stream] for stream, number in streams.items()})
        return {number: self._known[self._main][number] for number in partitions}

    @property
    def _main(self) -> str:
        return self._format.tables[0]

    def add(self, message: Message) -> None:
        self.waiting.append(message)
        self.waiting_bytes += len(message.value) + 64

    def drop(self, partition: int) -> None:
        """It went to another consumer."""
        self.waiting = [one for one in self.waiting if one.partition != partition]
        self.waiting_bytes = sum(len(one.value) + 64 for one in self.waiting)

    def land(self) -> list[Landing]:
        """What waits, in a commit for each table. MovedOnError: another consumer has landed some of it."""
        waiting, self.waiting, self.waiting_bytes = self.waiting, [], 0
        by_table: dict[str, list[Message]] = defaultdict(list)
        ends: dict[int, int] = {}
        for one in waiting:
            table = self._format.table_of(one)
            known = max(self._known[table][one.partition] or 0, self._known[self._main][one.partition] or 0)
            if one.offset >= known:
                by_table[table].append(one)
                ends[one.partition] = one.offset + 1
        if not ends:
            return []
        landings = [self._land(table, by_table[table]) for table in self._format.tables[1:] if table in by_table]
        main = {number: self._move(self._main, number, end) for number, end in ends.items()}
        if by_table[self._main]:
            landings.append(self._land(self._main, by_table[self._main], main))
        else:
            self._streams.pass_over(self._main, {self.stream(number): move for number, move in main.items()})
            self._note(self._main, main)
        return landings

    def _move(self, table: str, partition: int, end: int) -> Move:
        return Move(self._known[table][partition], end)

    def _note(self, table: str, moves: Mapping[int, Move]) -> None:
        self._known[table].update({number: move.after for number, move in moves.items()})

    def _land(self, table: str, messages: Sequence[Message], moves: Mapping[int, Move] | None = None) -> Landing:
        ranges: dict[int, tuple[int, int]] = {}
        for one in messages:
            ranges[one.partition] = (ranges.get(one.partition, (one.offset, 0))[0], one.offset)
        if moves is None:
            moves = {number: self._move(table, number, last + 1) for number, (_, last) in ranges.items()}
        said = "&".join(f"{number}={first}-{last}" for number, (first, last) in sorted(ranges.items()))
        batch = Batch(
            source=f"kafka://{self._cluster}/{self.name}?{said}",
            layout=self._layout(table, messages),
            moves={self.stream(number): move for number, move in moves.items()},
            size_bytes=sum(len(one.value) for one in messages),
            place=lambda row: self._placed(row, messages),
        )
        landing = self._streams.land(batch, self._flow.clock)
        self._note(table, moves)
        return landing

    def _placed(self, row: BadRow, messages: Sequence[Message]) -> BadRow:
        one = messages[row.line_number]
        where = f"topic {self.name}, partition {one.partition}, offset {one.offset}"
        return replace(row, line_number=one.offset, reason=f"{where}: {row.reason}")

    def _layout(self, table: str, messages: Sequence[Message]) -> CsvLayout:
        return stream_layout(self._format, table, messages, self.name, self._cluster, self._flow.clock.now())


def stream_layout(
    kind: MessageFormat, table: str, messages: Sequence[Message], name: str, place: str, at: datetime
) -> CsvLayout:
    """Rows of a table of files need a name and a time of their file: those of the stream."""
    columns = kind.columns[table]
    said = {"file": name, "folder": place, "file_at": at.isoformat(sep=" ", timespec="milliseconds")}
    found = bronze_tables()[table]
    constants = tuple(
        (column, said[column]) for column in found.column_names if column in said and column not in columns
    )

    def rewrite(_: Path) -> Iterator[object]:
        return kind.rows(table, messages)

    return CsvLayout(found, columns, has_header=False, constants=constants, rewrite=rewrite)  # type: ignore[arg-type]


class Ingesting:
    def __init__(
        self,
        flow: Flow,
        kafka: Kafka,
        topics: Mapping[str, str],
        limits: Limits,
        from_time: datetime | None,
        say: Say,
        registry: SchemaRegistry | None = None,
    ) -> None:
        self._flow, self._kafka, self._limits, self._from_time, self._say = flow, kafka, limits, from_time, say
        self._formats = {topic: MESSAGES.get(kind)() for topic, kind in topics.items()}
        self._registry = registry
        self._held: dict[str, float] = {}  # topics that wait for the registry, and until when
        self._held_seconds = 1.0
        self._unanswered: dict[str, str] = {}  # why, by the topic, until a message of it has been read
        self._stopping = False
        self._said = ""

    def stop(self) -> None:
        """After the batch at hand."""
        self._stopping = True

    def run(self, is_once: bool = False) -> Iterator[Ingested]:
        """Until it is stopped; once: until the end that the topics had at the beginning."""
        self._flow.lake.create()
        with Streams(self._flow.lake) as streams:
            topics: dict[str, Topic] = {}

            def begin(topic: str, partitions: Sequence[int]) -> Mapping[int, int | None]:
                if topic not in topics:
                    topics[topic] = Topic(topic, reader.cluster, self._formats[topic], streams, self._flow)
                return topics[topic].begin(partitions)

            def drop(topic: str, partition: int) -> None:
                if topic in topics:
                    topics[topic].drop(partition)

            reader = KafkaReader(self._kafka, list(self._formats), begin, drop, self._from_time)
            try:
                reader.take_all() if is_once else reader.join()
                urgent = Urgent(self._flow, streams)
                for batch in self._loop(reader, topics, is_once):
                    if said := urgent.see(batch.landings):
                        self._mention(said)
                    yield batch
            finally:
                reader.close()

    def _loop(self, reader: KafkaReader, topics: dict[str, Topic], is_once: bool) -> Iterator[Ingested]:
        began = time.monotonic()
        ends: dict[tuple[str, int], int] = {}
        while True:
            self._release(reader, topics)
            for name, message in reader.messages(FETCH, POLL_SECONDS):
                if name not in self._held:
                    self._add(topics[name], message, reader, is_once)
            self._mention(reader.error or next(iter(self._unanswered.values()), ""))
            if is_once and not ends and reader.assigned:
                ends = reader.ends()
            is_done = bool(ends) and all(reader.assigned.get(key, end) >= end for key, end in ends.items())
            is_due = time.monotonic() - began >= self._limits.seconds or is_done or self._stopping
            for topic in topics.values():
                is_full = topic.waiting_bytes >= self._limits.most_bytes or len(topic.waiting) >= self._limits.messages
                if topic.waiting and (is_due or is_full):
                    yield from self._land(topic, reader)
            if is_due:
                began = time.monotonic()
            if is_done or self._stopping:
                return

    def _add(self, topic: Topic, message: Message, reader: KafkaReader, is_once: bool) -> None:
        try:
            topic.add(decoded(message, self._registry))
            if self._unanswered and self._unanswered.pop(topic.name, ""):
                self._held_seconds = 1.0
        except RegistryError as error:
            if is_once:
                raise
            # The messages wait at the broker. What of them was fetched is fetched again.
            reader.hold(topic.name)
            self._held[topic.name] = time.monotonic() + self._held_seconds
            self._held_seconds = min(2 * self._held_seconds, MOST_HELD_SECONDS)
            self._unanswered[topic.name] = f"topic {topic.name} waits: {error.message}; {error.hint}"

    def _release(self, reader: KafkaReader, topics: Mapping[str, Topic]) -> None:
        for name in [name for name, until in self._held.items() if time.monotonic() >= until]:
            if not topics[name].waiting:
                del self._held[name]
                reader.release(name, topics[name].begin([number for one, number in reader.assigned if one == name]))

    def _land(self, topic: Topic, reader: KafkaReader) -> Iterator[Ingested]:
        messages = topic.waiting
        try:
            landings = topic.land()
        except MovedOnError:
            numbers = [number for name, number in reader.assigned if name == topic.name]
            reader.rewind(topic.name, topic.begin(numbers))
            return
        newest = max(one.at_ms for one in messages)
        yield Ingested(
            topic.name,
            len(messages),
            sum(one.rows_landed for one in landings),
            sum(one.rows_quarantined for one in landings),
            datetime.fromtimestamp(newest / 1000, self._flow.clock.now().tzinfo) if newest else None,
            reader.lag(),
            tuple(landings),
        )

    def _mention(self, error: str) -> None:
        if error != self._said:  # once, while it lasts
            self._say(error)
        self._said = error
