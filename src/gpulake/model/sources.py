"""The dbt project's sources, written from what core says of the bronze tables, and the settings that models read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpulake.core.config import Config
from gpulake.core.gpu_models import gpu_models, model_of, part_pattern, prefix_pattern
from gpulake.core.tables import bronze_tables
from gpulake.lake.types import ENGINE

# The settings that models read, as tables: what a row is, and its columns.
SETTINGS = {
    "parameters": (
        "One row, the settings of the build.",
        {
            "reference_time_zone": ("varchar", "Time zone of the days of gold_cluster_util_daily_reference"),
            "poor_coverage_ratio": ("double", "Share of the usual coverage below which a day is poorly covered"),
            "idle_gpu_ratio": ("double", "Share of the GPUs held below which an attempt holds them empty"),
            "missed_busy_hours": ("double", "Usually busy hours of silence after which a machine is taken to be down"),
            "telemetry_cluster": ("varchar", "Cluster of nodes that no inventory and no scheduler knows"),
            "hot_gpu_celsius": ("double", "Temperature from which a GPU is hot whose slowdown temperature is unknown"),
            "currency": ("varchar", "Currency of the prices"),
            "credible_until": (
                "timestamp with time zone",
                "A day after the last landing; no setting: what is dated later is a wrong clock's",
            ),
        },
    ),
    "known_clusters": (
        "One row per cluster of which something is known beside its files.",
        {
            "cluster_id": ("varchar", "Cluster"),
            "time_zone": ("varchar", "Time zone of its days, hours and naive times"),
            "gpus": ("double", "GPUs, if there is no inventory; empty: unknown"),
            "gpu_type": ("varchar", "Type of those GPUs"),
            "has_stale_running": ("boolean", "Whether attempts are called running that are not"),
            "observed_from": (
                "timestamp with time zone",
                "Begin of the time under observation; empty: from its events",
            ),
            "observed_until": ("timestamp with time zone", "End of the time under observation; empty: from its events"),
        },
    ),
    "known_gpu_types": (
        "One row per GPU type of which a price or a power is known.",
        {
            "gpu_type": ("varchar", "GPU type"),
            "gpu_model": ("varchar", "Model that this name means, if the catalogue has it"),
            "price_per_hour": ("double", "Price of a GPU-hour, in the currency of the parameters"),
            "busy_watts": ("double", "Power of a busy board, watts"),
            "idle_watts": ("double", "Power of an idle board, watts"),
        },
    ),
    "known_gpu_models": (
        "One row per GPU model of the catalogue.",
        {
            "place": ("bigint", "Place in the catalogue: the first model whose pattern matches counts"),
            "gpu_model": ("varchar", "Model"),
            "pattern": ("varchar", "Pattern of the whole of a name without vendor and punctuation"),
            "prefix": ("varchar", "Pattern of words before it"),
            "part": ("varchar", "Pattern of the name of a part of a GPU"),
            "memory_bytes": ("bigint", "Memory, in bytes"),
            "busy_watts": ("double", "Power limit of the board, watts"),
            "idle_watts": ("double", "Power of an idle board, watts"),
            "fp16_teraflops": ("double", "Peak dense throughput in FP16, TFLOPS"),
            "bf16_teraflops": ("double", "Peak dense throughput in BF16, TFLOPS"),
            "fp8_teraflops": ("double", "Peak dense throughput in FP8, TFLOPS"),
            "usd_per_hour": ("double", "Default price of a GPU-hour, USD"),
            "source": ("varchar", "Where memory, power and throughput are published"),
            "idle_source": ("varchar", "Where the power of an idle board is from"),
            "price_source": ("varchar", "Where the price is from"),
        },
    ),
}


def settings_rows(config: Config) -> dict[str, list[dict[str, Any]]]:
    """The rows of those tables."""
    return {
        "parameters": [{name: getattr(config, name, None) for name in SETTINGS["parameters"][1]}],
        "known_clusters": [
            {
                "cluster_id": name,
                "time_zone": cluster.time_zone,
                "gpus": cluster.gpus or None,
                "gpu_type": cluster.gpu_type or None,
                "has_stale_running": cluster.has_stale_running,
                "observed_from": cluster.observed_from or None,
                "observed_until": cluster.observed_until or None,
            }
            for name, cluster in sorted(config.clusters.items())
        ],
        "known_gpu_types": [
            {
                "gpu_type": name,
                "gpu_model": model.name if (model := model_of(name)) else None,
                "price_per_hour": _known(kind.price_per_hour),
                "busy_watts": _known(kind.busy_watts),
                "idle_watts": _known(kind.idle_watts),
            }
            for name, kind in sorted(config.gpu_types.items())
        ],
        "known_gpu_models": [
            {"place": place, "gpu_model": model.name, "prefix": f"^{prefix_pattern()}", "part": part_pattern()}
            | {name: value for name, value in asdict(model).items() if name != "name"}
            | {"pattern": f"^(?:{model.pattern})$"}
            for place, model in enumerate(gpu_models().values())
        ],
    }


def _known(number: float) -> float | None:
    return number if number >= 0 else None


def sources_yaml() -> str:
    lines = [
        "# Generated by scripts/docs from src/gpulake/land/readers/*.toml and core/cctf.toml; edit those.",
        "sources:",
        "  - name: landed",
        "    database: landed",
        "    schema: main",
        "    description: Landed rows, with the names and values of the source.",
        "    tables:",
    ]
    for name, (words, columns) in SETTINGS.items():
        lines += [f"      - name: {name}", f'        description: "{words}"', "        columns:"]
        for column, (kind, meaning) in columns.items():
            lines += _column(column, kind, meaning)
    for table in bronze_tables().values():
        lines += [f"      - name: {table.name}", f'        description: "{_sentence(table.grain)}"', "        columns:"]
        for entry in table.columns:
            lines += _column(entry.name, ENGINE[entry.type].lower(), entry.description)
    return "\n".join(lines) + "\n"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _column(name: str, kind: str, words: str) -> list[str]:
    return [f"          - name: {name}", f"            data_type: {kind}", f'            description: "{words}"']
