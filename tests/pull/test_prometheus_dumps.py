"""What promtool prints of a server's storage lands with its times."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.progress import silent
from gpulake.lake import Lake
from gpulake.land.landing import land
from gpulake.land.readers import Sample
from gpulake.land.readers.prometheus import PrometheusReader
from pull.real_prometheus import needs_prometheus, write_history

PAGE = r"""# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0"} 0 1763424000
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0"} 5.5 1763424030
# TYPE node_load1 gauge
node_load1{instance="n1:9100",path="C:\\DIR \"x\", y"} NaN 1763424000
# EOF
"""
SAMPLES = "SELECT metric, labels, value::VARCHAR AS value, ts_ms FROM bronze_prometheus_samples ORDER BY metric, ts_ms"


def landed(lake: Lake, clock: FrozenClock, path: Path) -> list[tuple[str, str, str, float]]:
    with lake.writing():
        land(lake, [path], clock, silent)
    return [tuple(row.values()) for row in rows_of(lake, SAMPLES)]  # type: ignore[misc]


EXPECTED = [
    ("DCGM_FI_DEV_GPU_UTIL", '{"UUID": "GPU-1", "gpu": "0"}', "0.0", 1763424000000.0),
    ("DCGM_FI_DEV_GPU_UTIL", '{"UUID": "GPU-1", "gpu": "0"}', "5.5", 1763424030000.0),
    ("node_load1", r'{"instance": "n1:9100", "path": "C:\\DIR \"x\", y"}', "nan", 1763424000000.0),
]


@needs_prometheus
def test_a_dump_of_a_real_storage_lands_whole(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    write_history(tmp_path, PAGE)
    (tmp_path / "data" / "wal").mkdir()
    dump = tmp_path / "dump.txt"
    command = ["promtool", "tsdb", "dump", str(tmp_path / "data")]
    dump.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    assert landed(lake, clock, dump) == EXPECTED


def test_a_dump_in_openmetrics_counts_seconds(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    dump = tmp_path / "dump.txt"
    dump.write_text("".join(line for line in PAGE.splitlines(keepends=True) if "TYPE" not in line))
    assert landed(lake, clock, dump) == EXPECTED


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1} 5 1763424000000',
        "loss{step=1} 0.5 1763424000",
        'loss{run="a"} 0.5 17',
        'loss{run="a"} 0.5',
        "a 1 1763424000",
    ],
)
def test_what_only_resembles_a_dump_is_left_to_others(line: str) -> None:
    assert PrometheusReader().recognise(Sample("some.txt", (line,))) is None
