"""Numbered samples into a real Kafka, and how many of them are in the lake: once, twice or not at all."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.kafka_server import KafkaServer
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
