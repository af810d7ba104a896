"""How many GPUs the objects of Kubernetes speak of: whole ones, MIG instances, shares in time, virtual ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.formats.kubernetes import Listing, object_row, templates
from gpulake.formats.kubernetes_gpus import Gpus, gpus_of, mig_ratio, node_gpus, pod_requests, quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        (8, 8),
        ("500m", 0.5),
        ("64Gi", 64 * 2**30),
        ("1k", 1000),
        ("2M", 2e6),
        ("2e3", 2000),
        ("1.5Ti", 1.5 * 2**40),
    ],
)
def test_a_quantity_is_a_number(text: object, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "many", "8 GPUs", None, True, "1Xi"])
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"cpu": "8"}, Gpus(0, 0)),
        ({"nvidia.com/gpu": "8", "rdma/ib": "1"}, Gpus(8, 0)),
        ({"amd.com/gpu": "4"}, Gpus(4, 0)),
        ({"nvidia.com/gpu.shared": "1"}, Gpus(1, 0)),
        ({"nvidia.com/mig-3g.20gb": "1", "nvidia.com/mig-1g.5gb": "2"}, Gpus(0, 3 / 7 + 2 / 7)),
        ({"nvidia.com/mig-1g.6gb": "2"}, Gpus(0, 0.5)),
        # HAMi: two virtual GPUs of 30 % each; Volcano: one of which no percentage is said.
        (
            {"nvidia.com/gpu": "2", "nvidia.com/gpucores": "30", "nvidia.com/gpumem": "3000"},
            Gpus(0, 0.6),
        ),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "50"}, Gpus(0, 0.5)),
        ({"volcano.sh/vgpu-number": "1"}, Gpus(0, 1)),
    ],
)
def test_what_a_container_asks_for(limits: dict[str, str], found: Gpus) -> None:
    assert gpus_of(limits) == found


def test_a_mig_instance_is_its_slices_of_seven_or_of_four() -> None:
    profiles = ("1g.5gb", "1g.10gb+me", "2g.10gb", "3g.40gb", "4g.20gb", "7g.80gb", "1g.6gb", "2g.12gb", "4g.24gb")
    assert [mig_ratio(profile) for profile in profiles] == [1 / 7, 1 / 7, 2 / 7, 3 / 7, 4 / 7, 1, 1 / 4, 1 / 2, 1]


def asking(count: int, **more: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(count)}}, **more}


@pytest.mark.parametrize(
    ("inits", "containers", "count"),
    [
        ([], [1, 2], 3),
        ([asking(2)], [1, 2], 3),
        ([asking(8), asking(2)], [1, 2], 8),
        ([asking(1, restartPolicy="Always"), asking(3)], [1], 4),
        ([asking(1, restartPolicy="Always")], [2, 2], 5),
    ],
)
def test_init_containers_are_not_counted_twice(inits: list[dict[str, Any]], containers: list[int], count: int) -> None:
    spec = {"initContainers": inits, "containers": [asking(one) for one in containers]}
    assert pod_requests(spec)[0] == Gpus(count, 0)


@pytest.mark.parametrize(
    ("capacity", "labels", "found"),
    [
        (
            {"nvidia.com/gpu": "8"},
            {"gpu.product": "NVIDIA-H100-80GB-HBM3", "gpu.count": "8"},
            (8, 1, "NVIDIA-H100-80GB-HBM3"),
        ),
        ({"nvidia.com/gpu": "0"}, {}, (0, 1, "")),
        ({"nvidia.com/gpu": "16"}, {"gpu.product": "Tesla-T4-SHARED", "gpu.count": "4"}, (4, 0.25, "Tesla-T4")),
        (
            {"nvidia.com/gpu": "56"},
            {"gpu.product": "A100-SXM4-40GB-MIG-1g.5gb", "gpu.count": "56", "mig.strategy": "single"},
            (8, 1 / 7, "A100-SXM4-40GB"),
        ),
        (
            {"nvidia.com/gpu": "6", "nvidia.com/mig-3g.20gb": "2", "nvidia.com/mig-1g.5gb": "7"},
            {"gpu.product": "A100-SXM4-40GB", "gpu.count": "8"},
            (8, 1, "A100-SXM4-40GB"),
        ),
        ({"volcano.sh/vgpu-number": "80", "volcano.sh/vgpu-cores": "800"}, {}, (8, 1, "")),
    ],
)
def test_a_node_has_boards_however_they_are_shared(
    capacity: dict[str, str], labels: dict[str, str], found: tuple[Any, ...]
) -> None:
    named = {f"nvidia.com/{name}": value for name, value in labels.items()}
    assert node_gpus(capacity, named) == (*found, None)


def test_an_owner_asks_for_all_its_pods() -> None:
    pods = {"spec": {"containers": [asking(4)]}}
    kinds = {
        "job": {"parallelism": 2, "completions": 6, "template": pods},
        "pytorchjob": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": pods},
                "Worker": {"replicas": 3, "template": pods},
            }
        },
        "ray": {"headGroupSpec": {"template": pods}, "workerGroupSpecs": [{"replicas": 2, "template": pods}]},
        "volcano": {"tasks": [{"replicas": 2, "template": pods}, {"replicas": 1, "template": pods}]},
        "jobset": {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 4, "template": pods}}}]},
        "workload": {"podSets": [{"count": 5, "template": pods}]},
    }
    counts = {kind: sum(count for count, _ in templates(spec)) for kind, spec in kinds.items()}
    assert counts == {"job": 2, "pytorchjob": 4, "ray": 3, "volcano": 3, "jobset": 8, "workload": 5}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "status",
                    "metadata",
                    "containers",
                    "conditions",
                    "labels",
                    "resources",
                    "limits",
                    "nvidia.com/gpu",
                    "template",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.sampled_from(["Pod", "Node", "Event", "Job", "Snapshot"]), JSON, JSON)
def test_any_object_is_a_row_or_a_reason(kind: str, spec: Any, status: Any) -> None:
    item = {"kind": kind, "metadata": {"name": "a", "uid": "u"}, "spec": spec, "status": status}
    with suppress(ValueError, TypeError, AttributeError, KeyError):  # what the reader quarantines
        assert object_row(item, Listing())["name"] == "a"
