"""Severities, and the kinds of findings with what depends on a kind: its scope and its default severity.

A kind that is not in the table, such as that of a third party's watch, is a warning, and its scope is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from gpulake.core.alert_settings import Incidents

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the most severe first
# What the subject of a finding names. A cluster, a day or a table names no person and no job.
Scope = Literal["cluster", "day", "table", "node", "gpu", "job", "user"]


@dataclass(frozen=True)
class Kind:
    scope: Scope | None = None
    severity: Severity = "warning"  # of a finding that does not give its own
    is_fact: bool = False  # shown, but no incident is made of it unless the settings say so
    # A critical incident stays open for so long after the last event, if nobody resolves it: a board that is lost
    # reports no more.
    open_hours: float = 0.0


KINDS: Mapping[str, Kind] = {
    # The current build, as it is
    "ledger": Kind("cluster", "info", is_fact=True),
    "missing_demand": Kind("cluster", is_fact=True),
    "missing_begin": Kind("cluster", is_fact=True),
    "idle_gpus": Kind("user", is_fact=True),
    "flagged_day": Kind("day", "info", is_fact=True),
    "fewer_rows": Kind("table", is_fact=True),
    # Events that are serious from the first one on
    "node_fault": Kind("node", "critical", open_hours=7 * 24),
    # Jobs of a stream, as they end: by a node's fault, or by their own
    "lost_job": Kind("job"),
    "failed_job": Kind("job", "info", is_fact=True),
    # Watches
    "failure_burst": Kind("cluster"),
    "long_queue": Kind("cluster"),
    "stuck_queue": Kind("cluster"),
    "unusual_utilisation": Kind("cluster"),
    "dead_machines": Kind("node", "critical"),
    "failing_link": Kind("node"),
    "hot_node": Kind("node"),
    "throttled_node": Kind("node"),
    "node_down": Kind("node"),
    "host_memory_leak": Kind("node"),
    "node_errors": Kind("node"),
    "slow_machine": Kind("node"),
    "under_used_machine": Kind("node", "info"),
    "unusual_host_load": Kind("node", "info"),
    "gpu_errors": Kind("gpu"),
    "gpu_memory_leak": Kind("gpu"),
    "hot_gpu": Kind("gpu"),
    "slow_gpu": Kind("gpu"),
    "weak_gpu": Kind("gpu"),
    "stuck_gpus": Kind("job"),
    "runaway_user": Kind("user"),
}
FACTS = tuple(name for name, kind in KINDS.items() if kind.is_fact)


def kind_of(name: str) -> Kind:
    return KINDS.get(name, Kind())


def severity_of(row: Mapping[str, Any], kind: str, settings: Incidents) -> str:
    """The finding's own severity; else that of the settings for its kind; else the kind's default."""
    given = row.get("severity")
    if given in SEVERITIES:
        return str(given)
    if kind in settings.critical_kinds:
        return "critical"
    return "info" if kind in settings.info_kinds else kind_of(kind).severity


def kinds_about(*scopes: Scope) -> tuple[str, ...]:
    return tuple(name for name, kind in KINDS.items() if kind.scope in scopes)


def rank(severity: str) -> int:
    """The more severe, the higher; a word that is no severity counts as the least."""
    return len(SEVERITIES) - SEVERITIES.index(severity) if severity in SEVERITIES else 1


def worse(one: str, other: str) -> str:
    return one if rank(one) >= rank(other) else other
