"""Random small traces in the shape of the Alibaba PAI trace: jobs of several roles, gangs, retries, missing times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from oracle import making
from oracle.facts import HOUR, Attempt, Facts, Job, Task

PAI_WORDS = {
    "succeeded": "Terminated",
    "failed": "Failed",
    "interrupted": "Interrupted",
    "running": "Running",
    "waiting": "Waiting",
}


def pai_facts(seed: int, cluster: str) -> Facts:
    """The clusters `pai` and `synth` come in the same files: the names in the latter's have a prefix."""
    rng = Random(f"pai {seed}")
    is_steady = rng.random() < 0.5
    facts, begin, end = making.new_cluster(rng, seed, cluster, is_steady)
    machines = making.make_machines(rng, facts, _named(facts, "m"))
    facts.missing_tasks = rng.choice((0.0, 0.05, 0.05, 0.15, 0.6))
    if facts.machines and rng.random() < 0.3:
        facts.machines[_named(facts, "cpu0")] = ("CPU", 0)
    if is_steady:
        _steady_work(rng, facts, machines, begin, end)
    else:
        for first, last in making.spans(rng, begin, end, rng.randint(6, 20)):
            _job(rng, facts, machines, first, last)
    _marker_jobs(rng, facts, machines, begin, end)
    if rng.random() < 0.3:
        job = rng.choice(facts.jobs)
        if rng.random() < 0.5:
            job.submitted = making.stray(rng, begin, end)
        else:
            job.ended = making.stray(rng, begin, end)
    making.add_settings(rng, facts, begin, end)
    return facts


def _named(facts: Facts, name: str) -> str:
    return f"synth-{name}" if facts.cluster == "synth" else name


def _new_job(rng: Random, facts: Facts, submitted: int | None) -> Job:
    user = None if rng.random() < 0.06 else rng.choice(making.USERS)
    group = rng.choice(("g1", "g2", "g3", user)) or "g0"
    workload = rng.choice(("bert", "ctr", None)) if group != user else None
    job = Job(_named(facts, f"job{len(facts.jobs)}"), user, group, workload, "succeeded", submitted, None)
    facts.jobs.append(job)
    return job


def _new_task(rng: Random, facts: Facts, job: Job, name: str, gpus: float, instances: int, launched: int) -> Task:
    known = rng.random() > facts.missing_tasks
    kind = (facts.gpu_type or rng.choice(making.GPU_TYPES)) if gpus else None
    task = Task(job, name, instances, gpus if known else None, kind, launched, None)
    if not known:
        task.gpu_type = task.launched = None
    facts.tasks.append(task)
    return task


