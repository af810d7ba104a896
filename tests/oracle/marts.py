"""Tables that hang on the ledger, by what docs/tables.md says of their columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from math import sqrt
from statistics import mean, median, pstdev

from oracle import ledger
from oracle.facts import HOUR, LOST, Job, Task
from oracle.holdings import Holding
from oracle.ledger import Amounts, Book, add, amounts_within
from oracle.making import local_of
from oracle.outages import is_pool, place_of, quantile
from oracle.usage import Rows

FAILED = ("failed", "node_fail")
WATTS = {"T4": (70.0, 10.0), "V100": (300.0, 38.0), "H100": (700.0, 70.0), "A100": (400.0, 60.0)}
PRICES = {"T4": 0.5, "H100": 2.5}
SHARES = (50, 75, 90, 95, 99)


def size_of(gpus: float) -> str:
    for most, name in ((0.25, "1: below 0.25"), (0.5, "2: 0.25 to 0.5"), (1.0, "3: 0.5 to 1")):
        if gpus < most:
            return name
    if gpus == 1:
        return "4: 1"
    return "5: above 1, below 8" if gpus < 8 else "6: 8 to 63"


def is_over(job: Job) -> bool:
    return job.ended is not None and job.status not in ("running", "waiting")


def turnaround(job: Job) -> float | None:
    """An end before the submission says nothing."""
    return _wait(job.submitted, job.ended)


def day_of(book: Book, moment: int | None) -> date | None:
    """The day of the cluster's own time zone, of what happened under observation."""
    if moment is None or not book.observed_from <= moment <= book.observed_until:
        return None
    return local_of(moment, book.facts.zone).date()


def known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def jobs_daily(book: Book) -> Rows:
    """Jobs that ended under observation, by the day of their end."""
    groups: dict[tuple[object, ...], list[Job]] = defaultdict(list)
    for job in book.facts.jobs:
        day = day_of(book, job.ended)
        if is_over(job) and day is not None:
            groups[(day,)].append(job)
    return {
        key: {
            "ended_jobs": len(jobs),
            "succeeded_jobs": sum(job.status == "succeeded" for job in jobs),
            "failed_jobs": sum(job.status in FAILED for job in jobs),
            "failed_ratio": sum(job.status in FAILED for job in jobs) / len(jobs),
            "median_turnaround_seconds": _median(known(turnaround(job) for job in jobs)),
        }
        for key, jobs in groups.items()
    }


def _median(values: list[float]) -> float | None:
    return float(median(values)) if values else None


def group_recurrence(book: Book) -> Rows:
    """How often the same work came back."""
    groups: dict[tuple[object, ...], list[Job]] = defaultdict(list)
    for job in book.facts.jobs:
        if job.group != job.user:  # else it has none
            groups[(job.group,)].append(job)
    found: Rows = {}
    for key, jobs in groups.items():
        took = known(turnaround(job) for job in jobs)
        total: Amounts = {}
        for claim in book.claims:
            if any(claim.holding.attempt.job is job for job in jobs):
                add(total, claim.amounts)
        submitted = [job.submitted for job in jobs if job.submitted is not None]
        found[key] = {
            "jobs": len(jobs),
            "users": len({job.user for job in jobs if job.user is not None}),
            "failed_jobs": sum(job.status in FAILED for job in jobs),
            "first_submitted_at": min(submitted, default=None),
            "last_submitted_at": max(submitted, default=None),
            "median_turnaround_seconds": _median(took),
            "turnaround_cov_ratio": _variation(took),
            "held_gpu_hours": total.get("held", 0.0),
            "lost_gpu_hours": total.get("lost", 0.0),
            "lost_at_least_gpu_hours": total.get("lost_at_least", 0.0),
            "inferred_lost_gpu_hours": total.get("inferred_lost", 0.0),
        }
    return found


def _variation(values: list[float]) -> float | None:
    """Standard deviation per mean."""
    if not values:
        return None
    return pstdev(values) / mean(values) if len(values) > 1 and mean(values) else 0.0


def failures_daily(book: Book) -> Rows:
    """Attempts that were lost, on the day of their end."""
    groups: dict[tuple[object, ...], list[Holding]] = defaultdict(list)
    for holding in book.holdings:
        if holding.attempt.status in LOST and holding.span and holding.gpus > 0:
            day = day_of(book, holding.span[1])
            if day is not None:
                groups[day, holding.attempt.status, holding.gpu_type(book.facts) or "unknown"].append(holding)
    found: Rows = {}
    for key, holdings in groups.items():
        total: Amounts = {}
        for one in holdings:
            add(total, amounts_within(one, 0, 1 << 40))
        found[key] = {
            "attempts": len(holdings),
            "jobs": len({one.attempt.job.job_id for one in holdings}),
            "machines": len({place_of(book.facts, one.attempt.machine) for one in holdings}),
            "lost_gpu_hours": total.get("lost", 0.0),
            "lost_at_least_gpu_hours": total.get("lost_at_least", 0.0),
            "inferred_lost_gpu_hours": total.get("inferred_lost", 0.0),
        }
    return found


