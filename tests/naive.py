"""The marts once more, in plain Python: no SQL, no sweep, one attempt and one hour after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

LOST = ("Failed", "Interrupted")
BUCKETS = ("idle", "under_used", "failed", "timed_out", "interrupted", "unobserved", "used")
IDLE_RATIO = 0.01
DAY = 86_400


class Machine(NamedTuple):
    gpu_type: str
    gpus: int


MACHINES = {"m2": Machine("T4", 2), "m8": Machine("V100", 8), "cpu": Machine("CPU", 0)}


class Attempt(NamedTuple):
    instance: int
    status: str
    start: int | None
    end: int | None
    machine: str
    used_percent: float | None  # None: no sensor


@dataclass(frozen=True)
class Task:
    name: str
    gpu_percent: float | None
    planned: int
    launch: int | None
    end: int | None
    attempts: tuple[Attempt, ...]

    @property
    def gpus(self) -> float:
        return (self.gpu_percent or 0) / 100


@dataclass(frozen=True)
class Job:
    name: str
    user: str
    group: str
    status: str
    submit: int
    end: int | None
    tasks: tuple[Task, ...]


@dataclass
class Holding:
    job: Job
    task: Task
    attempt: Attempt
    number: int
    begin: float = 0
    end: float = 0
    is_inferred: bool = False

    @property
    def bucket(self) -> str:
        if self.attempt.status in LOST:
            return self.attempt.status.lower()
        if self.attempt.used_percent is None:
            return "unobserved"
        return "idle" if self.attempt.used_percent / 100 < IDLE_RATIO * self.task.gpus else "used"

    def shares(self) -> dict[str, float]:
        """GPUs in each bucket, at any moment of the hold."""
        if self.bucket != "used":
            return {self.bucket: self.task.gpus}
        used = min((self.attempt.used_percent or 0) / 100, self.task.gpus)
        return {"used": used, "under_used": self.task.gpus - used}


@dataclass
class World:
    jobs: tuple[Job, ...]
    zone: ZoneInfo
    observed: tuple[int, int] = field(init=False)
    holdings: list[Holding] = field(init=False)

    def __post_init__(self) -> None:
        events = [moment for job in self.jobs for moment in (job.submit, job.end) if moment]
        events += [moment for _, _, attempt in self.attempts() for moment in (attempt.start, attempt.end) if moment]
        self.observed = (min(events), max(events))
        self.holdings = [hold for job in self.jobs for task in job.tasks for hold in self._held(job, task)]

    def attempts(self) -> Iterator[tuple[Job, Task, Attempt]]:
        for job in self.jobs:
            for task in job.tasks:
                for attempt in task.attempts:
                    yield job, task, attempt

    def _held(self, job: Job, task: Task) -> Iterator[Holding]:
        if not task.gpus:
            return
        for instance in {attempt.instance for attempt in task.attempts}:
            tries = numbered([attempt for attempt in task.attempts if attempt.instance == instance])
            for position, attempt in enumerate(tries):
                if attempt.status == "Waiting":
                    continue
                known = tuple(other for other in tries if other.status != "Waiting")
                place = known.index(attempt)
                before = known[place - 1] if place else None
                after = known[place + 1] if place + 1 < len(known) else None
                hold = Holding(job, task, attempt, position + 1)
                if self._settle(hold, before, after):
                    yield hold

    def _settle(self, hold: Holding, before: Attempt | None, after: Attempt | None) -> bool:
        job, task, attempt = hold.job, hold.task, hold.attempt
        start, end = attempt.start, attempt.end
        if start is not None and end is not None and end < start:
            end = None
        hold.is_inferred = start is None or end is None
        gang = [other for other in task.attempts if other.status != "Waiting"]
        if start is None:
            first = min((other.start for other in gang if other.start is not None), default=None)
            last_try = None if before is None else before.end if before.end is not None else before.start
            found = [
                moment
                for moment in (last_try, first, task.launch, job.submit)
                if moment is not None and (end is None or moment <= end)
            ]
            begin = max(found) if found else end
        else:
            begin = start
        if begin is None:
            return False
        if end is None:
            stopped = min((other.end for other in gang if other.status in LOST and other.end is not None), default=None)
            next_try = None if after is None else after.start if after.start is not None else after.end
            found = [
                moment for moment in (next_try, stopped, task.end, job.end) if moment is not None and moment >= begin
            ]
            until = min(found) if found else self._censored(hold, begin)
        else:
            until = end
        hold.begin, hold.end = begin, max(begin, until)
        return True

    def _censored(self, hold: Holding, begin: float) -> float:
        """PAI calls attempts running that cannot be; only those of the last day are believed."""
        since = next(moment for moment in (hold.attempt.start, hold.task.launch, hold.job.submit) if moment is not None)
        is_running = hold.attempt.status == "Running" and since + DAY > self.observed[1]
        return self.observed[1] if is_running else begin

    # Time

    def day(self, second: float) -> date:
        return datetime.fromtimestamp(second, UTC).astimezone(self.zone).date()

    def hours(self) -> Iterator[tuple[int, int]]:
        first, last = self.observed
        for hour in range(first // 3600, last // 3600 + 1):
            begin, end = max(first, hour * 3600), min(last, hour * 3600 + 3600)
            if end > begin:
                yield begin, end

    def pieces(self, begin: float, end: float) -> Iterator[tuple[int, float]]:
        """The hours, and how much of each, that an interval has of the time under observation."""
        for first, last in self.hours():
            overlap = min(end, last) - max(begin, first)
            if overlap > 0:
                yield first // 3600 * 3600, overlap / 3600

    # Marts

    def job_days(self) -> dict[tuple[str, date, str], dict[str, float]]:
        found: dict[tuple[str, date, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for hold in self.holdings:
            for hour, hours in self.pieces(hold.begin, hold.end):
                row = found[(hold.job.name, self.day(hour), MACHINES[hold.attempt.machine].gpu_type)]
                row["held_gpu_hours"] += hours * hold.task.gpus
                if hold.is_inferred:
                    row["inferred_gpu_hours"] += hours * hold.task.gpus
                row["measured_gpu_hours"] += hours * min((hold.attempt.used_percent or 0) / 100, hold.task.gpus)
                for bucket, gpus in hold.shares().items():
                    row[f"{bucket}_gpu_hours"] += hours * gpus
        return found

    def ledger(self) -> dict[tuple[int, str], dict[str, float]]:
        """By hour and GPU type; claims beyond a machine's capacity shrink alike."""
        found: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
        claims: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for hold in self.holdings:
            for hour, hours in self.pieces(hold.begin, hold.end):
                for bucket, gpus in hold.shares().items():
                    claims[(hour, hold.attempt.machine)][bucket] += hours * gpus
        for begin, end in self.hours():
            hour = begin // 3600 * 3600
            for name, machine in MACHINES.items():
                if not machine.gpus:
                    continue
                capacity = machine.gpus * (end - begin) / 3600
                claimed = claims[(hour, name)]
                total = sum(claimed.values())
                share = min(1.0, capacity / total) if total else 1.0
                row = found[(hour, machine.gpu_type)]
                row["capacity_gpu_hours"] += capacity
                row["unallocated_gpu_hours"] += capacity - total * share
                row["overcommitted_gpu_hours"] += total * (1 - share)
                for bucket in BUCKETS:
                    row[f"{bucket}_gpu_hours"] += claimed[bucket] * share
        return found


