"""Topics of Kafka, read by a group of consumers: who reads what is Kafka's business, how far is the lake's.

The offsets of the group are never used. A partition that comes to this consumer begins where the lake is; what it had
fetched of one that goes is dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpulake.core.errors import PullError
from gpulake.core.kafka_access import require_client, security
from gpulake.formats.messages import Message

FETCHED_KIB = 65_536  # that librdkafka holds at most: what comes faster than it lands waits at the broker
CONNECT_SECONDS = 10.0
HIGH_SECONDS = 5.0


@dataclass(frozen=True)
class Kafka:
    """Where the topics are, and who reads them."""

    servers: str
    group: str = "gpulake"
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    options: Mapping[str, Any] = field(default_factory=dict)  # of librdkafka

    def settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, "client.id": "gpulake", **security(self.environment), **self.options}


Begin = Callable[[str, Sequence[int]], Mapping[int, int | None]]  # where the lake is in partitions of a topic
Drop = Callable[[str, int], None]  # a partition goes to another consumer


class KafkaReader:
    def __init__(
        self, kafka: Kafka, topics: Sequence[str], begin: Begin, drop: Drop, from_time: datetime | None = None
    ) -> None:
        require_client()
        from confluent_kafka import Consumer

        self._topics, self._begin, self._drop, self._from_time = topics, begin, drop, from_time
        self.assigned: dict[tuple[str, int], int] = {}  # the next offset
        self._is_changed = False  # the group has changed within a call
        self._held: set[str] = set()  # topics of which nothing is fetched
        self.error = ""  # the last one, while it lasts
        settings = {
            "group.id": kafka.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
            "queued.max.messages.kbytes": FETCHED_KIB,
            "fetch.wait.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 30_000,
            "error_cb": self._failed,
            **kafka.settings(),
        }
        try:
            self._consumer = Consumer(settings)
        except Exception as error:  # librdkafka's own class, for a wrong option of the environment
            raise PullError(f"Kafka's client does not start: {error}", "check the GPULAKE_KAFKA_ variables") from error
        self.lost = 0  # messages that Kafka deleted before they were read
        self.cluster, self._partitions = self._connect(kafka.servers)

    def join(self) -> None:
        """The group: which partitions this consumer reads is agreed with the others, now and whenever they change."""
        topics = list(self._topics)
        self._consumer.subscribe(topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)

    def take_all(self) -> None:
        """Reads every partition that there is now, whoever else does: what landed is not landed twice."""
        from confluent_kafka import TopicPartition

        self._assign(self._consumer, [TopicPartition(*partition) for partition in self._partitions])

    def close(self) -> None:
        self._consumer.close()

    def _connect(self, servers: str) -> tuple[str, list[tuple[str, int]]]:
        from confluent_kafka import KafkaException

        try:
            found = self._consumer.list_topics(timeout=CONNECT_SECONDS)
        except KafkaException as error:
            self._consumer.close()
            reason = self.error or error.args[0].str()
            raise PullError(
                f"no answer from Kafka at {servers}: {reason}", "check --servers and GPULAKE_KAFKA_…"
            ) from error
        missing = [topic for topic in self._topics if topic not in found.topics or found.topics[topic].error]
        if missing:
            self._consumer.close()
            raise PullError(f"Kafka at {servers} has no topic {missing[0]!r}", "create it, or name one that is there")
        partitions = [(topic, number) for topic in self._topics for number in sorted(found.topics[topic].partitions)]
        return str(found.cluster_id or "kafka"), partitions

    def messages(self, most: int, seconds: float) -> Iterator[tuple[str, Message]]:
        """What has come within so many seconds. An error that lasts is in `self.error`; what is hopeless raises."""
        fetched = self._consumer.consume(most, seconds)
        if self._is_changed:
            # What was fetched before a change and after it cannot be told apart: it is fetched again.
            self._reassign()
            return
        for found in fetched:
            if (error := found.error()) is not None:
                self._mend(found, error)
                continue
            self.error = ""
            key: Any = found.topic(), found.partition()  # of a message they are never None
            offset: Any = found.offset()
            if offset < self.assigned.get(key, offset + 1):
                continue  # of a partition that went, or before where it was sought to
            self.assigned[key] = offset + 1
            kind, at_ms = found.timestamp()
            yield key[0], Message(found.value() or b"", at_ms if kind else 0, found.key() or b"", key[1], offset)

    def rewind(self, topic: str, positions: Mapping[int, int | None]) -> None:
        """To where the lake is, by the partition."""
        for number, position in positions.items():
            if (topic, number) in self.assigned:
                self.assigned[topic, number] = self._low(topic, number) if position is None else position
        self._reassign()

    def hold(self, topic: str) -> None:
        """Nothing more of it is fetched until its release, which goes back to where the lake is."""
        self._held.add(topic)
        self._consumer.pause(self._of(topic))

    def release(self, topic: str, positions: Mapping[int, int | None]) -> None:
        self._held.discard(topic)
        self._consumer.resume(self._of(topic))
        self.rewind(topic, positions)

    def _of(self, topic: str) -> list[Any]:
        from confluent_kafka import TopicPartition

        return [TopicPartition(*key) for key in self.assigned if key[0] == topic]

    def _reassign(self) -> None:
        """Goes on from the positions, whatever has been fetched."""
        from confluent_kafka import TopicPartition

        self._is_changed = False
        self._consumer.assign([TopicPartition(*key, offset) for key, offset in self.assigned.items()])
        for topic in self._held:  # an assignment ends a pause
            self._consumer.pause(self._of(topic))

    def lag(self) -> int:
        """Messages that are at the broker and were not given yet."""
        from confluent_kafka import TopicPartition

        behind = 0
        for (topic, number), position in self.assigned.items():
            _, high = self._consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
            behind += max(0, high - position)
        return behind

    def ends(self) -> dict[tuple[str, int], int]:
        """Where each partition ends now, asked of the broker."""
        from confluent_kafka import TopicPartition

        return {
            key: self._consumer.get_watermark_offsets(TopicPartition(*key), timeout=HIGH_SECONDS)[1]
            for key in self.assigned
        }

    def _assign(self, consumer: Any, partitions: list[Any]) -> None:
        timed = self._timed(partitions)
        for topic in {one.topic for one in partitions}:
            numbers = [one.partition for one in partitions if one.topic == topic]
            known = self._begin(topic, numbers)
            for one in partitions:
                if one.topic == topic:
                    one.offset = self._first(topic, one.partition, known[one.partition], timed)
                    self.assigned[topic, one.partition] = one.offset
        consumer.assign(partitions)
        self._is_changed = True

    def _first(self, topic: str, number: int, known: int | None, timed: Mapping[tuple[str, int], int]) -> int:
        """Where the lake is, or an earlier time that was asked for: what landed is passed over."""
        at = timed.get((topic, number))
        if known is None:
            return self._low(topic, number) if at is None else at
        return known if at is None else min(known, at)

    def _timed(self, partitions: list[Any]) -> dict[tuple[str, int], int]:
        from confluent_kafka import TopicPartition

        if self._from_time is None:
            return {}
        at_ms = int(self._from_time.timestamp() * 1000)
        asked = [TopicPartition(one.topic, one.partition, at_ms) for one in partitions]
        found = self._consumer.offsets_for_times(asked, timeout=CONNECT_SECONDS)
        return {
            (one.topic, one.partition): one.offset if one.offset >= 0 else self._high(one.topic, one.partition)
            for one in found
        }

    def _revoke(self, _: Any, partitions: list[Any]) -> None:
        self._is_changed = True
        for one in partitions:
            self.assigned.pop((one.topic, one.partition), None)
            self._drop(one.topic, one.partition)

    def _low(self, topic: str, number: int) -> int:
        return self._watermarks(topic, number)[0]

    def _high(self, topic: str, number: int) -> int:
        return self._watermarks(topic, number)[1]

    def _watermarks(self, topic: str, number: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=CONNECT_SECONDS)
        return int(low), int(high)

    def _mend(self, found: Any, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() != KafkaError._AUTO_OFFSET_RESET:
            if error.fatal() or (not error.retriable() and error.code() in _hopeless()):
                raise PullError(f"Kafka refuses: {error.str()}", "check the topics, the user and its rights")
            self.error = error.str()
            return
        topic, number = found.topic(), found.partition()
        low, high = self._watermarks(topic, number)
        position = self.assigned.get((topic, number), 0)
        if position > high:
            raise PullError(
                f"partition {number} of {topic} ends at offset {high}; the lake has it up to {position}",
                "the topic was deleted and created anew; produce to a topic of another name",
            )
        if position < low:
            # Kafka's retention was faster.
            self.lost += low - position
            self.error = (
                f"{low - position:,} messages of partition {number} of {topic} were deleted before they were read"
            )
            self.assigned[topic, number] = low
            self._reassign()

    def _failed(self, error: Any) -> None:
        self.error = error.str()


class KafkaWriter:
    """Sends to one topic; all that was sent is acknowledged at the end."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        require_client()
        from confluent_kafka import Producer

        self._topic, self._error = topic, ""
        settings = {"enable.idempotence": True, "linger.ms": 20, "error_cb": self._failed, **kafka.settings()}
        self._producer = Producer(settings)

    def __enter__(self) -> KafkaWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        left = self._producer.flush(CONNECT_SECONDS if kind is None else 0)
        if kind is None and left:
            raise PullError(f"{left:,} messages were not acknowledged: {self._error}", "check --servers and the topic")

    def send(self, key: bytes, message: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, message, key or None, on_delivery=self._delivered)
            except BufferError:  # what comes faster than it is sent waits here
                if self._producer.poll(CONNECT_SECONDS) == 0 and self._error:
                    raise PullError(f"nothing can be sent: {self._error}", "check --servers and the topic") from None
            else:
                self._producer.poll(0)
                return

    def poll(self) -> None:
        self._producer.poll(0)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            raise PullError(f"a message was not taken: {error.str()}", "check the topic and the rights of the user")

    def _failed(self, error: Any) -> None:
        self._error = error.str()


def _hopeless() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
    )
