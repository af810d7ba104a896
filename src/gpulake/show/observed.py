"""The clusters and the time that the numbers are about; shown wherever there is a share of capacity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from gpulake.core.words import label, share

OBSERVED = """
SELECT cluster_id, observed_from, observed_until, observed_basis, unknown_demand_ratio, is_generated,
    -- A build of an earlier version has no such column.
    (SELECT to_json(info) ->> 'left_out' FROM build_info AS info) AS left_out
FROM silver_clusters
"""
BASES = {"events": "first to last event", "trimmed": "without stragglers", "settings": "as set", "pulled": "as pulled"}


@dataclass(frozen=True)
class Observed:
    """A cluster, and its time under observation."""

    cluster_id: str
    observed_from: datetime
    observed_until: datetime
    observed_basis: str
    unknown_demand_ratio: float  # of its attempts
    is_generated: bool
    left_out: str | None = None  # files that the build was made without

    @property
    def time(self) -> str:
        begin, end = (at.astimezone(UTC) for at in (self.observed_from, self.observed_until))
        return f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC ({BASES[self.observed_basis]})"

    @property
    def missing(self) -> str:
        """What is not known of it, in words; empty: nothing."""
        missing = [f"the build was made without {label(self.left_out, 200)}"] if self.left_out else []
        if self.unknown_demand_ratio:
            ratio = share(self.unknown_demand_ratio, 1)
            missing.append(f"the requests of {ratio} of the attempts of {label(self.cluster_id, 24)} are not known")
        return "; ".join(missing)


def generated(clusters: Iterable[Observed]) -> str:
    """The names of those whose data were generated."""
    return ", ".join(label(one.cluster_id, 24) for one in clusters if one.is_generated)
