"""The options of questions, by the names that SQL files use for them; and the values that the SQL is rendered with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpulake.core import ledger
from gpulake.core.incidents import STATES
from gpulake.core.kinds import FACTS, KINDS, SEVERITIES, kinds_about
from gpulake.core.packaged import packaged_toml
from gpulake.show.efficiency import WHOSE
from gpulake.show.observed import OBSERVED
from gpulake.show.web.questions import Option

BINS = 20  # of efficiency
HOURLY_DAYS = 3  # of machines shown by the hour; more are shown by the day
MACHINE_POINTS = 300  # of a line over time
MOST_HOURS = 1_500  # of demand; a longer range is shown by the day
DOWN, UNOBSERVED, UNKNOWN = -1, -2, -3  # in place of a share
POOL = "(all machines)"  # stands for all machines of a cluster, where the machine of a job is not known
METRICS = ("used", "held", "idle", "lost", "unknown", "down")
# The same classes as gold_queue_waits.
SIZES = ("below 0.25", "0.25 to 0.5", "0.5 to 1", "1", "above 1, below 8", "8 to 63", "64 and more")
WAIT_STATES = (
    "never started: ended without starting; waiting: still in the queue at the end of the data, on any day; "
    "unknown: it ran, but its start was not recorded."
)
STATUSES = (
    *("succeeded", "failed", "cancelled", "timeout", "node_fail", "interrupted", "running", "waiting", "unknown"),
)
VALUES: dict[str, Any] = {
    "bins": BINS,
    "buckets": ledger.BUCKETS,
    "by": ("wasted", "held", "lost", *ledger.HELD),
    "cluster_facts": tuple(name for name in kinds_about("cluster") if name in FACTS),
    "down": DOWN,
    "held_buckets": ledger.HELD,
    "hourly_days": HOURLY_DAYS,
    "info_kinds": tuple(name for name, kind in KINDS.items() if kind.severity == "info"),
    "kinds_about": kinds_about,
    "lost_buckets": ledger.LOST,
    "machine_points": MACHINE_POINTS,
    "meanings": ledger.MEANINGS,
    "metrics": METRICS,
    "most_hours": MOST_HOURS,
    "observed": OBSERVED,
    "pool": POOL,
    "sensed_buckets": ledger.SENSED,
    "severities": SEVERITIES,
    "sizes": SIZES,
    "states": STATES,
    "statuses": STATUSES,
    "unknown": UNKNOWN,
    "unobserved": UNOBSERVED,
    "wait_states": WAIT_STATES,
    "wasted_buckets": ledger.WASTED,
    "whose": WHOSE,
}


def _option(key: str, name: str = "", about: str = "", choices: str | Sequence[str] = (), **rest: Any) -> Option:
    known = VALUES[choices] if isinstance(choices, str) else choices
    return Option(name or key, about.format(**VALUES), choices=tuple(known), **rest)


OPTIONS = {
    key: _option(key, **entry) for key, entry in packaged_toml("gpulake.show.web.questions", "options.toml").items()
}
