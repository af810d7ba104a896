"""Tasks: number of instances, requests, waits and run times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.synth.draws import choose, deal, even, generator, quotas, ranks
from gpulake.synth.facts import CPU_TYPE, GPU_TYPES, TYPES, curve, habits, scaled
from gpulake.synth.placement import Machines

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