def numbered(attempts: list[Attempt]) -> tuple[Attempt, ...]:
    """In the order of time; those that got nowhere last."""
    far = 10**12

    def order(attempt: Attempt) -> tuple[int, int]:
        first = attempt.start if attempt.start is not None else attempt.end
        return (far if first is None else first, far if attempt.end is None else attempt.end)

    return tuple(sorted(attempts, key=order))


def write_trace(folder: Path, jobs: tuple[Job, ...]) -> None:
    """The same world as PAI's files."""

    def number(moment: float | None) -> str:
        return "" if moment is None else f"{float(moment)}"

    tables: dict[str, list[str]] = defaultdict(list)
    tables["pai_machine_spec"] = [f"{name},{kind.gpu_type},96,512,{kind.gpus}" for name, kind in MACHINES.items()]
    workers = 0
    for job in jobs:
        ident = f"i{job.name}"
        end = number(job.end)
        tables["pai_job_table"].append(f"{job.name},{ident},{job.user},{job.status},{number(job.submit)},{end}")
        tables["pai_group_tag_table"].append(f"{ident},{job.user},,{job.group},")
        for task in job.tasks:
            tables["pai_task_table"].append(
                f"{job.name},{task.name},{task.planned},{job.status},{number(task.launch)},{number(task.end)},"
                f"600,29,{number(task.gpu_percent)},T4"
            )
            for attempt in task.attempts:
                workers += 1
                is_waiting = attempt.status == "Waiting"
                worker, machine = ("", "") if is_waiting else (f"w{workers}", attempt.machine)
                tables["pai_instance_table"].append(
                    f"{job.name},{task.name},n{attempt.instance},{worker},{ident},{attempt.status},"
                    f"{number(attempt.start)},{number(attempt.end)},{machine}"
                )
                if attempt.used_percent is not None and not is_waiting:
                    tables["pai_sensor_table"].append(
                        f"{job.name},{task.name},{worker},{ident},{machine},/dev/nvidia0,100,{attempt.used_percent},"
                        "1,1,1,1,0,0,0,0"
                    )
    for name, rows in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")


def clock_change(zone: ZoneInfo, year: int) -> int:
    """Noon of the day before the clocks of a zone go forward."""
    day = datetime(year, 1, 1, 12, tzinfo=zone)
    while (day + timedelta(days=1)).utcoffset() == day.utcoffset():
        day += timedelta(days=1)
    return int(day.timestamp())
