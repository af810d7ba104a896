"""How long samples are kept, and how fine: `[retention]` in gpulake.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpulake.core.errors import choice_hint, require

# Tables of samples, and what their rows are made of.
SAMPLE_TABLES = {
    "silver_gpu_samples": (
        *("bronze_gpu_metrics", "bronze_nvidia_smi", "bronze_rocm_smi", "bronze_prometheus_samples"),
    ),
    "silver_host_samples": ("bronze_host_metrics", "bronze_prometheus_samples"),
    "silver_link_samples": ("bronze_link_metrics", "bronze_prometheus_samples"),
    "silver_process_samples": ("bronze_proc_metrics",),
    "silver_gpu_process_samples": ("bronze_gpu_processes",),
}
LEAST_RAW_DAYS = 3


@dataclass(frozen=True)
class Ages:
    """How long samples of a table are kept: `[retention.tables.<name>]` in gpulake.toml."""

    raw_days: int = 0  # older samples become one a minute; 0: they are kept for ever
    minute_days: int = 0  # older ones become one an hour, kept for ever; 0: they stay one a minute

    def __post_init__(self) -> None:
        hint = f"use 0 to keep them for ever, or a number of days from {LEAST_RAW_DAYS} on"
        require(self.raw_days == 0 or LEAST_RAW_DAYS <= self.raw_days <= 36_500, f"raw_days is {self.raw_days}", hint)
        is_right = self.minute_days == 0 or (0 < self.raw_days <= self.minute_days <= 36_500)
        hint = "use 0, or a number of days of at least raw_days, which must be given, too"
        require(is_right, f"minute_days is {self.minute_days}, and raw_days {self.raw_days}", hint)


@dataclass(frozen=True)
class Retention:
    """How long samples are kept, and how fine: `[retention]` in gpulake.toml. By default all, as they are."""

    raw_days: int = 0  # older samples become one a minute; 0: they are kept for ever
    minute_days: int = 0  # older ones become one an hour, kept for ever; 0: they stay one a minute
    tables: Mapping[str, Ages] = field(default_factory=dict, metadata={"of": Ages, "example": "raw_days = 7"})

    def __post_init__(self) -> None:
        Ages(self.raw_days, self.minute_days)
        for name in self.tables:
            require(name in SAMPLE_TABLES, f"{name!r} is no table of samples", choice_hint(name, SAMPLE_TABLES))

    def ages(self) -> dict[str, Ages]:
        """Of each table of samples that is not kept as it is."""
        usual = Ages(self.raw_days, self.minute_days)
        found = {table: self.tables.get(table, usual) for table in SAMPLE_TABLES}
        return {table: ages for table, ages in found.items() if ages.raw_days}
