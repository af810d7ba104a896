"""What both kinds of made-up clusters share: where and when they are, their machines, and who works there when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from oracle.facts import DAY, HOUR, Facts

# A moment at which the clocks of the zone change, or any moment where they never do.
CLOCK_CHANGES = {
    "America/New_York": ("2021-03-14T07:00:00", "2021-11-07T06:00:00"),
    "Europe/Berlin": ("2021-03-28T01:00:00", "2021-10-31T01:00:00"),
    "Asia/Kolkata": ("2021-05-01T10:00:00",),
    "Asia/Shanghai": ("2021-05-01T10:00:00",),
    "UTC": ("2021-02-27T12:00:00",),
}
USERS = ("ann", "bob", "cyd", "dee")
GPU_TYPES = ("T4", "V100", "H100")
Pauses = dict[str, tuple[int, int]]


def seconds_of(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def local_of(moment: int, zone: str) -> datetime:
    return datetime.fromtimestamp(moment, ZoneInfo(zone))


def is_twice(moment: int, zone: str) -> bool:
    """Whether the clocks of the zone show this time of day twice, since they are put back."""
    local = local_of(moment, zone)
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


def shown_once(moment: int, zone: str) -> int:
    """The moment, or one a few hours before it that the clocks show only once."""
    while is_twice(moment, zone):
        moment -= HOUR
    return moment


def new_cluster(rng: Random, seed: int, name: str, is_steady: bool) -> tuple[Facts, int, int]:
    """A cluster with nothing in it, and its first and last moment: a few days around a change of the clocks."""
    zone = rng.choice(sorted(CLOCK_CHANGES))
    change = seconds_of(rng.choice(CLOCK_CHANGES[zone]))
    days = rng.choice((3, 4, 5) if is_steady else (1, 2, 2, 3))
    begin = change - rng.randint(0, days * DAY) - rng.randint(0, HOUR)
    facts = Facts(seed=seed, cluster=name, zone=zone)
    facts.has_stale_running = rng.random() < 0.5
    facts.is_steady = is_steady
    return facts, begin, begin + days * DAY


def make_machines(rng: Random, facts: Facts, prefix: str) -> list[str]:
    """Names of machines; most of them go into the inventory, if the cluster has any."""
    names = [f"{prefix}{number}" for number in range(rng.randint(2, 5))]
    kind = rng.random()
    if kind < 0.72:
        types = GPU_TYPES if rng.random() < 0.5 else (rng.choice(GPU_TYPES),)
        for name in names:
            facts.machines[name] = (rng.choice(types), rng.choice((1, 2, 4, 8)))
        if rng.random() < 0.35:
            names.append(f"{prefix}{len(names)}")  # works, but no inventory lists it
        if rng.random() < 0.3:
            facts.machines[f"{prefix}spare"] = ("H100", 2)  # listed, but never works
    else:
        facts.gpu_type = rng.choice(GPU_TYPES)
    if 0.72 <= kind < 0.86:
        facts.gpus_setting = rng.choice((4, 16))
        facts.gpu_type_setting = rng.choice(("", "A100"))
    return names


def spans(rng: Random, begin: int, end: int, count: int) -> list[tuple[int, int]]:
    """Some stretches of time, short and long, in no order."""
    found = []
    for _ in range(count):
        first = rng.randint(begin, end - HOUR)
        lasts = rng.choice((rng.randint(0, 900), rng.randint(600, 4 * HOUR), rng.randint(HOUR, DAY)))
        found.append((first, min(first + lasts, end)))
    return found


def chain(rng: Random, begin: int, end: int, pause: tuple[int, int] | None) -> list[tuple[int, int]]:
    """Stretches one after another, so that a machine is hardly ever free, but for a pause."""
    found = []
    at = begin + rng.randint(0, 600)
    while at < end - HOUR:
        until = min(at + rng.randint(HOUR // 2, 5 * HOUR), end)
        if pause and until > pause[0] and at < pause[1]:
            at = pause[1] + rng.randint(0, 600)
            continue
        found.append((at, until))
        at = until + rng.randint(30, 900)
    return found


def make_pauses(rng: Random, facts: Facts, machines: list[str], begin: int, end: int) -> tuple[Pauses, set[str]]:
    """When machines have no work, perhaps to the end; and which of them die, all at one moment, to begin with that."""

    def pause(since: int) -> tuple[int, int]:
        return since, since + rng.randint(8 * HOUR, 4 * DAY) if rng.random() < 0.7 else end + DAY

    def moment() -> int:
        return shown_once(rng.randint(begin + 6 * HOUR, end - 30 * HOUR), facts.zone)

    dies = set(rng.sample(machines, k=rng.choice((0, 1, 1, min(2, len(machines))))))
    together = moment()
    found = {machine: pause(together) for machine in sorted(dies)}
    if rng.random() < 0.7:
        found.setdefault(rng.choice(machines), pause(moment()))
    return found, dies


def add_settings(rng: Random, facts: Facts, begin: int, end: int) -> None:
    """Time under observation, outages and checkpoints, each in a part of the clusters."""
    kind = rng.random()
    if kind < 0.25:
        facts.observed_from = begin + rng.randint(0, (end - begin) // 3)
    if kind < 0.15 or kind > 0.9:
        facts.observed_until = end - rng.randint(-HOUR, (end - begin) // 3)
    # Of a machine with a recorded outage none is inferred, and only steady work lets one be inferred.
    if facts.machines and rng.random() < (0.15 if facts.is_steady else 0.45):
        for name in rng.sample(sorted(facts.machines), k=min(2, len(facts.machines))):
            for _ in range(rng.randint(1, 2)):
                first = rng.randint(begin - HOUR, end)
                ends = None if rng.random() < 0.15 else first + rng.randint(600, 9 * HOUR)
                facts.outages.append((name, first, ends))
    if rng.random() < 0.6:
        lost = [attempt for attempt in facts.attempts if attempt.status not in ("waiting", "running")]
        for attempt in rng.sample(lost, k=min(len(lost), 8)):
            moment = attempt.ended or attempt.began
            if moment is not None:
                facts.checkpoints.append((attempt.job.job_id, moment - rng.randint(-600, 2 * HOUR)))


def stray(rng: Random, begin: int, end: int) -> int:
    """A moment far before or after the rest."""
    far = rng.randint(3, 60) * DAY
    return rng.choice((begin - far, end + far))


def share_of_use(rng: Random) -> float | None:
    """Of the GPUs held: nothing, hardly anything, some, more than was asked for; None: no sensor."""
    if rng.random() < 0.35:
        return None
    return rng.choice((0.0, 0.004, 0.02, 0.25, 0.5, 0.93, 1.0, 1.4))


def write_rows(path: Path, rows: Iterable[Sequence[object]], delimiter: str = ",", ends: str = "\n") -> None:
    text = "".join(delimiter.join("" if cell is None else str(cell) for cell in row) + ends for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def line_ends(rng: Random) -> str:
    """Some dumps went through a machine that ends lines in its own way."""
    return "\r\n" if rng.random() < 0.2 else "\n"


def with_offset(moment: int, zone: str) -> str:
    return local_of(moment, zone).isoformat()


def write_side_tables(rng: Random, facts: Sequence[Facts], folder: Path) -> None:
    """Inventory, outages and checkpoints of all clusters but PAI's inventory, some rows told twice."""
    inventory = [
        (one.cluster, name, kind, gpus, 64, 512)
        for one in facts
        if one.cluster not in ("pai", "synth")
        for name, (kind, gpus) in one.machines.items()
    ]
    outages = [
        (one.cluster, name, with_offset(first, one.zone), None if last is None else with_offset(last, one.zone), "r")
        for one in facts
        for name, first, last in one.outages
    ]
    saved = [(one.cluster, job, with_offset(at, one.zone)) for one in facts for job, at in one.checkpoints]
    for name, header, rows in (
        ("inventory", ("cluster", "machine", "gpu_type", "gpus", "cores", "memory_gib"), inventory),
        ("outages", ("cluster", "machine", "started_at", "ended_at", "reason"), outages),
        ("checkpoints", ("cluster", "job", "saved_at"), saved),
    ):
        if rows:
            again = [row for row in rows if rng.random() < 0.2]
            write_rows(folder / f"{name}.csv", [header, *rows, *again])


def dumps_of(
    rng: Random, rows: Sequence[Sequence[object]], versions: Sequence[Sequence[object]], at_least: int
) -> list[list[Sequence[object]]]:
    """The rows told dirtily: in dumps that overlap, out of order, some twice, earlier versions in earlier dumps."""
    dumps: list[list[Sequence[object]]] = [[] for _ in range(rng.randint(at_least, 3))]
    for row in versions:
        rng.choice(dumps[:-1] or dumps).append(row)
    for row in rows:
        first = rng.randrange(len(dumps))
        for number in range(first, len(dumps)):
            if number == first or rng.random() < 0.3:
                dumps[number].extend([row] * rng.choice((1, 1, 1, 2)))
    for dump in dumps:
        rng.shuffle(dump)
    return [dump for dump in dumps if dump]
