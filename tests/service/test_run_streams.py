"""Streams in the service: a fatal Xid in a topic is an incident and a message within seconds, and before any build."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from bench.kafka_server import KafkaServer

from bench import kafka_server
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.flow.incidents import read_incidents
from receiving import listening_receiver
from service.test_run import Service

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(kafka_server.why_not()), reason=kafka_server.why_not() or "there is a Kafka"),
]
confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is missing")
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."
MOST_SECONDS = 30  # the bar is 5 on a quiet machine, which the benchmark measures
SETTINGS = """
[run.sources.kernel]
ingest = ["kafka", "--servers", "{servers}", "--topic", "kernel=kernel", "--topic", "gpus=json", "--batch", "1s"]
[alerts.sinks.hook]
kind = "webhook"
url = "{url}"
"""


def test_a_fatal_xid_in_a_topic_is_one_incident_and_one_message_whatever_is_built_later(tmp_path: Path) -> None:
    with KafkaServer(tmp_path / "kafka") as kafka, listening_receiver() as receiver:
        kafka.create("kernel")
        kafka.create("gpus")
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.servers})
        service = Service(tmp_path, SETTINGS.format(servers=kafka.servers, url=receiver.url))
        try:
            service.until(lambda parts: "ingest kernel" in parts and parts["ingest kernel"]["state"] == "up")
            producer.produce("kernel", json.dumps({"host": "g1", "message": XID}).encode())
            assert producer.flush(30) == 0
            began = time.monotonic()
            while not receiver.requests and time.monotonic() < began + MOST_SECONDS:
                time.sleep(0.02)
            print(f"notified after {time.monotonic() - began:.1f} s")
            assert receiver.requests
            # An exporter repeats its last Xid, and a GPU stays hot.
            begin = time.time()
            for second in range(0, 40, 2):
                row = {"Hostname": "g2", "gpu": 1, "timestamp": round((begin - 40 + second) * 1000)}
                row |= {"DCGM_FI_DEV_XID_ERRORS": 79, "DCGM_FI_DEV_GPU_TEMP": 93}
                producer.produce("gpus", json.dumps(row).encode())
            assert producer.flush(30) == 0
            while len(receiver.requests) < 3 and time.time() < begin + MOST_SECONDS:
                time.sleep(0.02)
            print(f"notified of samples after {time.time() - begin:.1f} s")
            service.until(lambda parts: parts["build"]["runs"] and parts["build"]["state"] == "waiting")
        finally:
            assert service.stop() == 0
        found = read_incidents(Flow(Config(lake=service.lake, threads=1)).lake.open())
    assert sorted((one.kind, one.subject, one.severity, one.cluster_id) for one in found) == [
        ("hot_gpu", "g2 GPU 1", "warning", "local"),
        ("node_fault", "g1", "critical", "local"),
        ("node_fault", "g2", "critical", "local"),
    ]
    assert sorted(one.document["incident"]["subject"] for one in receiver.requests) == ["g1", "g2", "g2 GPU 1"]
