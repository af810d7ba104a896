"""Jobs that hold GPUs without using them, as last observed; and the steps taken about them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from gpulake.core.config import Config
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.gpu_models import matching
from gpulake.core.packaged import queries
from gpulake.core.types import NudgeRecord
from gpulake.lake import LakeReader

NEEDED = {"silver_capacity", "silver_clusters", "silver_gpu_types", "silver_holdings", "silver_jobs"}
SQL = queries("gpulake.act", "queries.sql")


@dataclass(frozen=True)
class Holder:
    """A job that holds GPUs without using them."""

    cluster_id: str
    job_id: str
    user_id: str | None
    account_id: str | None
    workload: str | None
    group_id: str | None
    gpu_types: tuple[str, ...]
    gpus: float
    since: datetime
    seen_at: datetime
    gpu_hours: float
    cost: float | None  # None: a price is not known
    time_zone: str
    is_at_work: bool  # another attempt of it uses its GPUs, or may

    @property
    def minutes(self) -> float:
        return (self.seen_at - self.since).total_seconds() / 60


def read_holders(reader: LakeReader, config: Config, cluster: str | None, at: datetime | None) -> list[Holder]:
    """Jobs that have held idle GPUs long enough for a warning, most GPU-hours first."""
    reader.need(NEEDED)
    clusters = [row["cluster_id"] for row in reader.query(SQL["clusters"]).to_pylist()]
    if cluster is not None and cluster not in clusters:
        raise UsageError(f"no cluster named {cluster!r}", choice_hint(cluster, clusters))
    names = [row["gpu_type"] for row in reader.query(SQL["gpu_types"]).to_pylist()]
    kinds = {name: kind for name in names if (kind := matching(name, config.gpu_types)) and kind.price_per_hour >= 0}
    rows = reader.query(
        SQL["holders"],
        cluster=cluster,
        at=at.timestamp() if at else None,
        minutes=config.nudges.warn_after_minutes,
        prices=json.dumps([{"gpu_type": name, "price": kind.price_per_hour} for name, kind in kinds.items()]),
    ).to_pylist()
    return [Holder(**{**row, "gpu_types": tuple(row["gpu_types"])}) for row in rows]


def read_journal(reader: LakeReader) -> list[NudgeRecord]:
    return [NudgeRecord(**row) for row in reader.query(SQL["nudges"]).to_pylist()]