def _new_attempt(
    rng: Random, facts: Facts, task: Task, instance: int, machine: str | None, status: str, span: tuple[int, int]
) -> Attempt:
    """An attempt with all its times, a sensor perhaps, and a window of its machine's metric perhaps."""
    began, ended = span
    attempt = Attempt(task, f"{task.job.job_id}-{task.name}-{instance}", machine, status, began, ended, task.gpus, None)
    use = making.share_of_use(rng)
    if use is not None and status != "waiting":
        asked = task.gpus if task.gpus is not None else 1.0
        attempt.used_gpus = round(use * asked, 6)
    if rng.random() < 0.4 and status not in ("waiting", "running") and ended > began:
        attempt.window = (began + rng.randint(0, (ended - began) // 3), ended - rng.randint(0, (ended - began) // 3))
    facts.attempts.append(attempt)
    return attempt


def _job(rng: Random, facts: Facts, machines: list[str], first: int, last: int) -> None:
    """A job of one or two roles, gangs that fall together, and tries that failed before."""
    job = _new_job(rng, facts, first - rng.randint(0, 2 * HOUR))
    launched = first - rng.randint(0, min(900, first - (job.submitted or first)))
    outcome = rng.choice(("succeeded", "succeeded", "failed", "interrupted", "running", "waiting"))
    worker = _new_task(
        rng, facts, job, "worker", rng.choice((0.1, 0.25, 0.5, 1.0, 1.0, 2.0, 4.0)), rng.randint(1, 3), launched
    )
    tasks = [worker]
    if rng.random() < 0.3:
        tasks.append(_new_task(rng, facts, job, "ps", 0.0, 1, launched))
    made: list[Attempt] = []
    for task in tasks:
        for instance in range(task.instances):
            machine = rng.choice(machines)
            begins = first
            for _ in range(rng.choice((0, 0, 0, 1, 2))):
                fails = begins + rng.randint(10, 2400)
                made.append(_new_attempt(rng, facts, task, instance, rng.choice(machines), "failed", (begins, fails)))
                begins = fails + rng.randint(1, 300)
            status = outcome
            if outcome == "interrupted":
                status = "failed" if instance == 0 else "interrupted"
            where = None if status == "waiting" else machine
            final = _new_attempt(rng, facts, task, instance, where, status, (begins, max(last, begins)))
            made.append(final)
            if status == "succeeded" and rng.random() < 0.05:  # the same worker at once again
                _new_attempt(rng, facts, task, instance, where, status, (final.ended or 0, (final.ended or 0) + 500))
                final.window = None
    is_over = outcome not in ("running", "waiting")
    ends = max((one.ended or 0 for one in facts.attempts if one.job is job), default=last)
    job.status = {"interrupted": "failed"}.get(outcome, outcome)
    job.ended = ends + rng.randint(0, 60) if is_over and rng.random() < 0.9 else None
    for task in tasks:
        if task.launched is not None and is_over and rng.random() < 0.8:
            task.ended = ends
    for attempt in made:
        _forget_times(rng, attempt, sum(other.instance == attempt.instance for other in made) == 1)


def _forget_times(rng: Random, attempt: Attempt, is_only_try: bool) -> None:
    """Times as the trace has them: what failed has one of two, what was interrupted an end, what runs no end."""
    kind = rng.random()
    if attempt.status == "waiting":
        attempt.began = attempt.ended = None
    elif attempt.status == "running":
        attempt.ended = None
        attempt.began = None if kind < 0.5 else attempt.began
    elif attempt.status == "interrupted":
        attempt.began = None if kind < 0.9 else attempt.began
    elif attempt.status == "failed":
        if kind < 0.4:
            attempt.ended = None
        elif kind < 0.65:
            attempt.began = None
        elif kind < 0.75 and is_only_try:
            attempt.began = attempt.ended = None
    elif kind < 0.06 and attempt.began is not None:
        attempt.ended = attempt.began - rng.randint(1, 5000)


def _one_instance_job(
    rng: Random, facts: Facts, machine: str, span: tuple[int, int], gpus: float, status: str
) -> Attempt:
    job = _new_job(rng, facts, span[0] - rng.randint(0, 900))
    task = _new_task(rng, facts, job, "worker", gpus, 1, span[0])
    if task.gpus is not None:
        task.ended = span[1]
    job.ended = span[1]
    job.status = status if status != "interrupted" else "failed"
    return _new_attempt(rng, facts, task, 0, machine, status, span)


def _steady_work(rng: Random, facts: Facts, machines: list[str], begin: int, end: int) -> None:
    """Machines are hardly ever free. One may fall silent, others die."""
    pauses, dies = making.make_pauses(rng, facts, machines, begin, end)
    for machine in machines:
        pause = pauses.get(machine)
        for span in making.chain(rng, begin, end, pause):
            status = rng.choice(("succeeded", "succeeded", "succeeded", "failed", "interrupted"))
            _one_instance_job(rng, facts, machine, span, rng.choice((0.0, 0.5, 1.0, 1.0)), status)
        if machine in dies and pause:
            since = pause[0] - rng.randint(HOUR, 5 * HOUR)
            for _ in range(rng.randint(1, 4)):
                _one_instance_job(rng, facts, machine, (since, pause[0]), 0.5, "failed")


def _marker_jobs(rng: Random, facts: Facts, machines: list[str], begin: int, end: int) -> None:
    """Each machine has a job of its own, so that keys of machines can be told apart by jobs."""
    for machine in machines:
        first = rng.randint(begin, end - HOUR)
        _one_instance_job(rng, facts, machine, (first, first + rng.randint(60, HOUR)), 0.5, "succeeded")


def write_pai(every: Sequence[Facts], folder: Path) -> None:
    """Clusters share their files."""
    rng = Random(f"files of pai {every[0].seed}")
    tables = [_tables(rng, facts) for facts in every]
    for name in tables[0]:
        rows, versions = ([row for table in tables for row in table[name][place]] for place in (0, 1))
        for number, dump in enumerate(making.dumps_of(rng, rows, versions, 2 if versions else 1)):
            making.write_rows(folder / f"dump{number}" / f"{name}.csv", dump, ends=making.line_ends(rng))


Rows = tuple[list[Sequence[object]], list[Sequence[object]]]


def _tables(rng: Random, facts: Facts) -> dict[str, Rows]:
    return {
        "pai_job_table": _job_rows(rng, facts),
        "pai_task_table": _task_rows(rng, facts),
        "pai_instance_table": _instance_rows(rng, facts),
        "pai_sensor_table": (_sensor_rows(rng, facts), []),
        "pai_machine_metric": (_metric_rows(facts), []),
        "pai_machine_spec": ([(name, kind, 96, 512, gpus) for name, (kind, gpus) in facts.machines.items()], []),
        "pai_group_tag_table": (
            [
                (f"id-{job.job_id}", job.user, "", job.group, job.workload)
                for job in facts.jobs
                if job.group != job.user
            ],
            [],
        ),
    }


def _number(moment: int | None) -> str | None:
    return None if moment is None else f"{moment}.0"


def _job_rows(rng: Random, facts: Facts) -> Rows:
    def row(job: Job, status: str, ended: int | None) -> Sequence[object]:
        return (job.job_id, f"id-{job.job_id}", job.user, PAI_WORDS[status], _number(job.submitted), _number(ended))

    rows = [row(job, job.status, job.ended) for job in facts.jobs]
    over = [job for job in facts.jobs if job.status in ("succeeded", "failed") and rng.random() < 0.25]
    return rows, [row(job, rng.choice(("running", "waiting")), None) for job in over]


def _task_rows(rng: Random, facts: Facts) -> Rows:
    def row(task: Task, status: str, ended: int | None) -> Sequence[object]:
        plan = None if task.gpus == 0 else f"{(task.gpus or 0) * 100}"
        times = (_number(task.launched), _number(ended))
        return (
            task.job.job_id,
            task.name,
            f"{task.instances}.0",
            PAI_WORDS[status],
            *times,
            "600.0",
            "29.3",
            plan,
            task.gpu_type,
        )

    known = [task for task in facts.tasks if task.gpus is not None]
    rows = [row(task, task.job.status, task.ended) for task in known]
    over = [task for task in known if task.ended is not None and rng.random() < 0.25]
    return rows, [row(task, "running", None) for task in over]


def _workers(facts: Facts) -> Callable[[Attempt], str | None]:
    """A worker's name for each attempt; two tries back to back of one instance that ended well share theirs."""
    names: dict[int, str] = {}
    for number, attempt in enumerate(facts.attempts):
        before = facts.attempts[number - 1] if number else None
        is_same = (
            before is not None
            and before.instance == attempt.instance
            and before.status == attempt.status == "succeeded"
            and attempt.window is before.window is None
            and before.used_gpus == attempt.used_gpus
        )
        names[id(attempt)] = names[id(before)] if is_same else _named(facts, f"w{number}")
    return lambda attempt: None if attempt.status == "waiting" else names[id(attempt)]


def _instance_rows(rng: Random, facts: Facts) -> Rows:
    worker = _workers(facts)

    def row(one: Attempt, status: str, began: int | None, ended: int | None) -> Sequence[object]:
        is_placed = status != "waiting"
        name, machine = (worker(one), one.machine) if is_placed else (None, None)
        job, task = one.job.job_id, one.task.name
        return (job, task, one.instance, name, f"id-{job}", PAI_WORDS[status], _number(began), _number(ended), machine)

    rows = [row(one, one.status, one.began, one.ended) for one in facts.attempts]
    tries: dict[str, int] = {}
    for one in facts.attempts:
        tries[one.instance] = tries.get(one.instance, 0) + 1
    versions: list[Sequence[object]] = []
    for one in facts.attempts:
        if one.status in ("waiting", "running") or tries[one.instance] > 1:
            continue
        if rng.random() < 0.2:
            versions.append(row(one, "running", rng.choice((one.began, None)), None))
        if rng.random() < 0.1:
            versions.append(row(one, "waiting", None, None))
    return rows, versions


def _sensor_rows(rng: Random, facts: Facts) -> list[Sequence[object]]:
    worker = _workers(facts)
    rows: list[Sequence[object]] = []
    reported: set[str | None] = set()
    for one in facts.attempts:
        if one.used_gpus is None or worker(one) in reported:
            continue
        reported.add(worker(one))
        parts = [one.used_gpus] if rng.random() < 0.7 else [one.used_gpus * 0.25, one.used_gpus * 0.75]
        for number, part in enumerate(parts):
            base = (one.job.job_id, one.task.name, worker(one), f"id-{one.job.job_id}", one.machine)
            rows.append(
                (*base, f"/dev/nvidia{number}", 120.5, repr(part * 100), 1.5, 2.5, 1.25, 2.25, 1e6, 2e6, 10.0, 20.0)
            )
    return rows


def _metric_rows(facts: Facts) -> list[Sequence[object]]:
    worker = _workers(facts)
    return [
        (
            worker(one),
            one.machine,
            _number(one.window[0]),
            _number(one.window[1]),
            0.01,
            3.5,
            14.0,
            87.5,
            18.0,
            1e8,
            2.0,
            18.0,
        )
        for one in facts.attempts
        if one.window is not None
    ]
