"""GPUs whose owner no source names: unknown is not nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import built_from, rows_of
from model.telemetry_by_hand import Gpu, gpu_file

pytestmark = pytest.mark.slow

SMI = "timestamp, uuid, utilization.gpu [%], memory.used [MiB]\n"
PAGE = """DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-0",Hostname="a"{owner}}} 0 {at}
DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="GPU-1",Hostname="a"}} 0 {at}
DCGM_FI_DEV_GPU_UTIL{{gpu="2",UUID="GPU-2",Hostname="a"}} 95 {at}
DCGM_FI_DEV_FB_USED{{gpu="3",UUID="GPU-3",Hostname="a"}} 40000 {at}
DCGM_FI_DEV_GPU_UTIL{{gpu="3",UUID="GPU-3",Hostname="a"}} 0 {at}
"""
POD = ',namespace="ml",pod="train-0"'


def seconds(folder: Path, files: dict[str, str]) -> dict[object, dict[str, float]]:
    """By GPU: the seconds that were held, of an unknown owner, free, unknown; of those there are any."""
    names = ("held", "held_by_unknown", "free", "unknown")
    columns = ", ".join(f"round({name}_hours * 3600) AS {name}" for name in names)
    rows = rows_of(
        built_from(folder, files, ["gold_idle_gpus_daily"]), f"SELECT gpu_id, {columns} FROM gold_idle_gpus_daily"
    )
    return {row["gpu_id"]: {name: float(str(row[name])) for name in names if row[name]} for row in rows}


def test_a_busy_gpu_without_a_named_owner_is_held_and_an_idle_one_is_unknown(tmp_path: Path) -> None:
    polls = [
        f"2026/03/01 10:00:{at:02}.000, {gpu}, {busy} %, {used} MiB\n"
        for at in range(0, 31, 10)
        for gpu, busy, used in (("busy", 90, 50_000), ("full", 0, 2_000), ("still", 0, 615))
    ]
    assert seconds(tmp_path, {"a.csv": SMI + "".join(polls)}) == {
        "busy": {"held": 30, "held_by_unknown": 30},
        "full": {"held": 30, "held_by_unknown": 30},
        "still": {"unknown": 30},
    }


@pytest.mark.parametrize(
    ("owner", "first", "second"), [(POD, {"held": 30}, {"free": 30}), ("", *[{"unknown": 30}] * 2)]
)
def test_an_exporter_that_names_pods_proves_that_a_gpu_has_none(
    tmp_path: Path, owner: str, first: dict[str, float], second: dict[str, float]
) -> None:
    page = "".join(PAGE.format(owner=owner, at=1_772_359_200_000 + at) for at in range(0, 30_001, 10_000))
    in_use = {"held": 30, "held_by_unknown": 30}
    assert seconds(tmp_path, {"a.prom": page}) == {"GPU-0": first, "GPU-1": second, "GPU-2": in_use, "GPU-3": in_use}


def test_a_card_of_rocm_smi_is_free_only_where_something_says_so(tmp_path: Path) -> None:
    # Each snapshot is a file of its own, and has its time.
    lake = built_from(
        tmp_path, {"a.json": '{"card0": {"GPU use (%)": "80"}, "card1": {"GPU use (%)": "0"}}'}, ["silver_gpu_samples"]
    )
    query = "SELECT gpu_index, owner_kind, owner_evidence FROM silver_gpu_samples ORDER BY gpu_index"
    assert [tuple(row.values()) for row in rows_of(lake, query)] == [(0, "unattributed", "use"), (1, "unknown", None)]


def test_the_collector_proves_that_a_gpu_is_free_only_where_it_could_list_processes(tmp_path: Path) -> None:
    kinds = {
        "listed": {"gpu_busy_ratio": 0.0, "processes": 0},
        "unlisted": {"gpu_busy_ratio": 0.0, "processes": None},
        "busy": {"gpu_busy_ratio": 0.5, "processes": 0},
        "in_a_container": {"gpu_busy_ratio": 0.0, "processes": 0, "memory_used_bytes": 2**34},
    }
    samples = [Gpu(gpu, at, **values) for gpu, values in kinds.items() for at in range(0, 30_001, 10_000)]  # type: ignore[arg-type]
    assert seconds(tmp_path, {"a/gpu_metrics.jsonl": gpu_file(samples)}) == {
        "listed": {"free": 30},
        "unlisted": {"unknown": 30},
        "busy": {"held": 30, "held_by_unknown": 30},
        "in_a_container": {"held": 30, "held_by_unknown": 30},
    }
