"""The catalogue of GPU models (gpu_models.toml), and the model that a name means: h100 is NVIDIA H100 80GB HBM3."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from gpulake.core.packaged import packaged_toml

PRICE_CURRENCY = "USD"  # of the default prices
Found = TypeVar("Found")


@dataclass(frozen=True)
class GpuModel:
    """One device as its driver lists it. None: not published."""

    name: str
    pattern: str  # of a plain name
    memory_bytes: int | None
    busy_watts: float | None
    idle_watts: float | None
    fp16_teraflops: float | None  # peak dense throughput of the matrix units
    bf16_teraflops: float | None
    fp8_teraflops: float | None
    usd_per_hour: float | None
    source: str
    idle_source: str
    price_source: str


@cache
def gpu_models() -> Mapping[str, GpuModel]:
    """By name, in the order in which their patterns are tried."""
    content = packaged_toml("gpulake.core", "gpu_models.toml")
    return {name: _model(name, entry, content) for name, entry in content["models"].items()}


def model_of(name: str | None) -> GpuModel | None:
    """The model that a scheduler, a driver or an inventory means by a name."""
    return None if not name else _model_of(name)


def matching(name: str, known: Mapping[str, Found]) -> Found | None:
    """What is known of a GPU type: by its own name, or by another name of the same model."""
    if name in known:
        return known[name]
    model = model_of(name)
    return None if model is None else next((known[other] for other in _names(known, model)), None)


def same_models(names: Iterable[str], models: Iterable[str]) -> list[str]:
    """Those of the names that mean one of the models."""
    wanted = set(models)
    return [name for name in names if (model := model_of(name)) is not None and model.name in wanted]


def plain_name(name: str) -> str:
    """What patterns are matched against. Models of the build do the same in SQL: see macro gpu_models_of."""
    words = re.sub("[^a-z0-9]+", " ", name.lower()).strip()
    return re.sub("^" + prefix_pattern(), "", re.sub(r"([0-9]) gb\b", r"\1gb", words))


def prefix_pattern() -> str:
    """Words before the model's own name."""
    return f"(?:(?:{'|'.join(packaged_toml('gpulake.core', 'gpu_models.toml')['prefixes'])}) )*"


def part_pattern() -> str:
    """A MIG profile: a part of a GPU."""
    return str(packaged_toml("gpulake.core", "gpu_models.toml")["part"])


@cache
def _model_of(name: str) -> GpuModel | None:
    plain = plain_name(name)
    if re.search(part_pattern(), plain):
        return None
    return next((model for model in gpu_models().values() if re.fullmatch(model.pattern, plain)), None)


def _names(known: Mapping[str, Any], model: GpuModel) -> list[str]:
    """Names of the model, the catalogue's own first."""
    return sorted(same_models(known, [model.name]), key=lambda name: (name != model.name, name))


def _model(name: str, entry: Mapping[str, Any], content: Mapping[str, Any]) -> GpuModel:
    figures = entry["figures"]
    memory = figures.get("memory_gib")
    return GpuModel(
        name=name,
        pattern=entry["pattern"],
        memory_bytes=None if memory is None else memory << 30,
        busy_watts=figures.get("busy_watts"),
        idle_watts=figures.get("idle_watts"),
        fp16_teraflops=figures.get("fp16"),
        bf16_teraflops=figures.get("bf16"),
        fp8_teraflops=figures.get("fp8"),
        usd_per_hour=figures.get("usd_per_hour"),
        source=entry["source"],
        idle_source=content["idle"][figures["idle_by"]] if "idle_by" in figures else "",
        price_source=content["price"][figures["price_by"]] if "price_by" in figures else "",
    )
