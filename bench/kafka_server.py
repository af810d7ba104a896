"""A real Apache Kafka: one KRaft node on loopback, with the jars that scripts/kafka fetched."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

VERSION = "4.3.1"
START_SECONDS = 240  # one that was killed waits for its own session to end, and the machine may be busy
CLUSTER = "Z3B1bGFrZS10ZXN0LTAwMQ"


def jars() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(os.environ.get("KAFKA_JARS", cache / "gpulake" / f"kafka-{VERSION}"))


def why_not() -> str:
    """Why there can be no Kafka here; empty if there can."""
    if shutil.which("java") is None:
        return "Java is missing: apt-get install openjdk-17-jre-headless"
    return "" if list(jars().glob("kafka_*.jar")) else "the jars of Kafka are missing: scripts/kafka"


class KafkaServer:
    def __init__(self, folder: Path, heap: str = "256m") -> None:
        self._folder, self._heap = folder, heap
        self._ports = _free_ports(2)
        self.servers = f"127.0.0.1:{self._ports[0]}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KafkaServer:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._settings.write_text(_settings(self._folder / "data", *self._ports))
        self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings))
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    @property
    def _settings(self) -> Path:
        return self._folder / "server.properties"

    def start(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        with (self._folder / "server.log").open("ab") as log:
            command = [*self._words(), "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        quiet: dict[str, Any] = {"bootstrap.servers": self.servers, "log_level": 0}
        while time.monotonic() < deadline:
            try:
                AdminClient(quiet).list_topics(timeout=1)
                return
            except KafkaException:
                if self._process.poll() is not None:
                    break
        raise RuntimeError(f"Kafka did not start:\n{(self._folder / 'server.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """As a power cut of its machine would."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def create(self, topic: str, partitions: int = 1) -> None:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def _java(self, *words: str) -> None:
        subprocess.run([*self._words(), *words], check=True, capture_output=True)

    def _words(self) -> list[str]:
        options = [
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Djava.net.preferIPv4Stack=true",
        ]
        return ["java", *options, "-cp", f"{jars()}/*"]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _settings(data: Path, port: int, controller: int) -> str:
    return f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.network.threads=1
num.io.threads=2
"""
