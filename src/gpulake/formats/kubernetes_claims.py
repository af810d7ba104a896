"""Dynamic resource allocation: GPUs of a ResourceClaim and whose they are, and those that a ResourceSlice offers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpulake.formats.kubernetes_gpus import mig_ratio, words

# NVIDIA's driver names a MIG instance by its profile, and before that by profile, place and eighths of the memory.
_MIG = re.compile(r"gpu-\d+-mig-(\d+g)(\d+gb)\b.*")
_OLD_MIG = re.compile(r"gpu-\d+-mig-\d+-\d+-(\d)")


def claim_row(item: Mapping[str, Any]) -> dict[str, object]:
    """Pods that share a claim have equal parts of it."""
    status = _mapping(item.get("status"))
    results = _members(_mapping(_mapping(status.get("allocation")).get("devices")).get("results"))
    gpus = sum(
        _share(str(one.get("device")))
        for one in results
        # Access for monitoring takes nothing.
        if one.get("driver") in words()["claims"]["drivers"] and one.get("adminAccess") is not True
    )
    holders = [one for one in _members(status.get("reservedFor")) if one.get("resource") == "pods" and one.get("uid")]
    return {"gpu_shares": gpus, "held_by": ",".join(sorted({str(one["uid"]) for one in holders}))}


def slice_row(item: Mapping[str, Any]) -> dict[str, object]:
    """Boards only: a MIG instance is a part of one of them."""
    spec = _mapping(item.get("spec"))
    is_known = spec.get("driver") in words()["claims"]["drivers"]
    boards = [attributes for attributes in _attributes(spec) if attributes.get("type", "gpu") == "gpu"]
    products = sorted({one["productName"] for one in boards if "productName" in one})
    return {
        "node": spec.get("nodeName"),
        "gpus": len(boards) if is_known else 0,
        "gpu_type": products[0] if is_known and len(products) == 1 else "",
    }


def _share(device: str) -> float:
    if found := _MIG.fullmatch(device):
        return mig_ratio(f"{found[1]}.{found[2]}")
    found = _OLD_MIG.fullmatch(device)
    return min(int(found[1]) / 8, 1.0) if found else 1.0


def _attributes(spec: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Attributes that are text; before version 1 they are one level deeper."""
    for device in _members(spec.get("devices")):
        told = _mapping((_mapping(device.get("basic")) or device).get("attributes"))
        yield {name: one["string"] for name, one in told.items() if isinstance(_mapping(one).get("string"), str)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _members(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
