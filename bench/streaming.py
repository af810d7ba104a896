"""A topic of a real Kafka: how fast it lands, in how much memory, how soon."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil
from deltalake import DeltaTable

from bench import kafka_server
from bench.data import Bench
from bench.kafka_chaos import PARTITIONS
from bench.kafka_server import KafkaServer
from bench.lines import Line
from bench.measure import PROGRAMS, BenchError, Cost, process_cpu_seconds, run

METRICS = 12
RATE = 120_000  # samples a second that are produced
LEAST_RATE, MOST_MEBIBYTES, MOST_SECONDS, MOST_BYTES = 100_000.0, 1024.0, 10.0, 2.0
TOPIC = "gpus"
# A message a GPU and tick, with twelve metrics, at a steady rate.
PRODUCER = """
import sys, time
from confluent_kafka import Producer
servers, topic, partitions, rate, seconds = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
names = ("GPU_UTIL MEM_COPY_UTIL FB_USED FB_FREE POWER_USAGE GPU_TEMP MEMORY_TEMP SM_CLOCK MEM_CLOCK XID_ERRORS"
         " ENC_UTIL DEC_UTIL").split()
heads = [
    '{"Hostname":"g%04d","gpu":"%d","UUID":"GPU-%06d","modelName":"H100",' % (n // 8, n % 8, n) for n in range(16000)]
producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "compression.type": "lz4",
                     "queue.buffering.max.messages": 1000000})
begin = time.time()
sent, per_second = 0, rate // len(names)
while sent < per_second * seconds:
    due = min(per_second * seconds, int((time.time() - begin) * per_second))
    at = int(time.time() * 1000)
    while sent < due:
        # No Xids, and no GPU hotter than 80 degrees: alerts are not what is measured.
        body = ",".join('"DCGM_FI_DEV_%s":%d' % (name, (sent * 7 + n) % (1 if name == "XID_ERRORS" else 80))
                        for n, name in enumerate(names))
        producer.produce(topic, (heads[sent % 16000] + '"timestamp":%d,' % at + body + "}").encode(),
                         partition=sent % partitions)
        sent += 1
        if sent % 500 == 0:
            producer.poll(0)
    producer.poll(0.01)
producer.flush()
"""
# What one writes to count samples, and nothing else.
LOOP = """
import json, sys
from confluent_kafka import Consumer, TopicPartition
servers, topic, partitions, messages = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
consumer = Consumer({"bootstrap.servers": servers, "group.id": "loop", "auto.offset.reset": "earliest"})
consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
seen = samples = 0
while seen < messages:
    for message in consumer.consume(5000, 1.0):
        samples += sum(name.startswith("DCGM_") for name in json.loads(message.value()))
        seen += 1
print(samples)
"""


def streaming(bench: Bench) -> Iterator[Line]:
    if reason := kafka_server.why_not():
        raise BenchError(reason)
    folder = bench.folder("streaming")
    with KafkaServer(folder / "kafka", "512m") as kafka:
        yield from _sustained(kafka, folder, bench.seconds)


def _sustained(kafka: KafkaServer, folder: Path, seconds: int) -> Iterator[Line]:
    kafka.create(TOPIC, PARTITIONS)
    lake = folder / "lake"
    process = _ingest(kafka, lake)
    batches: list[tuple[float, dict[str, object]]] = []  # when it had landed, and what it was
    reading = threading.Thread(
        target=lambda: batches.extend((time.time(), json.loads(x)) for x in process.stdout or ())
    )
    reading.start()
    memory = _Memory(process.pid)
    words = [kafka.servers, TOPIC, str(PARTITIONS), str(RATE), str(seconds)]
    begin = time.time()
    subprocess.run([sys.executable, "-c", PRODUCER, *words], check=True)
    messages = RATE // METRICS * seconds
    while sum(int(str(one["messages"])) for _, one in batches) < messages and time.time() < begin + 3 * seconds + 120:
        time.sleep(0.1)
    took = batches[-1][0] - begin
    cpu = process_cpu_seconds(process.pid)
    process.terminate()
    reading.join()
    rows = sum(int(str(one["rows_landed"])) for _, one in batches)
    if rows != messages * METRICS:
        raise BenchError(f"{rows:,} of {messages * METRICS:,} samples landed")
    label = f"{seconds} s of {RATE:,} samples a second"
    yield Line(
        f"{label}: landed a second, produced meanwhile on the same cores", rows / took, "", LEAST_RATE, "at least"
    )
    yield Line(f"{label}: CPU seconds per million samples", cpu / rows * 1e6, "s")
    yield Line(f"{label}: peak memory", memory.most / 2**20, "MiB", MOST_MEBIBYTES)
    yield Line(f"{label}: from produced to visible, p99", _delay(batches), "s", MOST_SECONDS)
    yield Line(f"{label}: bytes a sample in the lake", _bytes(lake) / rows, "", MOST_BYTES)
    again = folder / "again"
    whole = run([PROGRAMS / "gpulake", *_words(kafka, again), "--once"], folder)
    loop = run([sys.executable, "-c", LOOP, kafka.servers, TOPIC, str(PARTITIONS), str(messages)], folder)
    yield Line("what is in the topic: landed a second", rows / whole.seconds, "", side="at least")
    yield Line(
        "what is in the topic: parsed and counted by a plain consumer, a second", rows / loop.seconds, "", kind="peer"
    )
    yield _ratio(loop, whole)


def _ratio(loop: Cost, whole: Cost) -> Line:
    what = "what is in the topic: CPU ratio to that consumer"
    return Line(what, loop.cpu_seconds / whole.cpu_seconds, "", None, "at least", "CPU ratio")


def _words(kafka: KafkaServer, lake: Path) -> list[str]:
    return ["ingest", "kafka", "--servers", kafka.servers, "--topic", f"{TOPIC}=json", "--json", "--lake", str(lake)]


def _ingest(kafka: KafkaServer, lake: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(PROGRAMS / "gpulake"), *_words(kafka, lake)], stdout=subprocess.PIPE)


def _bytes(lake: Path) -> int:
    """Of the table's files, before small ones are compacted."""
    return sum(DeltaTable(lake / "bronze" / "bronze_prometheus_samples").get_add_actions()["size_bytes"].to_pylist())


def _delay(batches: list[tuple[float, dict[str, object]]]) -> float:
    """p99 over all messages: those of a batch were produced evenly since the newest of the batch before."""
    delays: list[float] = []
    since = None
    for landed, batch in batches:
        until = datetime.fromisoformat(str(batch["until"])).timestamp()
        first = until if since is None else min(since, until)
        count = max(1, int(str(batch["messages"])) // 100)
        delays += [landed - (first + (until - first) * number / count) for number in range(count)]
        since = until
    return sorted(delays)[int(len(delays) * 0.99)]


class _Memory:
    """The most that a process held."""

    def __init__(self, pid: int) -> None:
        self.most = 0
        threading.Thread(target=self._watch, args=(psutil.Process(pid),), daemon=True).start()

    def _watch(self, process: psutil.Process) -> None:
        with suppress(psutil.Error):
            while True:
                self.most = max(self.most, process.memory_info().rss)
                time.sleep(0.05)
