"""The same samples twice: as they were scraped, and as a server repeats them at the steps of a query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import built_from, rows_of

BEGIN = 1_777_626_000  # 2026-05-01 09:00 UTC
HOUR, OFFSET, SCRAPED, STEP = 3600, 7, 30, 300
LABELS = {"UUID": "GPU-1", "gpu": "0", "Hostname": "gpu-017", "modelName": "NVIDIA H100 80GB HBM3"}
PULLED = LABELS | {"instance": "10.0.0.17:9400", "job": "dcgm"}
COVERED = (
    "SELECT sum(covers_seconds) AS seconds, sum(covers_seconds * busy_ratio) AS busy_seconds,"
    " sum(energy_joules) AS joules FROM silver_gpu_samples"
)


def percent(at: int) -> int:
    """Busy every other half hour."""
    return 100 if (at - BEGIN) // 1800 % 2 else 0


def raw() -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in LABELS.items())
    return "".join(
        f"DCGM_FI_DEV_{metric}{{{labels}}} {value} {at * 1000}\n"
        for at in range(BEGIN + OFFSET, BEGIN + 4 * HOUR, SCRAPED)
        for metric, value in (("GPU_UTIL", percent(at)), ("POWER_USAGE", 100 + 6 * percent(at)))
    )


def repeated() -> str:
    """What query_range gives: at each step the last sample before it."""
    times = range(BEGIN + STEP, BEGIN + 4 * HOUR, STEP)
    last = {at: at - (at - BEGIN - OFFSET) % SCRAPED for at in times}
    values: dict[str, list[list[object]]] = {
        "DCGM_FI_DEV_GPU_UTIL": [[at, str(percent(last[at]))] for at in times],
        "DCGM_FI_DEV_POWER_USAGE": [[at, str(100 + 6 * percent(last[at]))] for at in times],
    }
    result = [{"metric": PULLED | {"__name__": name}, "values": pairs} for name, pairs in values.items()]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


@pytest.mark.slow
def test_scrapes_and_the_steps_of_a_query_count_the_time_of_a_gpu_once(tmp_path: Path) -> None:
    (alone,) = rows_of(built_from(tmp_path / "raw", {"scraped.prom": raw()}), COVERED)
    files = {"scraped.prom": raw(), "answer.json": repeated()}
    twice = built_from(tmp_path / "both", files)
    (both,) = rows_of(twice, COVERED)
    assert alone == {
        "seconds": pytest.approx(4 * HOUR, abs=60),
        "busy_seconds": pytest.approx(2 * HOUR, abs=60),
        "joules": pytest.approx(4 * HOUR * 400, rel=0.01),
    }
    assert both == {key: pytest.approx(value, rel=0.005) for key, value in alone.items()}
    gpus = rows_of(twice, "SELECT DISTINCT gpu_id, node_id FROM silver_gpu_samples")
    assert gpus == [{"gpu_id": "GPU-1", "node_id": "gpu-017"}]
