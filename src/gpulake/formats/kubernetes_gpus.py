"""How many GPUs a pod asks for and a node has, by the names of Kubernetes' extended resources (kubernetes.toml)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from gpulake.core.packaged import packaged_toml

_QUANTITY = re.compile(r"([+-]?[0-9.]+)(m|[kKMGTPE]i?|[eE][+-]?[0-9]+)?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_PROFILE = re.compile(r"(\d+)g\.\d+gb")
_MIG_PRODUCT = re.compile(r"-MIG-(\d+g\.\d+gb\S*?)(?:-SHARED)?$")
_SUFFIX = re.compile(r"(?:-MIG-\S+?)?(?:-SHARED)?$")


class Gpus(NamedTuple):
    devices: float  # of each, the node says how much of a GPU it is
    shares: float  # GPUs by explicit shares: MIG slices, percentages of vGPUs


class NodeGpus(NamedTuple):
    gpus: int  # boards
    device_ratio: float  # of a GPU that one device is
    gpu_type: str
    gpu_memory_bytes: float | None


@cache
def words() -> Mapping[str, Any]:
    return packaged_toml("gpulake.formats", "kubernetes.toml")


def quantity(value: object) -> float:
    """A number as Kubernetes writes it: 8, "500m", "64Gi", "2e3"."""
    found = _QUANTITY.fullmatch(str(value).strip())
    if found is None or isinstance(value, bool):
        raise ValueError(f"no quantity: {value!r}")
    number, unit = float(found[1]), found[2] or ""
    if unit == "m":
        return number / 1000
    if unit[:1] in "eE" and len(unit) > 1 and unit[1] != "i":
        return float(found[1] + unit)
    base = 1024 if unit.endswith("i") else 1000
    return float(number * base ** _POWERS[unit[0]]) if unit else number


def gpus_of(resources: Mapping[str, Any]) -> Gpus:
    """Of the limits of a container, or of the capacity of a node."""
    known = words()["resources"]
    devices = shares = 0.0
    for name, value in resources.items():
        percentage = resources.get(known["percentages"].get(name, ""))
        if percentage is not None:
            shares += quantity(value) * min(quantity(percentage), 100) / 100
        elif name in known["devices"]:
            devices += quantity(value)
        elif name in known["percentages"]:  # without a percentage, each is a GPU
            shares += quantity(value)
        elif name.startswith(words()["mig"]["prefix"]):
            shares += quantity(value) * mig_ratio(name.removeprefix(words()["mig"]["prefix"]))
    return Gpus(devices, shares)


def mig_ratio(profile: str) -> float:
    """The share of a GPU that an instance of this profile is: 1g.5gb is a seventh."""
    found = _PROFILE.match(profile)
    if found is None:
        raise ValueError(f"no MIG profile: {profile!r}")
    mig = words()["mig"]
    slices: int = mig["fewer_slices"] if found[0] in mig["profiles_of_fewer"] else mig["slices"]
    return min(int(found[1]) / slices, 1.0)


def pod_requests(spec: Mapping[str, Any]) -> tuple[Gpus, float, float]:
    """GPUs, cores and bytes of memory that a pod takes: the sum of its containers, or its largest init container.

    An init container that restarts always is a sidecar: it runs beside the others, and beside later init containers.
    """
    sidecars = [0.0] * 4
    most = [0.0] * 4
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, amounts))
            most = _most(most, sidecars)
        else:
            most = _most(most, _sum((sidecars, amounts)))
    running = _sum((sidecars, *(_amounts(container) for container in spec.get("containers") or ())))
    devices, shares, cores, memory = _most(most, running)
    return Gpus(devices, shares), cores, memory


def node_gpus(capacity: Mapping[str, Any], labels: Mapping[str, str]) -> NodeGpus:
    """Boards of a node. Under time slicing a board is several devices, under MIG with one name an instance is one."""
    node = words()["node"]
    product = next((labels[name] for name in node["gpu_type"] if labels.get(name)), "")
    memory = quantity(labels[node["gpu_memory_mebibytes"]]) * 2**20 if node["gpu_memory_mebibytes"] in labels else None
    devices, shares = _capacity(capacity)
    ratio = 1.0
    if found := _MIG_PRODUCT.search(product):
        ratio = mig_ratio(found[1])
    boards = quantity(labels.get(node["gpu_count"], 0))
    if found is None and 0 < boards < devices:
        ratio = boards / devices
    count = math.ceil(devices * ratio - 1e-6) + math.ceil(shares - 1e-6)
    return NodeGpus(count, ratio, _SUFFIX.sub("", product), memory)


def _capacity(capacity: Mapping[str, Any]) -> Gpus:
    """A node of virtual GPUs counts the percentages of all its boards."""
    percentages = words()["resources"]["percentages"]
    virtual = {name: cores for name, cores in percentages.items() if name in capacity and cores in capacity}
    hidden = {*virtual, *virtual.values()}
    devices, shares = gpus_of({name: value for name, value in capacity.items() if name not in hidden})
    return Gpus(devices, shares + sum(quantity(capacity[cores]) / 100 for cores in virtual.values()))


def _amounts(container: Mapping[str, Any]) -> list[float]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return [*gpus_of(asked), quantity(asked.get("cpu", 0)), quantity(asked.get("memory", 0))]


def _sum(rows: Iterable[list[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _most(one: list[float], other: list[float]) -> list[float]:
    return [max(pair) for pair in zip(one, other, strict=True)]
