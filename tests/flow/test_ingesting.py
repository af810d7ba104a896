"""Topics into the lake: each message once, whatever happens to consumers. The broker is librdkafka's own mock."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpulake.core.clock import Clock, FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import PullError
from gpulake.core.kafka_access import security
from gpulake.core.types import Landing
from gpulake.flow import Flow
from gpulake.flow.ingesting import Ingested, Ingesting, Limits, Topic
from gpulake.flow.replaying import replay
from gpulake.formats.messages import MESSAGES, Message
from gpulake.lake.streams import Batch, MovedOnError, Streams
from gpulake.pull.kafka import Kafka

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is missing")
UTIL = "DCGM_FI_DEV_GPU_UTIL"
NOON = 1_700_000_000_000
SAMPLES = "bronze_prometheus_samples"


class Broker:
    def __init__(self) -> None:
        self._producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        found = self._producer.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{one.host}:{one.port}" for one in found)

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(10) == 0


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def flow(config: Config) -> Flow:
    return Flow(config)


def sample(number: int, **more: Any) -> bytes:
    return json.dumps({"timestamp": NOON + number, "Hostname": "g1", "gpu": 0, UTIL: number % 100, **more}).encode()


def ingest(flow: Flow, broker: Broker, topics: Mapping[str, str], **options: Any) -> list[Ingested]:
    from_time = options.pop("from_time", None)
    kafka = Kafka(broker.servers, **options, environment={}, options={"log_level": 0})
    return list(Ingesting(flow, kafka, topics, Limits(seconds=0.2), from_time, lambda _: None).run(is_once=True))


def times(flow: Flow) -> list[int]:
    with flow.lake.reading() as reader:
        found = reader.query(f"SELECT ts_ms FROM {SAMPLES} ORDER BY 1").to_pylist()
    return [int(row["ts_ms"]) - NOON for row in found]


@pytest.mark.slow
def test_messages_land_once_and_those_that_cannot_be_read_are_quarantined(flow: Flow, broker: Broker) -> None:
    broker.send("gpus", sample(0), b"poison", sample(1))
    broker.send("gpus", sample(2), partition=1)
    (first,) = ingest(flow, broker, {"gpus": "json"})
    assert (first.messages, first.rows_landed, first.rows_quarantined, first.lag) == (4, 3, 1, 0)
    broker.send("gpus", sample(3))
    assert [one.rows_landed for one in ingest(flow, broker, {"gpus": "json"}, group="another")] == [1]
    assert ingest(flow, broker, {"gpus": "json"}) == []
    assert times(flow) == [0, 1, 2, 3]
    with flow.lake.reading() as reader:
        (row,) = reader.query("SELECT line_number, reason, row_text, table_name FROM quarantine").to_pylist()
    reason = "topic gpus, partition 0, offset 1: Expecting value: line 1 column 1 (char 0)"
    assert row == {"line_number": 1, "reason": reason, "row_text": "poison", "table_name": SAMPLES}


@pytest.mark.slow
def test_a_topic_that_is_read_again_from_a_time_lands_nothing_twice(flow: Flow, broker: Broker) -> None:
    broker.send("gpus", *map(sample, range(50)))
    ingest(flow, broker, {"gpus": "json"})
    assert ingest(flow, broker, {"gpus": "json"}, from_time=datetime(2020, 1, 1, tzinfo=UTC)) == []
    assert times(flow) == list(range(50))


@pytest.mark.slow
def test_rows_of_the_collector_land_in_their_tables_and_a_batch_of_bad_ones_moves_on(
    flow: Flow, broker: Broker
) -> None:
    broker.send("run", b'{"table": "host_metrics", "ts_ms": 1, "node": "g1", "cpu_util": 0}', b"{", b"[]")
    assert [(one.rows_landed, one.rows_quarantined) for one in ingest(flow, broker, {"run": "cctf"})] == [(1, 2)]
    assert ingest(flow, broker, {"run": "cctf"}) == []
    with flow.lake.reading() as reader:
        assert reader.query("SELECT node, cpu_util FROM bronze_host_metrics").to_pylist() == [
            {"node": "g1", "cpu_util": 0.0}
        ]


@pytest.mark.slow
def test_a_broker_that_is_not_there_is_an_error_that_names_it(flow: Flow) -> None:
    with pytest.raises(PullError, match=r"no answer from Kafka at 127\.0\.0\.1:1: "):
        list(
            Ingesting(
                flow,
                Kafka("127.0.0.1:1", environment={}, options={"log_level": 0, "socket.timeout.ms": 500}),
                {"gpus": "json"},
                Limits(),
                None,
                lambda _: None,
            ).run()
        )


# Without a broker: what the lake holds of a stream.


@pytest.fixture
def streams(flow: Flow) -> Iterator[Streams]:
    with Streams(flow.lake.create()) as opened:
        yield opened


def topic(flow: Flow, streams: Streams, kind: str = "json") -> Topic:
    found = Topic("gpus", "c", MESSAGES.get(kind)(), streams, flow)
    found.begin([0, 1])
    return found


def given(one: Topic, offsets: range, partition: int = 0) -> None:
    for offset in offsets:
        one.add(Message(sample(offset + 1000 * partition), NOON, b"", partition, offset))


def test_a_consumer_that_was_overtaken_lands_nothing(flow: Flow, streams: Streams) -> None:
    late, quick = topic(flow, streams), topic(flow, streams)
    for one, until in ((late, 10), (quick, 15)):
        given(one, range(until))
    quick.land()
    with pytest.raises(MovedOnError):
        late.land()
    assert late.begin([0, 1]) == {0: 15, 1: None}
    given(late, range(5, 20))
    assert [one.rows_landed for one in late.land()] == [5]
    assert times(flow) == list(range(20))


def test_what_went_to_another_consumer_is_dropped(flow: Flow, streams: Streams) -> None:
    one = topic(flow, streams)
    given(one, range(3))
    given(one, range(3), partition=1)
    one.drop(0)
    one.land()
    assert times(flow) == [1000, 1001, 1002]
    assert one.begin([0, 1]) == {0: None, 1: 3}


def test_a_crash_between_two_tables_of_a_topic_doubles_nothing(
    flow: Flow, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [b'{"table": "host_metrics", "ts_ms": %d, "node": "g1"}' % at for at in range(3)]
    rows += [b'{"table": "gpu_metrics", "ts_ms": %d, "node": "g1", "gpu_uuid": "GPU-1"}' % at for at in range(3)]

    def given_to(one: Topic) -> Topic:
        for offset, row in enumerate(rows):
            one.add(Message(row, NOON, b"", 0, offset))
        return one

    def land(batch: Batch, clock: Clock) -> Landing:
        if batch.layout.table.name == "bronze_gpu_metrics":
            raise KeyboardInterrupt
        return landed(batch, clock)

    landed = streams.land
    monkeypatch.setattr(streams, "land", land)
    with pytest.raises(KeyboardInterrupt):
        given_to(topic(flow, streams, "cctf")).land()
    monkeypatch.undo()
    after = topic(flow, streams, "cctf")
    assert after.begin([0]) == {0: None}
    given_to(after).land()
    with flow.lake.reading() as reader:
        tables = ("bronze_host_metrics", "bronze_gpu_metrics")
        assert [len(reader.query(f"FROM {table}")) for table in tables] == [3, 3]


def test_a_stream_lands_while_another_command_writes(flow: Flow, streams: Streams) -> None:
    one = topic(flow, streams)
    given(one, range(5))
    with flow.lake.writing():
        one.land()
        assert times(flow) == list(range(5))


def test_secrets_come_from_the_environment_and_a_user_implies_tls() -> None:
    assert security({"GPULAKE_KAFKA_USER": "u", "GPULAKE_KAFKA_PASSWORD": "p", "OTHER": "x"}) == {
        "sasl.username": "u",
        "sasl.password": "p",
        "sasl.mechanism": "SCRAM-SHA-512",
        "security.protocol": "SASL_SSL",
    }
    assert security({"GPULAKE_KAFKA_CA_FILE": "/ca.pem"}) == {"ssl.ca.location": "/ca.pem", "security.protocol": "SSL"}
    assert security({}) == {}


@pytest.mark.slow
def test_what_is_replayed_into_a_topic_is_what_was_recorded(flow: Flow, broker: Broker, tmp_path: Path) -> None:
    broker.send("gpus", *map(sample, range(20)))
    broker.send("again", b"[]")
    ingest(flow, broker, {"gpus": "json"})
    kafka = Kafka(broker.servers, environment={}, options={"log_level": 0})
    assert replay(flow, "lake", kafka, "again", "json", speed=0) == 20
    other = Flow(Config(lake=tmp_path / "other", threads=1))
    ingest(other, broker, {"again": "json"})
    everything = f"SELECT metric, labels, value, ts_ms FROM {SAMPLES} ORDER BY ALL"
    with flow.lake.reading() as one, other.lake.reading() as two:
        assert one.query(everything).to_pylist() == two.query(everything).to_pylist()


@pytest.mark.slow
def test_a_collected_run_is_replayed_in_the_order_of_time_at_its_speed(
    flow: Flow, broker: Broker, tmp_path: Path
) -> None:
    (tmp_path / "host_metrics.jsonl").write_text('{"ts_ms": 1000, "node": "g1"}\n{"ts_ms": 61000, "node": "g1"}\n')
    (tmp_path / "node_events.jsonl").write_text('{"ts_ms": 31000, "node": "g1", "kind": "xid", "code": 79}\n')
    waits: list[float] = []
    clock = FrozenClock(flow.clock.now())

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.at += timedelta(seconds=seconds)

    slow = Flow(flow.config, clock=clock, wait=wait)
    broker.send("run", b"{}")
    kafka = Kafka(broker.servers, environment={}, options={"log_level": 0})
    assert replay(slow, str(tmp_path), kafka, "run", "cctf", speed=60) == 3
    assert sum(waits) == pytest.approx(1.0)
    ingest(flow, broker, {"run": "cctf"})
    with flow.lake.reading() as reader:
        assert [len(reader.query(f"FROM bronze_{name}")) for name in ("host_metrics", "node_events")] == [2, 1]
