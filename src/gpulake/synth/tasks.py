"""Jobs and their tasks: who submits them, which recur; number of instances, requests and waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.synth import clock
from gpulake.synth.draws import choose, deal, even, generator, quotas, ranks
from gpulake.synth.facts import CPU_TYPE, GPU_TYPES, TYPES, curve, habits, scaled
from gpulake.synth.placement import Machines

LARGE_GANG_GROUP = 40
"""How often, at most, a job with a large gang recurs."""


@dataclass(frozen=True)
class Jobs:
    """One entry per job. Arrays are filled once and then changed only by incidents."""

    template: NDArray[np.int8]
    submitted_at: NDArray[np.int32]
    user: NDArray[np.int32]
    group: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.template)


def templates(count: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """The kind of every job, such that the tasks add up to their published number."""
    kinds = habits()["templates"]
    tasks = np.array([len(kind["roles"]) for kind in kinds])
    counts = quotas([kind["share"] for kind in kinds], count)
    short = scaled("tasks", count) - int(counts @ tasks)
    single, double = int(np.flatnonzero(tasks == 1)[0]), int(np.flatnonzero(tasks == 2)[0])
    counts[[single, double]] += np.array([-short, short])
    return rng.permutation(np.repeat(np.arange(len(kinds), dtype=np.int8), counts))


def submitted(template: NDArray[np.int8], alike: NDArray[np.int64], in_job: NDArray[np.int64], seed: int) -> Jobs:
    """Jobs with their times, groups and users. Jobs of one group are neighbours in `alike`: they ask for the same."""
    rng = generator(seed, 1)
    group = _groups(alike, in_job, rng)
    return Jobs(
        template=template,
        submitted_at=clock.submissions(len(template), rng).astype(np.int32),
        user=_users(group, rng),
        group=group,
    )


def _groups(alike: NDArray[np.int64], in_job: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
    """Group numbers: most jobs recur, those with gangs more than others."""
    group = np.empty(len(alike), dtype=np.int32)
    share = habits()["groups"]["recurring_job_share"]
    is_gang = in_job > 1
    of_gangs = habits()["groups"]["recurring_gang_share"]
    alone = (share - of_gangs * is_gang.mean()) / max(1 - is_gang.mean(), 1e-9)
    first = 0
    order = np.argsort(alike, kind="stable")
    for chosen, recurring in ((order[is_gang[order]], of_gangs), (order[~is_gang[order]], alone)):
        chunk, within = _chunks(len(chosen), int(recurring * len(chosen)), max(5, len(alike) // 60), rng)
        # One group of a thousand large gangs, all of the same length, would decide how full a whole GPU type is.
        part = np.where(in_job[chosen] >= LARGE_GANG, within // LARGE_GANG_GROUP, 0)
        is_new = (np.diff(chunk, prepend=-1) != 0) | (np.diff(part, prepend=0) != 0)
        group[chosen] = first + np.cumsum(is_new) - 1
        first += int(is_new.sum())
    return group


def _chunks(
    count: int, recurring: int, largest: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Neighbours that belong together, and their places: of the recurring ones in groups with a heavy tail, of the
    others one to four."""
    many = np.minimum(5 * (1 - rng.random(recurring // 5 + 1)) ** (-1 / 0.95), largest).astype(np.int64)
    many = many[: int(np.searchsorted(np.cumsum(many), recurring)) + 1]
    few = choose([80, 12, 5, 3], rng.random(count)) + 1
    few = few[: np.searchsorted(np.cumsum(few), max(count - many.sum(), 0)) + 1]
    sizes = rng.permutation(np.concatenate([many, few]))
    chunk = np.repeat(np.arange(len(sizes)), sizes)[:count]
    return chunk, np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)[:count]


def user_quotas(jobs: int) -> NDArray[np.int64]:
    """How many jobs each user submits: the published heavy tail, over fewer users in a smaller trace.

    Users shrink with the square root of the trace, so that a small one still has users to compare.
    """
    full = published()["counts"]
    users = max(40, round(full["users"] * float(np.sqrt(jobs / full["jobs"]))))
    weights = curve("users", "tasks").value((np.arange(users) + 0.5) / users)
    # The largest of the published users submits 23 % of all tasks; of fewer users it would be half.
    weights[-1] = min(weights[-1], 0.3 * weights[:-1].sum())
    return np.maximum(quotas(list(weights), jobs), 1)


def _users(group: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
    """A user for every group, such that every user gets about the jobs of their quota."""
    sizes = np.bincount(group)
    left = user_quotas(len(group)).astype(float)
    owner = np.empty(len(sizes), dtype=np.int32)
    large = np.flatnonzero(sizes >= 5)
    for number in large[np.argsort(-sizes[large], kind="stable")]:
        able = np.where(left >= sizes[number], left, 0.0)
        edges = np.cumsum(able if able.any() else left)
        owner[number] = np.searchsorted(edges, rng.random() * edges[-1], side="right")
        left[owner[number]] = max(left[owner[number]] - sizes[number], 0.0)
    small = np.flatnonzero(sizes < 5)
    edges = np.cumsum(left)
    place = (np.cumsum(sizes[small]) - sizes[small] / 2) / max(sizes[small].sum(), 1)
    owner[small] = np.minimum(np.searchsorted(edges / edges[-1], place, side="right"), len(left) - 1)
    return owner[group]


def workloads(jobs: Jobs, rng: np.random.Generator) -> NDArray[np.int8]:
    """The workload tag of every job, -1 for none; whole groups carry one."""
    names = habits()["groups"]["workloads"]
    sizes = np.bincount(jobs.group)
    # A large group could take, or leave, a point of the share by itself.
    order = rng.permutation(np.flatnonzero(sizes <= max(1, len(jobs) // 200)))
    is_tagged = np.cumsum(sizes[order]) <= habits()["groups"]["workload_share"] * len(jobs)
    tag = np.full(len(sizes), -1, dtype=np.int8)
    tag[order[is_tagged]] = choose(list(names.values()), ranks(rng.random(int(is_tagged.sum()))))
    return tag[jobs.group]


LARGE_GANG = 8
CROWDED_SHARE = 0.25
FIRST_ATTEMPT_SHARE = 0.929
"""Of instance rows; the others are retries."""


@dataclass(frozen=True)
class Tasks:
    """One entry per task; the tasks of a job are neighbours."""

    job: NDArray[np.int32]
    role: NDArray[np.int8]
    size: NDArray[np.int32]
    gpu_type: NDArray[np.int8]
    plan_gpu: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.job)

    @property
    def has_gpu(self) -> NDArray[np.bool_]:
        return self.plan_gpu > 0


def role_names() -> list[str]:
    return list(habits()["roles"])


def planned(template: NDArray[np.int8], machines: Machines, seed: int) -> Tasks:
    rng = generator(seed, 2)
    job, role = _roles(template)
    size = _sizes(role, round(FIRST_ATTEMPT_SHARE * scaled("instances", len(template))), rng)
    has_gpu = _has_gpu(role, scaled("gpu_tasks", len(template)), rng)
    gpu_type = _gpu_types(job, size, has_gpu, len(template), rng)
    plan_gpu = _plan_gpu(gpu_type, size, has_gpu, machines.gpus_by_type(), rng)
    return Tasks(job, role, size, gpu_type, plan_gpu)


def alike(tasks: Tasks, jobs: int) -> NDArray[np.int64]:
    """A number per job, close for jobs that ask for the same things: the first task's role, type, plan and size."""
    first = np.searchsorted(tasks.job, np.arange(jobs))
    key = tasks.role[first].astype(np.int64)
    for part, span in ((tasks.gpu_type, 8), (tasks.plan_gpu, 1024), (tasks.size, 4096)):
        key = key * span + part[first]
    return key


def _roles(template: NDArray[np.int8]) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    kinds = [[role_names().index(role) for role in kind["roles"]] for kind in habits()["templates"]]
    lengths = np.array([len(kind) for kind in kinds])
    flat = np.concatenate([np.array(kind, dtype=np.int8) for kind in kinds])
    count = lengths[template]
    job = np.repeat(np.arange(len(template), dtype=np.int32), count)
    within = np.arange(len(job)) - np.repeat(np.cumsum(count) - count, count)
    return job, flat[np.repeat((np.cumsum(lengths) - lengths)[template], count) + within]


def _sizes(role: NDArray[np.int8], instances: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Gang sizes of the published mix; the roles that lean to gangs take the large ones."""
    leaning = np.array([traits.get("gang", -9.0) for traits in habits()["roles"].values()])[role]
    mix = habits()["gang_sizes"]
    weights = np.array(mix["instance_percent"]) / np.array(mix["size"])
    in_order = np.sort(np.repeat(np.array(mix["size"], dtype=np.int32), quotas(list(weights), len(role))))
    in_order = _with_total(in_order, instances)
    size = np.empty(len(role), dtype=np.int32)
    size[np.argsort(leaning + rng.normal(0.0, 1.0, len(role)), kind="stable")] = in_order
    size[leaning < -1.0] = 1
    return size


def _with_total(sizes: NDArray[np.int32], total: int) -> NDArray[np.int32]:
    """Sorted sizes with about this total. A small trace has no room for the largest gangs: fifties make up for it."""
    count = int(np.rint((total - sizes.sum()) / 49))
    ones, fifties = np.flatnonzero(sizes == 1), np.flatnonzero(sizes == 50)
    changed = sizes.copy()
    if count > 0:
        changed[ones[-count:]] = 50
    elif count < 0:
        changed[fifties[:-count]] = 1
    return np.sort(changed)


def _has_gpu(role: NDArray[np.int8], count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    need = np.array([traits["gpu"] for traits in habits()["roles"].values()])[role] + rng.random(len(role))
    has_gpu = np.zeros(len(role), dtype=bool)
    has_gpu[np.argsort(-need, kind="stable")[:count]] = True
    return has_gpu


def _gpu_types(
    job: NDArray[np.int32], size: NDArray[np.int32], has_gpu: NDArray[np.bool_], jobs: int, rng: np.random.Generator
) -> NDArray[np.int8]:
    """One GPU type a job, in the published shares of tasks; tasks without a GPU get their machine's."""
    wanted = np.array([published()["shares"]["gpu_type"][name] for name in GPU_TYPES])
    wanted = wanted / wanted.sum()
    large_mix = np.array([habits()["large_gang_gpu_type"][name] for name in GPU_TYPES], dtype=float)
    large_mix = large_mix / large_mix.sum()
    span = np.zeros(jobs, dtype=np.int64)
    np.maximum.at(span, job[has_gpu], size[has_gpu])
    is_large = span >= LARGE_GANG
    weight = np.bincount(job[has_gpu], minlength=jobs)
    share_large = weight[is_large].sum() / max(weight.sum(), 1)
    other_mix = np.maximum(wanted - share_large * large_mix, 0.0)
    kind = np.empty(jobs, dtype=np.int8)
    for chosen, mix in ((is_large, large_mix), (~is_large, other_mix)):
        kind[chosen] = deal(list(mix), span[chosen] + weight[chosen] * 0.1 + rng.random(int(chosen.sum())) * 0.05, rng)
    hosts = habits()["cpu_task_host"]
    cpu = np.array([TYPES.index(name) for name in hosts])[choose(list(hosts.values()), even(len(job), rng))]
    return np.where(has_gpu, kind[job], cpu).astype(np.int8)


def _crowding(gpu_type: NDArray[np.int8], wanted: NDArray[np.float64], gpus: NDArray[np.int64]) -> NDArray[np.float64]:
    """By how much (as a logarithm) a gang's GPUs exceed a quarter of their type's. A small trace has few machines but
    the gangs of the large one; those ask for slices, or they would not fit."""
    return np.log(np.maximum(wanted / (CROWDED_SHARE * np.maximum(gpus[gpu_type], 1)), 1.0))


def _plan_gpu(
    gpu_type: NDArray[np.int8],
    size: NDArray[np.int32],
    has_gpu: NDArray[np.bool_],
    gpus: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int32]:
    """% of a GPU per instance, in the published classes; expensive types ask for more, large gangs for slices."""
    shares = published()["shares"]["plan_gpu_class"]
    values: list[int] = []
    weights: list[float] = []
    for name, share in shares.items():
        options = habits()["plan_gpu_percent"][name]
        values += options["value"]
        weights += list(np.array(options["weight"]) / np.sum(options["weight"]) * share)
    gpu = np.flatnonzero(has_gpu)
    crowding = _crowding(gpu_type[gpu], size[gpu].astype(float), gpus)
    lean = np.array([0.15, 0.0, 0.3, 1.6, 2.0, 0.0])[gpu_type[gpu]] - 0.4 * np.log(size[gpu]) - 2.0 * crowding
    plan = np.zeros(len(size), dtype=np.int32)
    in_order = np.repeat(np.array(values), quotas(weights, len(gpu)))
    plan[gpu[np.argsort(lean + rng.normal(0.0, 1.0, len(gpu)), kind="stable")]] = in_order
    is_small_machine = (gpu_type == GPU_TYPES.index("T4")) | (gpu_type == GPU_TYPES.index("P100"))
    return np.where(is_small_machine, np.minimum(plan, 200), plan)


def plan_cpu_mem(tasks: Tasks, group: NDArray[np.int32], seed: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """% of a core and GB an instance asks for: the same throughout a group and role."""
    rng = generator(seed, 3)
    kind = group[tasks.job].astype(np.int64) * 16 + tasks.role
    _, index = np.unique(kind, return_inverse=True)
    kinds = int(index.max()) + 1
    cpu, mem = habits()["plan_cpu_percent"], habits()["plan_mem_megabytes"]
    plan_cpu = np.array(cpu["value"], dtype=np.int32)[choose(cpu["weight"], rng.permutation(even(kinds, rng)))]
    plan_mem = np.array(mem["value"])[choose(mem["weight"], rng.permutation(even(kinds, rng)))] / 1024
    return plan_cpu[index], plan_mem[index]


def waits(tasks: Tasks, seed: int) -> NDArray[np.int32]:
    """Whole seconds from a task's start to its first instance's, by GPU type."""
    rng = generator(seed, 4)
    score = rng.random(len(tasks))
    wait = np.zeros(len(tasks), dtype=np.int32)
    for code, name in enumerate(TYPES):
        chosen = np.flatnonzero((tasks.gpu_type == code) & (tasks.has_gpu | (code == CPU_TYPE)))
        wait[chosen] = np.rint(curve("wait_seconds", "MISC" if code == CPU_TYPE else name).value(ranks(score[chosen])))
    idle = np.flatnonzero(~tasks.has_gpu & (tasks.gpu_type != CPU_TYPE))
    wait[idle] = np.rint(curve("wait_seconds", "MISC").value(ranks(score[idle])))
    return wait
