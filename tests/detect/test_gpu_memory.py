"""How full the memory of a GPU is, where samples do not say how much there is."""

from __future__ import annotations

from detect.scenes import Row, lake_of, sample, used_ratio
from gpulake.detect.watchlist import run_watches

TYPES = [{"gpu_type": "NVIDIA H100 80GB HBM3", "gpu_model": "H100", "memory_bytes": 80 << 30}]


def _kinds(seconds_a_job: int = 1_000, **extra: object) -> list[str]:
    used: list[Row] = [
        sample("thing", second)
        | {"memory_used_bytes": int((80 << 30) * used_ratio(second))}
        | {"owner_kind": "slurm", "owner_id": str(second // seconds_a_job)}
        | extra
        for second in range(0, 700, 2)
    ]
    with lake_of({"silver_gpu_samples": used, "silver_gpu_types": TYPES}) as read:
        return [found.kind for found in run_watches(read)]


def test_the_memory_of_the_model_counts_where_the_total_is_missing() -> None:
    assert _kinds(gpu_name="NVIDIA H100 80GB HBM3") == ["gpu_memory_leak"]


def test_memory_of_which_each_job_takes_more_than_the_last_is_no_leak() -> None:
    assert _kinds(seconds_a_job=20, gpu_name="NVIDIA H100 80GB HBM3") == []


def test_neither_an_unknown_model_nor_a_part_of_a_gpu_has_a_known_memory() -> None:
    assert _kinds(gpu_name="other") == []
    assert _kinds(gpu_name="NVIDIA H100 80GB HBM3", parent_gpu_id="GPU-1", mig_profile="1g.10gb") == []