def _first_begin(book: Book, task: Task) -> int | None:
    return min((one.began for one in book.facts.attempts if one.task is task and one.began is not None), default=None)


def _gpu_tasks(book: Book) -> list[Task]:
    return [task for task in book.facts.tasks if task.gpus]


def demand_hourly(book: Book) -> Rows:
    """What was asked for, what waited and what was held, by hour and GPU type."""
    found: Rows = {}

    def row(started: int, kind: str) -> dict[str, object]:
        day = next(hour.day for hour in book.hours if hour.started == started)
        names = ("submitted_tasks", "requested_gpus", "waiting_gpu_hours", "held_gpu_hours", "available_gpu_hours")
        return found.setdefault((started, kind), {"dt": day, **dict.fromkeys(names, 0)})

    def more(started: int, kind: str, name: str, amount: float) -> None:
        one = row(started, kind)
        one[name] = one[name] + amount  # type: ignore[operator]

    for (started, kind), amounts in ledger.hourly(book).items():
        more(int(str(started)), str(kind), "held_gpu_hours", amounts["held"])
        more(int(str(started)), str(kind), "available_gpu_hours", amounts["capacity"] - amounts["down"])
    for task in _gpu_tasks(book):
        gpus = (task.gpus or 0.0) * task.instances
        kind = task.gpu_type or "unknown"
        for hour in book.hours:
            if task.launched is None:
                continue
            if hour.since <= task.launched < hour.until or task.launched == hour.until == book.observed_until:
                more(hour.started, kind, "submitted_tasks", 1)
                more(hour.started, kind, "requested_gpus", gpus)
            waits = hour.overlap(task.launched, _waits_until(book, task))
            if waits > 0:
                more(hour.started, kind, "waiting_gpu_hours", gpus * waits)
    for one in found.values():
        one["demanded_gpu_hours"] = one["waiting_gpu_hours"] + one["held_gpu_hours"]  # type: ignore[operator]
    return found


def _waits_until(book: Book, task: Task) -> int:
    """What never ran waited until its end, or waits still; when something ran that has no begin nobody knows."""
    begins = _first_begin(book, task)
    if begins is not None:
        return begins
    if any(one.task is task and one.status != "waiting" for one in book.facts.attempts):
        return 0
    return book.observed_until if task.ended is None else task.ended


def queue_waits(book: Book) -> Rows:
    groups: dict[tuple[object, ...], list[Task]] = defaultdict(list)
    for task in _gpu_tasks(book):
        groups[task.gpu_type or "unknown", size_of((task.gpus or 0.0) * task.instances)].append(task)
    found: Rows = {}
    for key, tasks in groups.items():
        launch = [_wait(task.job.submitted, task.launched) for task in tasks]
        start = [_wait(task.launched, _first_begin(book, task)) for task in tasks]
        found[key] = {
            "tasks": len(tasks),
            **_waits("launch", known(launch)),
            **_waits("start", known(start)),
            "unstarted_tasks": sum(_first_begin(book, task) is None for task in tasks),
        }
    return found


def _wait(since: int | None, until: int | None) -> float | None:
    return None if since is None or until is None or until < since else float(until - since)


def _waits(name: str, values: list[float]) -> dict[str, object]:
    row: dict[str, object] = {f"{name}_wait_tasks": len(values)}
    row[f"mean_{name}_wait_seconds"] = mean(values) if values else None
    for share in SHARES:
        row[f"p{share}_{name}_wait_seconds"] = quantile(values, share / 100) if values else None
    return row


def _sensed(total: Amounts) -> float:
    return total["idle"] + total["under_used"] + total["used"]


def energy_daily(book: Book) -> Rows:
    """Busy power for GPUs in use, idle power for all others that are up."""
    days = {hour.started: hour.day for hour in book.hours}
    totals: dict[tuple[object, ...], Amounts] = defaultdict(dict)
    for (machine, started), row in book.machine_hours.items():
        add(totals[days[started], ledger.gpu_type_of(book, machine)], row)
    measured: dict[object, Amounts] = defaultdict(dict)  # by day, and of all days
    for (day, _), total in totals.items():
        for when in (day, "all days"):
            add(measured[when], {"used": total["used"], "sensed": _sensed(total)})
    found: Rows = {}
    for key, total in totals.items():
        kind = str(key[1])
        basis, use = "none", 1.0
        for name, when in (("cluster", "all days"), ("day", key[0])):
            if measured[when]["sensed"] > 0:
                basis, use = name, measured[when]["used"] / measured[when]["sensed"]
        assumed = total["held"] - _sensed(total)
        busy = total["used"] + assumed * use
        busy_watts, idle_watts = WATTS.get(kind, (None, None))
        price = PRICES.get(kind)
        up = total["capacity"] - total["down"]
        found[key] = {
            "gpu_model": kind if kind in WATTS else None,
            "capacity_gpu_hours": total["capacity"],
            "held_gpu_hours": total["held"],
            "busy_gpu_hours": busy,
            "assumed_gpu_hours": assumed,
            "assumed_busy_ratio": use,
            "assumed_busy_basis": basis,
            "energy_kilowatt_hours": None
            if busy_watts is None or idle_watts is None
            else (busy * busy_watts + (up - busy) * idle_watts) / 1000,
            "wasted_energy_kilowatt_hours": None if idle_watts is None else (total["held"] - busy) * idle_watts / 1000,
            "capacity_cost": None if price is None else price * total["capacity"],
            "held_cost": None if price is None else price * total["held"],
            "wasted_cost": None if price is None else price * (total["idle"] + total["lost"]),
            "wasted_at_least_cost": None if price is None else price * (total["idle"] + total["lost_at_least"]),
            "under_used_cost": None if price is None else price * total["under_used"],
            "currency": "USD",
        }
    return found


