"""Messages of a schema registry: read by the schemas that they name, quarantined where they are wrong, waiting at the
broker while the registry does not answer. The broker is a real Kafka where there is one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.kafka_server import KafkaServer

from bench import kafka_server
from gpulake.core.config import Config
from gpulake.core.errors import ConfigError
from gpulake.flow import Flow
from gpulake.flow.ingesting import Ingested, Ingesting, Limits
from gpulake.formats.messages import Message
from gpulake.pull.kafka import Kafka
from gpulake.pull.schema_registry import RegistryError, SchemaRegistry, decoded

fastavro = pytest.importorskip("fastavro", reason="fastavro is missing")
confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is missing")
from pull.schema_server import AVRO, PROTO, Registry, avro, framed, schema_registry  # noqa: E402

NOON = 1_700_000_000_000
UTIL = "DCGM_FI_DEV_GPU_UTIL"
AS_AVRO = json.dumps(AVRO)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with schema_registry("u", "p") as server:
        yield server


def client(registry: Registry, **more: Any) -> SchemaRegistry:
    secrets = {"GPULAKE_REGISTRY_USER": "u", "GPULAKE_REGISTRY_PASSWORD": "p"}
    return SchemaRegistry(registry.url, environment=secrets, **more)


def as_avro(number: int, at: int, value: float | None = 0.0) -> bytes:
    return avro(number, AVRO, {"timestamp": NOON + at, "Hostname": "g1", "gpu": 0, UTIL: value})


def read(found: Message) -> Any:
    return json.loads(found.value)


def test_a_message_is_read_by_the_schema_that_it_names_and_the_schema_is_asked_for_once(registry: Registry) -> None:
    one = registry.register("gpus-value", AS_AVRO)
    two = registry.register("gpus-proto", PROTO, "PROTOBUF")
    three = registry.register("gpus-json", "{}", "JSON")
    schemas = client(registry)
    row = {"timestamp": "2023-11-14T22:13:20+00:00", "Hostname": "g1", "gpu": 0, UTIL: 0.0}
    for _ in range(3):
        assert read(decoded(Message(as_avro(one, 0)), schemas)) == row
        # The second message of its file; zeros are not on the wire.
        found = read(decoded(Message(framed(two, b"\x02\x02\x12\x02g1")), schemas))
        assert found == {"Hostname": "g1", "timestamp": 0, "gpu": 0, UTIL: 0}
        assert read(decoded(Message(framed(three, b'{"a": [1]}')), schemas)) == {"a": [1]}
    assert registry.asked == [f"/schemas/ids/{number}" for number in (1, 2, 3)]
    assert decoded(Message(b'{"gpu": 0}'), schemas) == Message(b'{"gpu": 0}')


def test_a_schema_has_those_that_it_refers_to(registry: Registry) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "name", "type": "string"}]}
    registry.register("a/node", json.dumps(node))
    holder = {"type": "record", "name": "Holder", "fields": [{"name": "node", "type": "Node"}]}
    registry.register("holder", json.dumps(holder), references=["a/node"])
    rack = {
        "type": "record",
        "name": "Rack",
        "fields": [{"name": "x", "type": "Holder"}, {"name": "y", "type": "Node"}],
    }
    number = registry.register("rack", json.dumps(rack), references=["holder", "a/node"])
    found = decoded(Message(framed(number, b"\x02a\x02b")), client(registry))
    assert read(found) == {"x": {"node": {"name": "a"}}, "y": {"name": "b"}}


def test_what_is_wrong_with_a_message_is_said_and_a_bad_id_is_asked_for_once_a_minute(registry: Registry) -> None:
    number = registry.register("gpus-value", AS_AVRO)
    broken = registry.register("broken", "{")
    other = registry.register("other", "", "THRIFT")
    now = [0.0]
    schemas = client(registry, now=lambda: now[0])
    for message, why in (
        (framed(77, b"x"), "schema 77: the registry does not have it"),
        (framed(77, b"y"), "schema 77: the registry does not have it"),
        (framed(broken, b"x"), f"schema {broken}: the schema is no Avro: "),
        (framed(other, b"x"), f"schema {other}: a schema of type THRIFT is not read"),
        (framed(number, b"\x01"), "not of its Avro schema: "),
        (as_avro(number, 0) + b"\0", "not of its Avro schema: 1 bytes are left"),
    ):
        found = decoded(Message(message), schemas)
        assert (found.value, found.error[: len(why)]) == (message, why)
    assert registry.asked.count("/schemas/ids/77") == 1
    registry.schemas.append({"schema": AS_AVRO, "subject": "late", "version": 1, "id": 77})
    now[0] = 61.0
    assert not decoded(Message(as_avro(77, 0)), schemas).error
    without = decoded(Message(as_avro(number, 0)), None)
    assert without.error == "it begins as a message of a schema registry: give --registry"


def test_no_answer_is_not_the_fault_of_the_message(registry: Registry) -> None:
    number = registry.register("gpus-value", AS_AVRO)
    message = Message(as_avro(number, 0))
    wrong = SchemaRegistry(registry.url, environment={"GPULAKE_REGISTRY_USER": "u", "GPULAKE_REGISTRY_PASSWORD": "x"})
    with pytest.raises(RegistryError, match=f"{registry.url} answers 401") as refused:
        decoded(message, wrong)
    assert refused.value.hint == "check GPULAKE_REGISTRY_USER and GPULAKE_REGISTRY_PASSWORD"
    with pytest.raises(RegistryError, match="404"):  # of something that is no registry
        decoded(message, SchemaRegistry(f"{registry.url}/else", environment=client(registry).environment))
    registry.is_down = True
    with pytest.raises(RegistryError, match=f"{registry.url} answers 503"):
        decoded(message, client(registry))
    with pytest.raises(RegistryError, match=r"http://127\.0\.0\.1:1: no connection"):
        decoded(message, SchemaRegistry("http://127.0.0.1:1", environment={}))
    with pytest.raises(ConfigError, match="--registry holds more than a host and a path"):
        SchemaRegistry("http://u:p@127.0.0.1:1", environment={})


# Through a broker.


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if kafka_server.why_not():
        mock = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        yield ",".join(f"{one.host}:{one.port}" for one in mock.list_topics(timeout=10).brokers.values())
        return
    with KafkaServer(tmp_path_factory.mktemp("kafka")) as kafka:
        for name in ("mixed", "held"):
            kafka.create(name, 2)
        yield kafka.servers


def send(servers: str, topic: str, *values: bytes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(30) == 0


def ingesting(flow: Flow, servers: str, topic: str, registry: Registry, said: list[str]) -> Ingesting:
    kafka = Kafka(servers, environment={}, options={"log_level": 0})
    return Ingesting(flow, kafka, {topic: "json"}, Limits(seconds=0.2), None, said.append, client(registry))


def times(flow: Flow) -> list[int]:
    with flow.lake.reading() as reader:
        found = reader.query("SELECT ts_ms FROM bronze_prometheus_samples ORDER BY 1").to_pylist()
    return [int(row["ts_ms"]) - NOON for row in found]


@pytest.mark.slow
def test_a_topic_of_avro_protobuf_and_json_lands_and_what_is_wrong_is_quarantined(
    config: Config, servers: str, registry: Registry
) -> None:
    one, two = registry.register("a", AS_AVRO), registry.register("p", PROTO, "PROTOBUF")
    proto = framed(two, b"\x02\x02\x08\x81\xd0\x95\xff\xbc\x31\x12\x02g1")
    plain = json.dumps({"timestamp": NOON + 2, "Hostname": "g1", UTIL: 5}).encode()
    send(servers, "mixed", as_avro(one, 0), proto, plain, framed(99, b"?"), as_avro(one, 3)[:-1], as_avro(one, 4, 50.0))
    flow = Flow(config)
    found: list[Ingested] = list(ingesting(flow, servers, "mixed", registry, []).run(is_once=True))
    assert (sum(x.messages for x in found), sum(x.rows_landed for x in found)) == (6, 4)
    assert times(flow) == [0, 1, 2, 4]
    with flow.lake.reading() as reader:
        bad = reader.query("SELECT reason FROM quarantine ORDER BY 1").column(0).to_pylist()
        values = reader.query("SELECT value FROM bronze_prometheus_samples ORDER BY ts_ms").column(0).to_pylist()
    assert [float(value) for value in values] == [0, 0, 5, 50]
    assert bad[0].startswith("topic mixed, partition 0, offset 2: not of its Avro schema: ")
    assert bad[1] == "topic mixed, partition 1, offset 1: schema 99: the registry does not have it"


@pytest.mark.slow
def test_while_the_registry_is_down_messages_wait_and_then_each_lands_once(
    config: Config, servers: str, registry: Registry, tmp_path: Path
) -> None:
    number = registry.register("a", AS_AVRO)
    flow, said = Flow(config), list[str]()
    one = ingesting(flow, servers, "held", registry, said)
    landed: list[Ingested] = []
    following = threading.Thread(target=lambda: landed.extend(one.run()))
    registry.is_down = True
    send(servers, "held", *(as_avro(number, at) for at in range(50)))
    following.start()
    try:
        until(lambda: said)
        assert registry.url in said[0]
        assert "answers 503" in said[0]
        send(servers, "held", *(as_avro(number, at) for at in range(50, 80)))
        time.sleep(1.5)  # a try in vain
        assert landed == []
        # Whoever reads it once, from cron, is told: nothing is passed over.
        with pytest.raises(RegistryError, match="503"):
            list(ingesting(Flow(Config(lake=tmp_path / "other", threads=1)), servers, "held", registry, []).run(True))
        registry.is_down = False
        until(lambda: sum(x.rows_landed for x in landed) >= 80)
    finally:
        one.stop()
        following.join()
    assert times(flow) == list(range(80))
    assert said == [said[0], ""]


def until(is_so: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
