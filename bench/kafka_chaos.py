"""Numbered samples into a real Kafka that is killed, as ingest is: how many are in the lake once, twice, not at all."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench import kafka_server
from bench.data import Bench
from bench.kafka_server import KafkaServer
from bench.lines import Line
from bench.measure import BenchError
from gpulake.core.config import Config
from gpulake.flow import Flow

NOON = 1_700_000_000_000
PARTITIONS = 4


class Producing:
    """Numbered samples, in a thread, until it is asked to stop; all are acknowledged then."""

    def __init__(self, kafka: KafkaServer, topic: str) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap.servers": kafka.servers,
            "enable.idempotence": True,
            "log_level": 0,
        }
        self._topic, self._stop, self.count = topic, threading.Event(), 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Producing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._settings)
        while not self._stop.wait(0.01):
            for _ in range(20):
                body = {"timestamp": NOON + self.count, "Hostname": "g1", "DCGM_FI_DEV_GPU_UTIL": self.count % 100}
                self._send(producer, json.dumps(body).encode())
                self.count += 1
            producer.poll(0)
        assert producer.flush(60) == 0

    def _send(self, producer: Any, body: bytes) -> None:
        while True:
            try:
                producer.produce(self._topic, body, partition=self.count % PARTITIONS)
                return
            except BufferError:  # a broker that is down for long
                producer.poll(0.1)


def ingest(kafka: KafkaServer, lake: Path, topic: str, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "gpulake", "ingest", "kafka", "--servers", kafka.servers, "--json"]
    command += ["--topic", f"{topic}=json", "--batch", "0.1s", "--lake", str(lake), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def first_line(process: subprocess.Popen[bytes]) -> None:
    """It has landed something from now on: what it said before is passed over, and so its pipe is never full."""
    assert process.stdout
    pipe = process.stdout.fileno()
    while select.select([pipe], [], [], 0)[0] and os.read(pipe, 1 << 16):
        pass
    assert os.read(pipe, 1 << 16)


def ingest_killed(kafka: KafkaServer, lake: Path, topic: str, kills: int) -> int:
    """How many were produced while ingest was killed at random moments; all that is left lands at the end."""
    kafka.create(topic, PARTITIONS)
    moments = random.Random(7)
    with Producing(kafka, topic) as produced:
        for number in range(kills):
            process = ingest(kafka, lake, topic, "--group", f"g{number}")
            if number % 2:
                first_line(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0.0, 1.0))
            process.kill()
            process.communicate()
    finish(kafka, lake, topic)
    return produced.count


def finish(kafka: KafkaServer, lake: Path, topic: str) -> None:
    last = ingest(kafka, lake, topic, "--once")
    last.communicate(timeout=120)
    assert last.returncode == 0


def ids(lake: Path) -> list[int]:
    with Flow(Config(lake=lake, threads=1)).lake.open().reading() as reader:
        rows = reader.query("SELECT ts_ms FROM bronze_prometheus_samples ORDER BY 1").column(0).to_pylist()
    return [int(value) - NOON for value in rows]


def chaos(bench: Bench) -> Iterator[Line]:
    if reason := kafka_server.why_not():
        raise BenchError(reason)
    folder = bench.folder("chaos")
    with KafkaServer(folder / "kafka") as kafka:
        yield from _kills(kafka, folder, 100)
        yield from _rebalances(kafka, folder, 20)
        yield from _restarts(kafka, folder, 20)


def _compared(what: str, lake: Path, produced: int) -> Iterator[Line]:
    found = ids(lake)
    yield Line(f"{what}: rows lost, of {produced:,}", len(set(range(produced)) - set(found)), "", 0.0)
    yield Line(f"{what}: rows twice", len(found) - len(set(found)), "", 0.0)


def _kills(kafka: KafkaServer, folder: Path, kills: int) -> Iterator[Line]:
    lake = folder / "killed"
    produced = ingest_killed(kafka, lake, "killed", kills)
    yield from _compared(f"{kills} kill -9 of ingest", lake, produced)


def _rebalances(kafka: KafkaServer, folder: Path, changes: int) -> Iterator[Line]:
    kafka.create("shared", PARTITIONS)
    lake = folder / "shared"
    with Producing(kafka, "shared") as produced:
        steady = ingest(kafka, lake, "shared")
        first_line(steady)
        for _ in range(changes // 2):  # one as it joins, one as it leaves
            other = ingest(kafka, lake, "shared")
            time.sleep(2)
            other.terminate()
            other.communicate()
        steady.terminate()
        steady.communicate()
    finish(kafka, lake, "shared")
    yield from _compared(f"{changes} rebalances", lake, produced.count)


def _restarts(kafka: KafkaServer, folder: Path, restarts: int) -> Iterator[Line]:
    kafka.create("cut", PARTITIONS)
    lake = folder / "cut"
    with Producing(kafka, "cut") as produced:
        process = ingest(kafka, lake, "cut")
        for _ in range(restarts):
            first_line(process)
            kafka.kill()
            kafka.start()
        first_line(process)
    process.terminate()
    process.communicate()
    finish(kafka, lake, "cut")
    yield from _compared(f"{restarts} kill -9 of the broker", lake, produced.count)
