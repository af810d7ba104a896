"""How far gpulake may go to bring a dead job back: `[recoveries]` in gpulake.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from gpulake.core.clock import is_time_zone
from gpulake.core.errors import require
from gpulake.core.placeholders import check_command, placeholders

# Placeholders of the commands, by step.
OF_EVERY_STEP = ("job_id", "cluster_id", "incident_id", "reason", "cause", "attempt")
OF_RESTARTS = (*OF_EVERY_STEP, "checkpoint", "checkpoint_step")
OF_ROLLBACKS = (*OF_RESTARTS, "skip_from_step", "skip_to_step")
OF_CORDONS = (*OF_EVERY_STEP, "node")
OF_MESSAGES = (*OF_EVERY_STEP, "message")
OF_QUESTIONS = ("job_id", "cluster_id")
OF_TESTS = ("nodes", "count")
OF_CHECKS = ("node",)
# Names as a label of Kubernetes has them.
_SELECTOR = re.compile(r"[\w.-]+(/[\w.-]+)?=\{job_id\}", re.ASCII)
_MOST_HOURS = 100 * 365 * 24  # the range of dates
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d"
_HOURS = re.compile(f"{_CLOCK}-({_CLOCK}|24:00)", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Recoveries:
    """Budgets and brakes of the recovery of jobs, and the programs that carry it out."""

    executor: str = "dry-run"  # unless --executor names another
    most_restarts: int = 3  # of a job without progress: no new checkpoint since
    most_repeats: int = 1  # of these, for the same failure
    progress_minutes: float = 60.0  # a run that lasted as long made progress, if its checkpoints are unknown
    stale_after_hours: float = 72.0  # no recovery of an incident that was opened longer ago
    restart_unknown: bool = True  # restart after a failure of unknown reason; false: only notify the user
    most_rollbacks: int = 2  # of a job whose loss diverged; 0: only notify the user
    rollback_margin_steps: int = 100  # before the loss diverged, where both steps are known
    rollback_margin_minutes: float = 30.0  # the same, where they are not
    most_cordoned_ratio: float = 0.05  # share of a cluster's nodes; one may always be cordoned
    cordoned_for_hours: float = 168.0  # a node that was cordoned longer ago counts as back
    most_cordons_per_hour: int = 2  # of a cluster; further ones wait
    cluster_nodes: int = 0  # of the cluster, if no inventory of machines lands; 0: unknown
    spare_nodes: tuple[str, ...] = ()  # partners for the test if no node of the job is known to be good
    checkpoints: str = ""  # folder of a job's checkpoints, such as /ckpt/{job_id}; empty: unknown
    test_command: tuple[str, ...] = ()  # fails on a set of nodes if one is faulty; is passed {nodes}, joined by commas
    test_seconds: float = 600.0  # a test that takes longer has failed
    test_tries: int = 1  # a set of nodes fails if all tries fail
    tests_at_once: int = 8  # sets of nodes that are tested at the same time
    restart_command: tuple[str, ...] = ()  # submits {job_id} again; empty: the executor's own
    rollback_command: tuple[str, ...] = ()  # submits it from an earlier checkpoint; empty: the executor's own
    cordon_command: tuple[str, ...] = ()  # takes a node out of service; empty: the executor's own
    check_command: tuple[str, ...] = ()  # fails if a cordoned {node} is faulty; empty: nodes stay out of service
    check_after_minutes: float = 30.0  # after the cordon, and after a check that failed
    most_uncordons: int = 1  # of a node within cordoned_for_hours; one that fails again is left to a person
    uncordon_command: tuple[str, ...] = ()  # returns a node to service; empty: the executor's own
    tell_command: tuple[str, ...] = ()  # sends a message to the user; empty: it is only printed
    nodes_command: tuple[str, ...] = ()  # prints the nodes of {job_id}, such as n1,n[03-05]; empty: sacct or kubectl
    command_seconds: float = 60.0  # the result of one that takes longer is unknown
    is_watched: bool = False  # gpulake run recovers, as gpulake recover --watch --execute does
    most_per_hour: int = 6  # jobs that --watch recovers; further ones wait
    quiet_hours: tuple[str, ...] = ()  # in which --watch takes no step, such as 22:00-06:00
    time_zone: str = "UTC"  # of quiet_hours
    stop_file: str = ""  # no step is taken while it, or STOP_RECOVERIES in the lake, exists
    namespace: str = "default"  # of the pods, in Kubernetes
    pod_selector: str = "batch.kubernetes.io/job-name={job_id}"  # selects the pods of a job, in Kubernetes

    def __post_init__(self) -> None:
        counts = ("most_restarts", "most_repeats", "most_rollbacks", "most_cordons_per_hour", "most_per_hour")
        for name in (*counts, "most_uncordons", "cluster_nodes"):
            self._check(name, getattr(self, name) >= 0, "use 0 for none, or more")
        for name in ("rollback_margin_steps", "rollback_margin_minutes", "progress_minutes", "check_after_minutes"):
            self._check(name, 0 <= getattr(self, name) < float("inf"), "use 0 or more")
        for name in ("cordoned_for_hours", "stale_after_hours"):
            self._check(name, 0 <= getattr(self, name) <= _MOST_HOURS, f"use 0 to {_MOST_HOURS:,} hours")
        for name in ("test_tries", "tests_at_once"):
            self._check(name, getattr(self, name) >= 1, "use 1 or more")
        for name in ("test_seconds", "command_seconds"):
            self._check(name, 0 < getattr(self, name) < float("inf"), "use a number above 0")
        self._check("most_cordoned_ratio", 0 <= self.most_cordoned_ratio <= 1, "use a share from 0 to 1")
        self._check("namespace", _NAMESPACE.fullmatch(self.namespace) is not None, "name a namespace of Kubernetes")
        is_one = _SELECTOR.fullmatch(self.pod_selector) is not None
        self._check("pod_selector", is_one, "give one label, such as batch.kubernetes.io/job-name={job_id}")
        only = set(placeholders([self.checkpoints])) <= {"job_id"}
        self._check("checkpoints", only, "name a folder; its only placeholder is {job_id}")
        check_command("restart_command", self.restart_command, OF_RESTARTS, "job_id", "job")
        check_command("rollback_command", self.rollback_command, OF_ROLLBACKS, "checkpoint", "checkpoint")
        check_command("cordon_command", self.cordon_command, OF_CORDONS, "node", "node")
        check_command("tell_command", self.tell_command, OF_MESSAGES, "message", "message")
        check_command("nodes_command", self.nodes_command, OF_QUESTIONS, "job_id", "job")
        check_command("check_command", self.check_command, OF_CHECKS, "node", "node")
        check_command("uncordon_command", self.uncordon_command, OF_CORDONS, "node", "node")
        self._check("time_zone", is_time_zone(self.time_zone), "name one like Europe/Berlin")
        are_hours = all(map(_HOURS.fullmatch, self.quiet_hours))
        self._check("quiet_hours", are_hours, "write them like 22:00-06:00")
        check_command("test_command", self.test_command, OF_TESTS, "nodes", "nodes")

    def is_quiet(self, at: datetime) -> bool:
        """A range whose end is not after its begin goes over midnight."""
        now = f"{at.astimezone(ZoneInfo(self.time_zone)):%H:%M}"
        ranges = (hours.split("-") for hours in self.quiet_hours)
        return any(begin <= now < end if begin < end else now >= begin or now < end for begin, end in ranges)

    def _check(self, name: str, is_right: bool, hint: str) -> None:
        require(is_right, f"{name} is {getattr(self, name)!r}", hint)
