"""From an event in a topic of Kafka to a message at a webhook, by way of gpulake run."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from bench import kafka_server
from bench.data import Bench
from bench.kafka_server import KafkaServer
from bench.lines import Line
from bench.measure import PROGRAMS, BenchError, environment

EVENTS = 10
MOST_SECONDS, MOST_HOT_SECONDS = 5.0, 30.0
PATIENCE_SECONDS = 120.0
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."
SETTINGS = """
lake = "lake"
[run]
dashboard = ""
[run.sources.stream]
ingest = ["kafka", "--servers", "{servers}", "--topic", "kernel=kernel", "--topic", "gpus=json", "--batch", "1s"]
[alerts.sinks.hook]
kind = "webhook"
url = "{url}"
"""
Told = dict[str, float]  # when a message about it came, by the subject


def events(bench: Bench) -> Iterator[Line]:
    if reason := kafka_server.why_not():
        raise BenchError(reason)
    from confluent_kafka import Producer

    folder = bench.folder("events")
    with KafkaServer(folder / "kafka") as kafka, _webhook() as (url, told), _service(folder, kafka, url):
        producer = Producer({"bootstrap.servers": kafka.servers})
        # The first one waits until the consumer has joined its group, which is no part of what is measured.
        faults = [_seconds(told, f"g{number}", lambda one: _fault(producer, one)) for number in range(EVENTS + 1)][1:]
        hot = [_seconds(told, f"h{number} GPU 1", lambda one: _heat(producer, one)) for number in range(EVENTS)]
    yield Line("fatal Xid in a kernel's log to message: median of 10", sorted(faults)[EVENTS // 2], "s")
    yield Line("fatal Xid in a kernel's log to message: slowest of 10", max(faults), "s", MOST_SECONDS)
    yield Line("hot GPU to message: slowest of 10", max(hot), "s", MOST_HOT_SECONDS)


def _seconds(told: Told, subject: str, send: Callable[[str], None]) -> float:
    begin = time.time()
    send(subject.partition(" ")[0])
    while subject not in told:
        if time.time() > begin + PATIENCE_SECONDS:
            raise BenchError(f"no message about {subject}; there are {', '.join(told)}")
        time.sleep(0.02)
    return told[subject] - begin


def _fault(producer: Any, host: str) -> None:
    producer.produce("kernel", json.dumps({"host": host, "message": XID}).encode())
    producer.flush(30)


def _heat(producer: Any, host: str) -> None:
    """As hot as the last ten seconds, so that it is certain from the first look."""
    now = time.time()
    for second in range(0, 11, 2):
        row = {"Hostname": host, "gpu": 1, "timestamp": round((now - 10 + second) * 1000)}
        producer.produce("gpus", json.dumps(row | {"DCGM_FI_DEV_GPU_TEMP": 93}).encode())
    producer.flush(30)


@contextmanager
def _webhook() -> Iterator[tuple[str, Told]]:
    told: Told = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.setdefault(body["incident"]["subject"], time.time())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", told
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _service(folder: Path, kafka: KafkaServer, url: str) -> Iterator[None]:
    for topic in ("kernel", "gpus"):
        kafka.create(topic)
    (folder / "gpulake.toml").write_text(SETTINGS.format(servers=kafka.servers, url=url))
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen([PROGRAMS / "gpulake", "run"], cwd=folder, env=environment({}), stdout=log, stderr=log)
    try:
        yield
    finally:
        child.terminate()
        child.wait(60)