def goodput_daily(book: Book) -> Rows:
    """Of the jobs that ended, how much of what they held brought them forward, and how much of their time."""
    groups: dict[tuple[object, ...], list[tuple[Job, list[Holding]]]] = defaultdict(list)
    for job in book.facts.jobs:
        mine = [one for one in book.holdings if one.attempt.job is job and one.gpus > 0]
        day = day_of(book, job.ended)
        if mine and is_over(job) and day is not None:
            size = sum(one.gpus for one in mine if one.attempt.number == 1)
            groups[day, size_of(size)].append((job, mine))
    found: Rows = {}
    for key, jobs in groups.items():
        total: Amounts = {}
        for _, mine in jobs:
            for one in mine:
                add(total, amounts_within(one, 0, 1 << 40))
        tries = [max(one.attempt.number for one in mine) - 1 for _, mine in jobs]
        held, lost = total.get("held", 0.0), total.get("lost", 0.0)
        found[key] = {
            "ended_jobs": len(jobs),
            "restarted_jobs": sum(number > 0 for number in tries),
            "restarts": sum(tries),
            "held_gpu_hours": held,
            "good_gpu_hours": held - lost,
            "goodput_ratio": (held - lost) / held if held else None,
            "ettr_ratio": _effective(jobs),
        }
    return found


def _effective(jobs: list[tuple[Job, list[Holding]]]) -> float | None:
    """Time in which attempts that were not lost ran, per time from submission to end, weighted by GPUs."""
    good = whole = 0.0
    for job, mine in jobs:
        lasted = turnaround(job)
        size = sum(one.gpus for one in mine if one.attempt.number == 1)
        if not lasted or lasted < 0:
            continue
        running: set[int] = set()
        for one in mine:
            if one.span:
                until = one.span[1] if one.lost_from is None else one.lost_from
                running |= set(range(one.span[0], until))
        good += size * len(running)
        whole += size * lasted
    return good / whole if whole else None


def lemon_machines(book: Book) -> Rows:
    """Jobs that failed on a machine against what its peers of the same type would have had."""
    days = (book.observed_until - book.observed_from) / (24 * HOUR)
    held: dict[str, set[str]] = defaultdict(set)
    failed: dict[str, set[str]] = defaultdict(set)
    lost: dict[str, Amounts] = defaultdict(dict)
    for one in book.holdings:
        place = place_of(book.facts, one.attempt.machine)
        if place is not None and place in book.facts.machines and one.gpus > 0 and not is_pool(book.facts):
            held[place].add(one.attempt.job.job_id)
            add(lost[place], amounts_within(one, 0, 1 << 40))
            if one.attempt.status in FAILED:
                failed[place].add(one.attempt.job.job_id)
    found: Rows = {}
    for machine, jobs in held.items():
        kind = ledger.gpu_type_of(book, machine)
        peers = [other for other in held if other != machine and ledger.gpu_type_of(book, other) == kind]
        count = len(failed[machine])
        expected = excess = at_risk = None
        if peers:
            expected = len(jobs) * sum(len(failed[peer]) for peer in peers) / sum(len(held[peer]) for peer in peers)
            excess = (count - expected) / sqrt(expected + 1)
            at_risk = max(0.0, count - expected) / count * lost[machine]["lost"] * 30 / days if count else 0.0
        found[(machine,)] = {
            "machine_id": machine,
            "gpu_type": kind,
            "jobs": len(jobs),
            "failed_jobs": count,
            "expected_failed_jobs": expected,
            "excess_deviations": excess,
            "is_lemon": count >= 5 and excess is not None and excess >= 4,
            "lost_gpu_hours": lost[machine]["lost"],
            "lost_at_least_gpu_hours": lost[machine]["lost_at_least"],
            "inferred_lost_gpu_hours": lost[machine]["inferred_lost"],
            "gpu_hours_at_risk": at_risk,
        }
    return found
