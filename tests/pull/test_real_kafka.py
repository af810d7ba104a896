"""Exactly once from a real Apache Kafka: consumers and brokers are killed, and every id is in the lake once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.kafka_chaos import PARTITIONS, Producing, finish, first_line, ids, ingest, ingest_killed
from bench.kafka_server import KafkaServer

from bench import kafka_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(kafka_server.why_not()), reason=kafka_server.why_not() or "there is a Kafka"),
]
pytest.importorskip("confluent_kafka", reason="confluent-kafka is missing")
KILLS = 20


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    with KafkaServer(tmp_path_factory.mktemp("kafka")) as server:
        yield server


def test_kill_9_of_ingest_at_random_moments_loses_and_doubles_nothing(kafka: KafkaServer, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    produced = ingest_killed(kafka, lake, "killed", KILLS)
    assert ids(lake) == list(range(produced))


def test_two_consumers_at_once_and_a_group_that_changes_lose_and_double_nothing(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    kafka.create("shared", PARTITIONS)
    lake = tmp_path / "lake"
    with Producing(kafka, "shared") as produced:
        steady = ingest(kafka, lake, "shared")
        first_line(steady)
        for number in range(4):  # each joins the group, and leaves it; the third is in another one
            other = ingest(kafka, lake, "shared", "--group", "other" if number == 2 else "gpulake")
            time.sleep(1.5)
            other.terminate()
            other.communicate(timeout=60)
        steady.terminate()
        assert steady.communicate(timeout=60) is not None
        assert steady.returncode == 0
    finish(kafka, lake, "shared")
    assert ids(lake) == list(range(produced.count))


def test_a_broker_that_is_killed_and_comes_back_loses_and_doubles_nothing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with KafkaServer(tmp_path / "kafka") as kafka:
        kafka.create("cut", PARTITIONS)
        with Producing(kafka, "cut") as produced:
            process = ingest(kafka, lake, "cut")
            for _ in range(3):
                first_line(process)
                kafka.kill()
                kafka.start()
            first_line(process)
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0
        finish(kafka, lake, "cut")
    assert ids(lake) == list(range(produced.count))
