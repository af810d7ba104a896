"""The receiver of OTLP and remote write: answered once it is on the disk, and what is sent again lands once."""

from __future__ import annotations

import gzip
import http.client
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from bench.scoring.servers import free_port, is_installed

from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.flow import Flow
from gpulake.flow.receiving import Receiving
from gpulake.pull.receiver import TOKEN, Receiver

NOON = 1_700_000_000
POINT = {"asInt": "0", "timeUnixNano": str(NOON * 10**9)}
METRIC = {"name": "DCGM_FI_DEV_GPU_UTIL", "gauge": {"dataPoints": [POINT]}}
OTLP = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [METRIC]}]}]}).encode()
JSON = {"Content-Type": "application/json"}
EMPTY: bytes = pa.compress(b"", codec="snappy", asbytes=True)


def post(address: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("POST", path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@contextmanager
def receiving(flow: Flow) -> Iterator[str]:
    found = Receiving(flow, "127.0.0.1", 0, 0.02, print)
    thread = threading.Thread(target=lambda: list(found.run()))
    thread.start()
    try:
        yield found.receiver.address
    finally:
        found.stop()
        thread.join()


def samples(flow: Flow) -> list[tuple[str, float, float]]:
    with flow.lake.reading() as reader:
        rows = reader.query("SELECT metric, value, ts_ms FROM bronze_prometheus_samples ORDER BY ALL").to_pylist()
    return [(row["metric"], row["value"], row["ts_ms"]) for row in rows]


@pytest.mark.slow
def test_an_answered_request_has_landed_and_one_that_is_sent_again_lands_once(config: Config) -> None:
    flow = Flow(config)
    with receiving(flow) as address:
        assert post(address, "/v1/metrics", OTLP, JSON) == (200, b"{}")
        assert samples(flow) == [("DCGM_FI_DEV_GPU_UTIL", 0.0, NOON * 1000)]
        assert post(address, "/v1/metrics", OTLP, JSON)[0] == 200
        assert post(address, "/v1/metrics", gzip.compress(OTLP), {**JSON, "Content-Encoding": "gzip"})[0] == 200
    with receiving(flow) as address, receiving(flow) as other:
        assert post(address, "/v1/metrics", OTLP, JSON)[0] == 200
        later = OTLP.replace(str(NOON).encode(), str(NOON + 1).encode())
        assert post(address, "/v1/metrics", later, JSON)[0] == 200
        assert post(other, "/v1/metrics", later, JSON)[0] == 200
    assert [at for _, _, at in samples(flow)] == [NOON * 1000, (NOON + 1) * 1000]


@pytest.mark.slow
def test_an_xid_that_is_pushed_is_an_incident_before_any_build(config: Config) -> None:
    labels = [{"key": key, "value": {"stringValue": value}} for key, value in (("Hostname", "g1"), ("gpu", "3"))]
    point = {"asInt": "79", "timeUnixNano": str(time.time_ns()), "attributes": labels}
    metric = {"name": "DCGM_FI_DEV_XID_ERRORS", "gauge": {"dataPoints": [point]}}
    body = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).encode()
    flow = Flow(config)
    for _ in range(2):  # whoever starts again does not report it again
        with receiving(flow) as address:
            assert post(address, "/v1/metrics", body, JSON)[0] == 200
        body = body.replace(b'"asInt": "79"', b'"asInt":  "79"')
        incidents = [history[-1] for history in flow.lake.incidents.histories().values()]
        assert [(one.kind, one.subject, one.event) for one in incidents] == [("node_fault", "g1", "opened")]


@pytest.mark.slow
def test_what_can_never_be_taken_is_refused_and_what_is_only_odd_is_quarantined(config: Config) -> None:
    flow = Flow(config)
    with receiving(flow) as address:
        assert post(address, "/api/v1/write", b"\xff\xff")[0] == 400
        assert post(address, "/v1/metrics", b"x", {"Content-Encoding": "br"})[0] == 400
        assert post(address, "/v1/traces", b"")[0] == 404
        assert post(address, "/v1/metrics", b"{}", {**JSON, "Origin": "https://example.org"})[0] == 403
        proto = {"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
        assert post(address, "/api/v1/write", EMPTY, proto)[0] == 415
        assert post(address, "/v1/metrics", b'{"resourceMetrics": 1}', JSON) == (200, b"{}")
    with flow.lake.reading() as reader:
        assert reader.query("SELECT reason FROM quarantine").to_pylist() == [{"reason": "no resourceMetrics in it"}]


def test_beyond_this_host_a_token_is_needed() -> None:
    with pytest.raises(UsageError, match=r"0\.0\.0\.0 can be reached from other hosts"):
        Receiver("0.0.0.0", 0, {})


def test_a_request_without_the_token_is_refused() -> None:
    with Receiver("127.0.0.1", 0, {TOKEN: "s3"}) as receiver:
        thread = threading.Thread(target=receiver.serve_forever, args=(0.01,))
        thread.start()
        for given in ({}, {"Authorization": "Bearer s4"}):
            assert post(receiver.address, "/v1/metrics", b"{}", given)[0] == 401
        receiver.shutdown()
        thread.join()


SETTINGS = """
global: {{scrape_interval: 1s}}
scrape_configs:
- {{job_name: self, static_configs: [{{targets: ["127.0.0.1:{own}"]}}]}}
remote_write:
- url: http://127.0.0.1:{port}/api/v1/write
  queue_config: {{batch_send_deadline: 1s, min_backoff: 100ms, max_backoff: 500ms}}
  write_relabel_configs: [{{source_labels: [__name__], regex: "prometheus_(tsdb|http|remote).*|up", action: keep}}]
"""


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason="needs the Debian package prometheus")
def test_remote_write_of_a_real_prometheus_survives_kill_9_of_the_receiver(tmp_path: Path) -> None:
    own, port = free_port(), free_port()
    (tmp_path / "prometheus.yml").write_text(SETTINGS.format(own=own, port=port))
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    command += [f"--web.listen-address=127.0.0.1:{own}", "--log.level=error"]
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.lake.create()
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(4):
            receiver = _receiver(flow, port)
            deadline, before = time.monotonic() + 60, len(samples(flow))
            while len(samples(flow)) < before + 200 and time.monotonic() < deadline:
                time.sleep(0.3)
            receiver.kill()
            receiver.communicate()
        receiver = _receiver(flow, port)
        with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/query?query=up%5B10m%5D", timeout=10) as answer:
            (kept,) = json.load(answer)["data"]["result"]
        # Prometheus sends what it scraped while nobody answered, but not once it is told to end.
        wanted, deadline = {round(at * 1000) for at, _ in kept["values"]}, time.monotonic() + 120
        while not wanted <= _ups(flow) and time.monotonic() < deadline:
            time.sleep(0.3)
    finally:
        server.terminate()
        server.wait(60)
    receiver.terminate()
    receiver.communicate(timeout=60)
    with flow.lake.reading() as reader:
        doubled = "SELECT metric, labels, ts_ms FROM bronze_prometheus_samples GROUP BY ALL HAVING count(*) > 1"
        assert reader.query(doubled).to_pylist() == []
    assert wanted <= _ups(flow)


def _ups(flow: Flow) -> set[int]:
    with flow.lake.reading() as reader:
        rows = reader.query("SELECT ts_ms FROM bronze_prometheus_samples WHERE metric = 'up'")
    return {round(at) for at in rows.column(0).to_pylist()}


def _receiver(flow: Flow, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "gpulake", "ingest", "http", "--listen", f"127.0.0.1:{port}"]
    command += ["--batch", "0.2s", "--lake", str(flow.lake.root)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
