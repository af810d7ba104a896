"""The options of questions, by the names that SQL files use for them; and the values that the SQL is rendered with."""

from __future__ import annotations

from typing import Any

from gpulake.core import ledger
from gpulake.core.incidents import STATES
from gpulake.core.kinds import FACTS, KINDS, SEVERITIES, kinds_about
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

USER = Option("user", "only jobs of this user")
GROUP = Option("group", "only jobs of this group")
USER_CARD = Option("user", "whose report card", is_needed=True)
GROUP_CARD = Option("group", "which group's report card", is_needed=True)
WORKLOAD = Option("workload", "only jobs of this workload")
BIN = Option("bin", f"only jobs in this one of {BINS} steps of efficiency, 0 is the lowest", "integer")
BY = Option(
    "by",
    "the jobs with most of these GPU-hours; the default is wasted",
    choices=("wasted", "held", "lost", *ledger.HELD),
    usual="wasted",
)
INCIDENT = Option("incident", "the incident's id", is_needed=True)
STATE = Option("state", "its state", choices=STATES)
SEVERITY = Option("severity", "its severity", choices=SEVERITIES)
KIND = Option("kind", "a kind of finding, `failure`, or the reason of a failure")
JOB = Option("job", "the job's id", is_needed=True)
ONLY_JOB = Option("job", "only this job")
ONLY_REASON = Option("reason", "only this reason")
SEARCH = Option("search", "the start of the job's id, user, group, account or workload")
JOBS_STATUS = Option("status", "jobs with this status; failed includes node failures", choices=STATUSES)
JOBS_USER = Option("user", "jobs of this user")
JOBS_GROUP = Option("group", "jobs of this group")
LEAST_GPUS = Option("least_gpus", "jobs that requested at least this many GPUs", "number")
MACHINE = Option("machine", "name of the machine in the inventory, or of the node", is_needed=True)
METRIC = Option(
    "metric",
    "what share of capacity is shown; the default is used, as far as sensors measured it",
    choices=METRICS,
    usual="used",
)
TEST_STATUS = Option("status", "of a test", choices=("pass", "warn", "fail"))
STEP_STATUS = Option("status", "of a step", choices=("succeeded", "failed", "skipped"))
TABLE = Option("table", "a bronze table")
REASON = Option("reason", "why rows did not parse")
WAIT_STATE = Option("state", WAIT_STATES, choices=("started", "never_started", "waiting", "unknown"))
SIZE = Option("size", "class of request size, 1 (below 0.25 GPUs) to 7 (64 and more)", "integer")
LONGER = Option("longer", "waits longer than this, in seconds", "number")
RAN_LONGER = Option("ran_longer", "runs longer than this, in seconds", "number")
WEEKDAY = Option("weekday", "1 (Monday) to 7", "integer")
HOUR = Option("hour", "hour of the day, 0 to 23", "integer")
RUN = Option("run", "the run's name", is_needed=True)
TRACE = Option("trace", "a trace of the run; the default is the longest")
SPAN = Option("span", "only this span")

OPTIONS = {name.lower(): value for name, value in globals().items() if isinstance(value, Option)}
VALUES: dict[str, Any] = {
    "bins": BINS,
    "buckets": ledger.BUCKETS,
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
    "unknown": UNKNOWN,
    "unobserved": UNOBSERVED,
    "wait_states": WAIT_STATES,
    "wasted_buckets": ledger.WASTED,
    "whose": WHOSE,
}
