"""Pulls from a real Prometheus: through a restart of the server, a kill of the pull, and of pages that it scraped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import rows_of
from gpulake.collect.live.page import Server
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.pull.prometheus import PrometheusPull
from live_rows import GPU_0, GPU_1
from live_server import start
from pull.real_prometheus import RealPrometheus, needs_prometheus, running, write_history

__all__ = ["start"]
pytestmark = [needs_prometheus, pytest.mark.slow]
GPUS = 4
STEPS = 240  # of 30 seconds: two hours
SILVER = "SELECT *, CAST(epoch(sampled_at) AS BIGINT) AS at FROM silver_gpu_samples ORDER BY gpu_id, sampled_at"
END = int(time.time()) // 3600 * 3600 - 3600


def at(step: int) -> int:
    return END - 30 * (STEPS - step)


def busy_percent(gpu: int, step: int) -> int:
    return (gpu * 31 + step) % 101


def is_gone(gpu: int, step: int) -> bool:
    return gpu == 3 and 50 <= step < 120


# Busy and idle GPUs, a value that cannot be, one that is no number, a counter that starts again.
FAMILIES: dict[str, Callable[[int, int], float | str]] = {
    "DCGM_FI_DEV_GPU_UTIL": busy_percent,
    "DCGM_FI_DEV_FB_USED": lambda gpu, _: 1000 * gpu,
    "DCGM_FI_DEV_POWER_USAGE": lambda gpu, step: "NaN" if step == 7 else 100.5 + gpu,
    "DCGM_FI_DEV_GPU_TEMP": lambda gpu, step: 4294967295 if (gpu, step) == (1, 9) else 40 + gpu,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda _, step: 1e6 * (step if step < 100 else step - 100),
}


def history() -> Iterator[str]:
    for metric, value in FAMILIES.items():
        yield f"# TYPE {metric} gauge"
        for gpu in range(GPUS):
            labels = f'Hostname="n{gpu // 2}",UUID="GPU-{gpu}",gpu="{gpu % 2}",exported_pod="p{gpu}"'
            for step in range(STEPS):
                if not is_gone(gpu, step):
                    yield f"{metric}{{{labels}}} {value(gpu, step)} {at(step)}"
    yield "# EOF\n"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    write_history(folder, "\n".join(history()))
    with running(folder) as server:
        yield server


# A pull that is there to be killed.
PROGRAM = """
import sys
from datetime import datetime
from pathlib import Path
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.pull.prometheus import PrometheusPull

lake, url, since, until = sys.argv[1:]
source = PrometheusPull(url, most_samples=600, environment={})
Flow(Config(lake=Path(lake), threads=1)).pull(source, datetime.fromisoformat(since), datetime.fromisoformat(until))
"""


def source(server: RealPrometheus, most_samples: int = 2_000_000) -> PrometheusPull:
    return PrometheusPull(server.url, most_samples=most_samples, environment={})


SINCE, UNTIL = (datetime.fromtimestamp(END - 30 * steps, UTC) for steps in (STEPS + 10, -10))


def never(seconds: float) -> None:
    pytest.fail(f"waited {seconds} seconds")


def pulled(server: RealPrometheus, lake: Path, most_samples: int = 2_000_000) -> Flow:
    flow = Flow(Config(lake=lake, threads=1), wait=never)
    flow.pull(source(server, most_samples), SINCE, UNTIL)
    return flow


@pytest.fixture(scope="module")
def uninterrupted(prometheus: RealPrometheus, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Silver of a pull in one piece."""
    flow = pulled(prometheus, tmp_path_factory.mktemp("whole") / "lake")
    flow.build()
    rows = rows_of(flow.lake, SILVER)
    told = {(row["gpu_id"], row["at"]): row["busy_ratio"] for row in rows}
    known = [(gpu, step) for gpu in range(GPUS) for step in range(STEPS) if not is_gone(gpu, step)]
    expected = {(f"GPU-{gpu}", at(step)): pytest.approx(busy_percent(gpu, step) / 100) for gpu, step in known}
    assert {key: told.get(key) for key in expected} == expected
    # Where nothing marks the end of a series, the server repeats its last sample for up to five minutes.
    others = {second for _, second in told.keys() - expected}
    assert {step for step in range(120) if at(step) in others} <= set(range(50, 61))
    assert rows_of(flow.lake, "SELECT count(*) AS n FROM quarantine") == [{"n": GPUS + 1}]
    return rows


def test_a_server_that_restarts_in_the_middle_costs_nothing(
    prometheus: RealPrometheus, uninterrupted: list[dict[str, Any]], tmp_path: Path
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        prometheus.start()

    flow = Flow(Config(lake=tmp_path / "lake", threads=1), wait=wait)
    own = source(prometheus, 600)
    pieces = own.pieces

    class Interrupted:
        """Stops the server after the third piece."""

        name, address, scope, overlap = own.name, own.address, own.scope, own.overlap

        def pieces(self, *arguments: Any) -> Iterator[Any]:
            for count, piece in enumerate(pieces(*arguments), start=1):
                yield piece
                if count == 3:
                    prometheus.stop()

    result = flow.pull(Interrupted(), SINCE, UNTIL)
    flow.build()
    assert result.pieces > 3
    assert len(waits) == 1
    assert rows_of(flow.lake, SILVER) == uninterrupted


def test_a_pull_that_was_killed_goes_on_and_ends_as_one_that_was_not(
    prometheus: RealPrometheus, uninterrupted: list[dict[str, Any]], tmp_path: Path
) -> None:
    journal = tmp_path / "lake" / "pulls.jsonl"
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        str(tmp_path / "lake"),
        prometheus.url,
        SINCE.isoformat(),
        UNTIL.isoformat(),
    ]
    with subprocess.Popen(command) as process:
        while process.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 2):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    before = journal.read_text().count("\n")
    flow = pulled(prometheus, tmp_path / "lake", 600)
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    assert datetime.fromisoformat(rows[before]["since_at"]) >= datetime.fromisoformat(rows[0]["until_at"])
    flow.build()
    assert rows_of(flow.lake, SILVER) == uninterrupted


def test_pages_that_prometheus_scraped_reach_the_tables(start: Callable[..., Server], tmp_path: Path) -> None:
    """The page of our own exporter, as it is served on a node."""
    host, port = start().address[:2]
    with running(tmp_path, [f"{host}:{port}"]) as server:
        server.wait_for("/api/v1/query?query=count_over_time(node_load1[1m])>=3", '"value"')
        flow = Flow(Config(lake=tmp_path / "lake", threads=1), wait=never)
        own = PrometheusPull(server.url, step=timedelta(seconds=1), environment={})
        flow.pull(own, datetime.now(UTC) - timedelta(minutes=1))
    flow.build()
    hosts = "SELECT DISTINCT node_id, load_1m, memory_total_bytes FROM silver_host_samples"
    assert rows_of(flow.lake, hosts) == [{"node_id": "127.0.0.1", "load_1m": 0.5, "memory_total_bytes": 16 << 30}]
    gpus = "SELECT DISTINCT node_id, gpu_id, busy_ratio FROM silver_gpu_samples ORDER BY gpu_id"
    assert rows_of(flow.lake, gpus)[:2] == [
        {"node_id": "n1.example", "gpu_id": GPU_0, "busy_ratio": 0.07},
        {"node_id": "n1.example", "gpu_id": GPU_1, "busy_ratio": 0.0},
    ]
