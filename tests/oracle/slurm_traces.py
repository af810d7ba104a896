"""Random small traces in the shape of Slurm's accounting: jobs on several nodes, requeued ones, local times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from oracle import making
from oracle.facts import DAY, HOUR, Attempt, Facts, Job, Task
from oracle.slurm_use import Step, Use, make_use
from oracle.states import make_states

STATES = {
    "succeeded": ("COMPLETED",),
    "failed": ("FAILED", "OUT_OF_MEMORY"),
    "node_fail": ("NODE_FAIL",),
    "timeout": ("TIMEOUT",),
    "interrupted": ("PREEMPTED", "REQUEUED"),
    "cancelled": ("CANCELLED by 1000", "CANCELLED"),
    "running": ("RUNNING",),
    "waiting": ("PENDING",),
}
FIELDS = (
    *("Cluster", "JobID", "User", "Account", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw"),
    *("NNodes", "NCPUS", "ReqTRES", "AllocTRES", "NodeList", "TRESUsageInAve", "AdminComment", "JobName"),
)


@dataclass
class Run:
    """One time that a job was run: a row of sacct, and perhaps one of its step."""

    job: Job
    name: str
    status: str
    submitted: int
    eligible: int
    began: int | None
    ended: int | None
    nodes: tuple[str, ...]
    gpus: int
    use: Use
    gpu_type: str | None
    state: str  # as sacct writes it


def slurm_facts(seed: int, cluster: str) -> tuple[Facts, list[Run]]:
    rng = Random(f"slurm {seed} {cluster}")
    is_steady = rng.random() < 0.5
    facts, begin, end = making.new_cluster(rng, seed, cluster, is_steady)
    machines = making.make_machines(rng, facts, f"{cluster}-")
    facts.has_placement = rng.random() < 0.85
    runs: list[Run] = []
    if is_steady:
        _steady_work(rng, facts, runs, machines, begin, end)
    else:
        for first, last in making.spans(rng, begin, end, rng.randint(6, 22)):
            _job(rng, facts, runs, machines, first, last)
    for machine in machines:
        first = rng.randint(begin, end - HOUR)
        _simple_job(rng, facts, runs, (machine,), (first, first + rng.randint(60, HOUR)), 1, "succeeded")
    if rng.random() < 0.3:
        run = rng.choice(runs)
        if run.submitted == run.job.submitted and run.began is not None:
            run.submitted = run.eligible = run.job.submitted = begin - rng.randint(3, 60) * DAY
            next(task for task in facts.tasks if task.job is run.job).launched = run.eligible
    for run in runs:
        _attempts_of(facts, run)
    making.add_settings(rng, facts, begin, end)
    if facts.machines and rng.random() < 0.5:
        make_states(rng, facts, begin, end)
    return facts, runs


def _new_job(rng: Random, facts: Facts, submitted: int, gpus: int, nodes: int, gpu_type: str | None) -> Job:
    user = rng.choice(making.USERS)
    name = rng.choice(("train", "train", "eval", "eval", "tune", "bash"))
    number = 100 + len(facts.jobs)
    job_id = f"{number}_{rng.randint(1, 9)}" if rng.random() < 0.15 else str(number)
    # A name that says only how the job was started makes no group: the user stands for it.
    group = user if name == "bash" else f"{user}/{name}"
    job = Job(job_id, user, group, None, "waiting", submitted, None, ("physics", "bio", None)[number % 3])
    facts.jobs.append(job)
    facts.tasks.append(Task(job, "job", nodes, gpus / nodes, gpu_type if gpus else None, None, None))
    return job


def _new_run(
    rng: Random,
    facts: Facts,
    runs: list[Run],
    job: Job,
    status: str,
    submitted: int,
    span: tuple[int, int],
    nodes: Sequence[str],
) -> Run:
    task = next(task for task in facts.tasks if task.job is job)
    began, ended = span
    # Of two times that the clocks show twice nobody can say which were meant.
    if making.is_twice(began, facts.zone) and (status == "running" or making.is_twice(ended, facts.zone)):
        began, ended = began + 2 * HOUR, max(ended, began) + 2 * HOUR
    eligible = making.shown_once(submitted + rng.choice((0, 0, rng.randint(0, max(0, began - submitted)))), facts.zone)
    run = Run(
        job=job,
        name=job.group.split("/")[1] if "/" in job.group else "bash",
        status=status,
        submitted=submitted,
        eligible=max(eligible, submitted),
        began=None if status == "waiting" else began,
        ended=None if status in ("waiting", "running") else ended,
        nodes=tuple(nodes),
        gpus=round((task.gpus or 0) * task.instances),
        use=Use(),
        gpu_type=task.gpu_type,
        state=rng.choice(STATES[status]),
    )
    if status == "cancelled" and rng.random() < 0.5:  # before it began
        run.began, run.ended = None, max(submitted, making.shown_once(ended, facts.zone))
    # Slurm writes what a step used when it ends, and a step without time has no mean.
    if run.began is not None and run.ended is not None and run.ended > run.began and run.gpus:
        run.use = make_use(rng, facts.zone, run.gpus, nodes, run.began, run.ended)
    runs.append(run)
    job.status, job.ended = status, run.ended
    if task.launched is None:
        task.launched = run.eligible
    task.ended = run.ended
    return run


def _job(rng: Random, facts: Facts, runs: list[Run], machines: list[str], first: int, last: int) -> None:
    nodes = rng.sample(machines, k=rng.randint(1, min(3, len(machines))))
    gpus = rng.choice((0, 1, 2, 3, 4, 8))
    submitted = making.shown_once(first - rng.randint(0, 3 * HOUR), facts.zone)
    job = _new_job(rng, facts, submitted, gpus, len(nodes), facts.gpu_type or rng.choice(making.GPU_TYPES))
    begins = first
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        stops = begins + rng.randint(60, 2 * HOUR)
        run = _new_run(
            rng, facts, runs, job, rng.choice(("interrupted", "node_fail")), submitted, (begins, stops), nodes
        )
        stops = run.ended or stops
        submitted = stops if not making.is_twice(stops, facts.zone) else stops + 2 * HOUR
        begins = submitted + rng.randint(30, HOUR)
    status = rng.choice(("succeeded", "succeeded", "failed", "timeout", "cancelled", "node_fail", "running", "waiting"))
    _new_run(rng, facts, runs, job, status, submitted, (begins, max(begins, last)), nodes)


def _simple_job(
    rng: Random, facts: Facts, runs: list[Run], nodes: tuple[str, ...], span: tuple[int, int], gpus: int, status: str
) -> Run:
    submitted = making.shown_once(span[0] - rng.randint(0, 900), facts.zone)
    job = _new_job(rng, facts, submitted, gpus, len(nodes), facts.gpu_type or rng.choice(making.GPU_TYPES))
    return _new_run(rng, facts, runs, job, status, submitted, span, nodes)


def _steady_work(rng: Random, facts: Facts, runs: list[Run], machines: list[str], begin: int, end: int) -> None:
    """Machines are hardly ever free. One may fall silent, others die."""
    pauses, dies = making.make_pauses(rng, facts, machines, begin, end)
    for machine in machines:
        pause = pauses.get(machine)
        for span in making.chain(rng, begin, end, pause):
            status = rng.choice(("succeeded", "succeeded", "succeeded", "failed", "timeout"))
            _simple_job(rng, facts, runs, (machine,), span, rng.choice((0, 1, 1, 2)), status)
        if machine in dies and pause:
            began = making.shown_once(pause[0] - rng.randint(HOUR, 3 * HOUR), facts.zone)
            for _ in range(rng.randint(1, 4)):
                status = rng.choice(("failed", "node_fail"))
                _simple_job(rng, facts, runs, (machine,), (began, pause[0]), 1, status)


def _attempts_of(facts: Facts, run: Run) -> None:
    """What ran on one of a job's machines is an attempt; where nobody says on which, the run is."""
    task = next(task for task in facts.tasks if task.job is run.job)
    if run.began is None and run.status != "waiting":  # it was cancelled before anything was tried
        return
    share = run.gpus / len(run.nodes)
    parts: list[tuple[str | None, float, float | None]] = [(None, share, None)]
    if run.began is not None:
        span = run.began, run.ended or run.began
        each = [(run.use.gpus_on(node, run.gpus, run.nodes), _used_on(run, node, span)) for node in run.nodes]
        parts = [(node, *part) for node, part in zip(run.nodes, each, strict=True)]
        if not facts.has_placement:
            used = [one for _, one in each if one is not None]
            parts = [(None, float(run.gpus), sum(used) if used else None)]
    for number, (place, gpus, used_gpus) in enumerate(parts):
        instance = f"{run.job.job_id}-{number}"
        facts.attempts.append(Attempt(task, instance, place, run.status, run.began, run.ended, gpus, used_gpus))


