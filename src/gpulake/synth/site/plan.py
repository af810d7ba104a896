"""The site and its calendar: nodes, GPUs, time, what goes wrong, and which node is out of service when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.packaged import packaged_toml
from gpulake.synth.draws import generator

HOUR_SECONDS = 3600
DAY_SECONDS = 86_400
MOST_SEED = 2**32 - 1


def habits() -> dict[str, Any]:
    return packaged_toml("gpulake.synth.site", "site.toml")


def iso(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Site:
    """What is generated; the same site is the same bytes."""

    until: datetime
    nodes: int = 64
    gpus: int = 8
    days: int = 14
    seed: int = 0
    interval_seconds: int = 60
    gpu_model: str = "h100"
    snapshot_hours: int = 1  # between snapshots of the nodes; there is one at every change, too

    def __post_init__(self) -> None:
        for what, value, most in (("nodes", self.nodes, 4096), ("gpus", self.gpus, 16), ("days", self.days, 366)):
            if not 1 <= value <= most:
                raise UsageError(f"cannot make a site of {value} {what}", f"choose from 1 to {most:,}")
        if not 0 <= self.seed <= MOST_SEED:
            raise UsageError(f"cannot use seed {self.seed}", f"choose from 0 to {MOST_SEED}")
        if not 1 <= self.interval_seconds <= HOUR_SECONDS:
            raise UsageError(f"cannot sample every {self.interval_seconds} seconds", "choose from 1s to 1h")
        if self.gpu_model not in habits()["boards"]:
            boards = sorted(habits()["boards"])
            raise UsageError(f"no GPU model named {self.gpu_model!r}", choice_hint(self.gpu_model, boards))

    @property
    def ends_at(self) -> int:
        return int(self.until.timestamp()) // self.interval_seconds * self.interval_seconds

    @property
    def begins_at(self) -> int:
        return self.ends_at - self.days * DAY_SECONDS

    @property
    def board(self) -> dict[str, Any]:
        board: dict[str, Any] = habits()["boards"][self.gpu_model]
        return board

    def name(self, node: int) -> str:
        return f"gpu-{node + 1:03d}"

    def uuid(self, node: int, gpu: int) -> str:
        word = generator(self.seed, 47, node, gpu).bytes(16).hex()
        return f"GPU-{word[:8]}-{word[8:12]}-{word[12:16]}-{word[16:20]}-{word[20:]}"

    def moment(self, share: float, hours: float) -> tuple[int, int]:
        """A whole minute of the calendar, and so many hours later, or the end."""
        first = self.begins_at + int(share * self.days * DAY_SECONDS) // 60 * 60
        return first, min(first + int(hours * HOUR_SECONDS), self.ends_at)


@dataclass(frozen=True)
class Outage:
    """A node is out of service: down (it does not answer), drained or under maintenance."""

    node: int
    started_at: int
    ended_at: int
    state: str  # DOWN, DRAIN or MAINT
    reason: str

    @property
    def is_silent(self) -> bool:
        return self.state != "DRAIN"


@dataclass(frozen=True)
class Incident:
    kind: str
    first_second: int
    last_second: int
    nodes: tuple[int, ...]
    detail: dict[str, Any]
    users: tuple[str, ...] = ()

    def as_record(self, site: Site) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "first": iso(self.first_second),
            "last": iso(self.last_second),
            "nodes": [site.name(node) for node in self.nodes],
            "users": list(self.users),
            "expect": self.detail["expect"],
            "findings": self.detail["findings"],
        }


@dataclass(frozen=True)
class Plan:
    site: Site
    incidents: tuple[Incident, ...]
    outages: tuple[Outage, ...]
    gaps: tuple[tuple[int, int], ...]  # in which nothing was scraped

    def of_kind(self, kind: str) -> Iterator[Incident]:
        return (incident for incident in self.incidents if incident.kind == kind)


def planned(site: Site) -> Plan:
    """Incidents that fit into the site, in the order of time, and the outages that they and maintenance bring."""
    users = [user for users in habits()["accounts"].values() for user in users]
    rng = generator(site.seed, 40)
    incidents = []
    for entry in habits()["incidents"]:
        if site.nodes < entry.get("least_nodes", 1) or site.days < entry.get("least_days", 1):
            continue
        first, last = site.moment(entry["begin"], entry["hours"])
        user = (users.pop(int(rng.integers(len(users)))),) if entry["kind"] in ("runaway_user", "idle_holder") else ()
        incidents.append(Incident(entry["kind"], first, last, _nodes(site, entry), entry, user))
    outages = [*_maintenance(site), *_lost(incidents, site)]
    gaps = tuple(site.moment(gap["begin"], gap["hours"]) for gap in habits()["gaps"])
    return Plan(site, tuple(incidents), tuple(sorted(outages, key=lambda outage: outage.started_at)), gaps)


def _nodes(site: Site, entry: dict[str, Any]) -> tuple[int, ...]:
    if "node" not in entry:
        return ()
    first = int(entry["node"] * site.nodes)
    return tuple(range(first, min(first + entry.get("nodes", 1), site.nodes)))


def _maintenance(site: Site) -> Iterator[Outage]:
    for entry in habits()["maintenance"]:
        first, last = site.moment(entry["begin"], entry["hours"])
        for node in _nodes(site, entry):
            yield Outage(node, first, last, entry["state"], entry["reason"])


def _lost(incidents: list[Incident], site: Site) -> Iterator[Outage]:
    for incident in incidents:
        (node, *_) = incident.nodes or (0,)
        if incident.kind == "dead_node":
            yield Outage(node, incident.first_second, incident.last_second, "DOWN", "Not responding")
        if incident.kind == "flapping_node":
            times = incident.detail["times"]
            gap = (incident.last_second - incident.first_second) // times
            rng = generator(site.seed, 41)
            for place in range(times):
                first = incident.first_second + place * gap
                last = first + 60 * int(rng.integers(9, 25))
                yield Outage(node, first, min(last, site.ends_at), "DOWN", "Not responding")


def until_default(now: datetime) -> datetime:
    """An hour ago, to the minute: what a site that is read every hour has."""
    return (now - timedelta(hours=1)).replace(second=0, microsecond=0)
