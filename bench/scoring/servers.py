"""A real Prometheus on loopback, with a history made by promtool or with targets to scrape."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DEADLINE_SECONDS = 60
LOOKBACK_SECONDS = 300  # Prometheus' own: how long it repeats a sample that nothing follows


def is_installed() -> bool:
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def backfill(folder: Path, pages: Sequence[Path]) -> None:
    """The samples of OpenMetrics pages, as the server stores them."""
    for page in pages:
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(page), str(folder / "data")]
        subprocess.run(command, check=True, capture_output=True)


class RealPrometheus:
    def __init__(self, folder: Path, targets: Sequence[str] = (), lookback_seconds: int = LOOKBACK_SECONDS) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._lookback = f"{lookback_seconds}s"
        # Both are JSON, and so YAML.
        scraped = {"job_name": "gpus", "static_configs": [{"targets": list(targets)}]}
        settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scraped]}
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            *("prometheus", "--config.file", str(self.folder / "prometheus.yml"), "--storage.tsdb.path"),
            *(str(self.folder / "data"), "--storage.tsdb.retention.time", "10y"),
            *("--query.lookback-delta", self._lookback, "--query.max-samples", "200000000"),
            *("--web.listen-address", f"127.0.0.1:{self.port}", "--log.level", "error"),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for("/-/ready", "Ready")

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def wait_for(self, path: str, words: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                    if words in answer.read().decode():
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"{path} did not say {words!r} within {DEADLINE_SECONDS} seconds")


@contextmanager
def running(
    folder: Path, targets: Sequence[str] = (), lookback_seconds: int = LOOKBACK_SECONDS
) -> Iterator[RealPrometheus]:
    server = RealPrometheus(folder, targets, lookback_seconds)
    try:
        server.start()
        yield server
    finally:
        server.stop()