def _used_on(run: Run, node: str, span: tuple[int, int]) -> float | None:
    return run.use.used_on(node, run.gpus, run.nodes, *span)


def write_slurm(every: Sequence[tuple[Facts, Sequence[Run]]], folder: Path) -> None:
    """Clusters that print the same fields share their files, as one accounting database tells of many."""
    files: dict[str, list[Sequence[object]]] = {}
    rng = Random(f"files of {every[0][0].seed}")
    for facts, runs in every:
        for number, dump in enumerate(_dumps(rng, facts, runs)):
            name = f"{'placed' if facts.has_placement else 'unplaced'}-dump{number}.txt"
            files.setdefault(name, [_fields(facts)]).extend(dump)
    for name, rows in files.items():
        making.write_rows(folder / name, rows, "|", making.line_ends(rng))


def _dumps(rng: Random, facts: Facts, runs: Sequence[Run]) -> list[list[Sequence[object]]]:
    rows: list[Sequence[object]] = []
    versions: list[Sequence[object]] = []
    for run in runs:
        rows.extend(_rows(facts, run))
        if run.began is not None and run.status != "running" and rng.random() < 0.3:
            versions.append(_row(facts, run, "RUNNING", run.began, None))
        if run.status != "waiting" and rng.random() < 0.2:
            versions.append(_row(facts, run, "PENDING", None, None))
    return making.dumps_of(rng, rows, versions, 2)


