"""What people submit: when, how much, for how long, and how it ends if nothing happens to the nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpulake.synth.draws import even, generator
from gpulake.synth.site.plan import DAY_SECONDS, HOUR_SECONDS, Incident, Plan, Site, habits

FIRST_NUMBER = 48_000
FIRST_HOUR_SHARE = 0.04  # of the jobs: what waited for the site to come up


@dataclass(frozen=True, slots=True)
class Request:
    kind: str
    name: str
    user: str
    account: str
    partition: str
    qos: str
    submitted_at: int
    nodes: int
    gpus: int  # of each node
    seconds: int  # that it runs, unless it reaches its limit
    limit_seconds: int
    ending: str
    busy: float  # share of its GPUs that it uses while it works
    memory: float  # share of their memory
    patience_seconds: int  # it is cancelled if it has waited for so long
    task: int = -1  # of its array
    number: int = 0
    array: int = 0

    @property
    def job_id(self) -> str:
        return str(self.number) if self.task < 0 else f"{self.array}_{self.task}"

    @property
    def cores(self) -> int:
        return 12 * self.gpus or 16

    @property
    def memory_gib(self) -> int:
        return 128 * self.gpus or 64


def requested(plan: Plan) -> list[Request]:
    """All that is submitted, numbered in the order of time."""
    site = plan.site
    rng = generator(site.seed, 42)
    kinds = habits()["kinds"]
    weights = np.array([kind["weight"] for kind in kinds.values()], dtype=float)
    means = [_gpu_hours(site, kind) for kind in kinds.values()]
    wanted = habits()["load"] * site.nodes * site.gpus * site.days * 24
    count = max(20, round(wanted / float(np.dot(means, weights / weights.sum()))))
    chosen = rng.choice(list(kinds), size=count, p=weights / weights.sum())
    made = [
        request
        for kind, second in zip(chosen, _submissions(site, count, rng), strict=True)
        for request in _drawn(site, str(kind), int(second), rng)
    ]
    made += [request for incident in plan.incidents for request in _injected(plan, incident)]
    made.sort(key=lambda request: request.submitted_at)
    return _numbered(made)


def _gpu_hours(site: Site, kind: dict[str, Any]) -> float:
    """The mean of one draw; a job that fails ends early."""
    gpus = np.mean([_gpus(site, gpus) for gpus in kind["gpus"]]) * np.mean([_nodes(site, n) for n in kind["nodes"]])
    return float(gpus * kind["hours"] * np.exp(kind["sigma"] ** 2 / 2) * kind.get("tasks", 1) * 0.9)


def _gpus(site: Site, gpus: int) -> int:
    return site.gpus if gpus < 0 else min(gpus, site.gpus)


def _nodes(site: Site, nodes: int) -> int:
    return max(1, min(nodes, site.nodes // 4))


def _submissions(site: Site, count: int, rng: np.random.Generator) -> np.ndarray:
    hours = site.begins_at + HOUR_SECONDS * np.arange(site.days * 24)
    day_rate, week_rate = np.array(habits()["hours"]), np.array(habits()["weekdays"])
    # The epoch began on a Thursday.
    rate = day_rate[hours // HOUR_SECONDS % 24] * week_rate[(hours // DAY_SECONDS + 3) % 7]
    rate[0] += FIRST_HOUR_SHARE * rate.sum()
    filled = np.concatenate([[0.0], np.cumsum(rate)]) / rate.sum()
    seconds = np.interp(even(count, rng), filled, np.append(hours, site.ends_at))
    return rng.permutation(seconds.astype(np.int64))


def _drawn(site: Site, kind: str, second: int, rng: np.random.Generator) -> list[Request]:
    habit, endings = habits()["kinds"][kind], habits()["endings"]
    accounts = habits()["accounts"]
    people = [(user, account) for account, users in accounts.items() for user in users]
    # A few people submit most of the jobs.
    user, account = people[int(len(people) * rng.random() ** 1.7)]
    seconds = habit["hours"] * HOUR_SECONDS * float(np.exp(rng.normal(0.0, habit["sigma"])))
    seconds = min(seconds, 0.3 * site.days * DAY_SECONDS)
    first = Request(
        kind=kind,
        name=str(rng.choice(habits()["names"][kind])),
        user=user,
        account=account,
        partition=habit["partition"],
        qos=habit["qos"],
        submitted_at=second,
        nodes=_nodes(site, int(rng.choice(habit["nodes"]))),
        gpus=_gpus(site, int(rng.choice(habit["gpus"]))),
        seconds=0,
        limit_seconds=_limit(seconds, rng),
        ending="",
        busy=habit["busy"],
        memory=habit["memory"],
        patience_seconds=int(rng.uniform(2, 60) * HOUR_SECONDS),
    )
    made = []
    for task in range(habit.get("tasks", 1)):
        ending = str(rng.choice(list(endings), p=np.array(list(endings.values())) / sum(endings.values())))
        # Most failures come early.
        lasts = {"COMPLETED": 1.0, "CANCELLED": rng.random()}.get(ending, rng.random() ** 2)
        runs = first.limit_seconds if ending == "TIMEOUT" else max(90, int(seconds * lasts * rng.uniform(0.9, 1.1)))
        busy = min(0.99, first.busy * rng.uniform(0.85, 1.1))
        made.append(
            replace(
                first,
                seconds=runs,
                ending=ending,
                busy=busy,
                task=task if habit.get("tasks", 1) > 1 else -1,
            )
        )
    return made


def _limit(seconds: float, rng: np.random.Generator) -> int:
    return int(np.ceil(seconds * rng.uniform(1.2, 2.5) / HOUR_SECONDS)) * HOUR_SECONDS


def _injected(plan: Plan, incident: Incident) -> list[Request]:
    """Jobs that are there for an incident: those of the runaway user, and the one that holds a node for days."""
    site = plan.site
    if incident.kind not in ("runaway_user", "idle_holder"):
        return []
    (user,) = incident.users
    account = next(account for account, users in habits()["accounts"].items() if user in users)
    span = incident.last_second - incident.first_second
    is_runaway = incident.kind == "runaway_user"
    count = incident.detail.get("jobs", 1)
    share = 0.12 * site.nodes * site.gpus * span / count  # of the site, while it lasts
    seconds = int(min(share, 2 * HOUR_SECONDS)) if is_runaway else span
    job = Request(
        kind=incident.kind,
        name="train-debug" if is_runaway else "jupyter",
        user=user,
        account=account,
        partition="gpu" if is_runaway else "interactive",
        qos="normal" if is_runaway else "high",
        submitted_at=incident.first_second,
        nodes=1,
        gpus=1 if is_runaway else site.gpus,
        seconds=seconds,
        limit_seconds=2 * seconds,
        ending="COMPLETED",
        busy=0.0,
        memory=0.0 if is_runaway else 0.01,
        patience_seconds=site.days * DAY_SECONDS,
    )
    gap = max(1, (span - seconds) // count)
    return [replace(job, submitted_at=job.submitted_at + gap * place) for place in range(count)]


def _numbered(made: list[Request]) -> list[Request]:
    """The tasks of an array follow each other, and have the number of the first."""
    numbered: list[Request] = []
    array = 0
    for number, request in enumerate(made, start=FIRST_NUMBER):
        array = number if request.task <= 0 else array
        numbered.append(replace(request, number=number, array=array))
    return numbered