def _fields(facts: Facts) -> list[str]:
    return [name for name in FIELDS if facts.has_placement or name != "NodeList"]


def _rows(facts: Facts, run: Run) -> list[Sequence[object]]:
    rows = [_row(facts, run, run.state, run.began, run.ended)]
    rows += [_row(facts, run, run.state.split()[0], step.began, step.ended, step) for step in run.use.steps]
    return rows


def _row(
    facts: Facts, run: Run, state: str, began: int | None, ended: int | None, step: Step | None = None
) -> Sequence[object]:
    """A row of the job, or of one of its steps."""

    def shown(moment: int | None) -> str:
        return "Unknown" if moment is None else making.local_of(moment, facts.zone).strftime("%Y-%m-%dT%H:%M:%S")

    gpus = f",gres/gpu={run.gpus}" if run.gpus else ""
    kind = f",gres/gpu:{run.gpu_type}={run.gpus}" if run.gpus and run.gpu_type else ""
    is_placed = began is not None
    cells = {
        "Cluster": facts.cluster,
        "JobID": f"{run.job.job_id}.{step.name}" if step else run.job.job_id,
        "User": "" if step else run.job.user,
        "Account": run.job.account,
        "State": state,
        "Submit": shown(began if step else run.submitted),
        "Eligible": shown(began if step else run.eligible),
        "Start": shown(began),
        "End": shown(ended),
        "ElapsedRaw": 0 if began is None else 60 if ended is None else ended - began,
        "NNodes": len(run.nodes),
        "NCPUS": 8 * len(run.nodes),
        "ReqTRES": "" if step else f"cpu={8 * len(run.nodes)}{kind}{gpus}",
        "AllocTRES": f"cpu={8 * len(run.nodes)}{kind}{gpus}" if is_placed else "",
        "NodeList": ",".join(run.nodes) if is_placed else "None assigned",
        "TRESUsageInAve": "" if step is None or step.percent is None else f"gres/gpuutil={step.percent}",
        "AdminComment": "" if step or ended is None else run.use.comment(),
        "JobName": step.name if step else run.name,
    }
    return [cells[name] for name in _fields(facts)]
