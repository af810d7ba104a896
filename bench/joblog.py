"""A log such as a job of 1,024 ranks writes before it dies: mostly metrics, then the cause, and its cascades."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

RANKS = 1024
GPUS = 8
FAILED_RANK = 417
_WARNINGS = (
    "[default{gpu}]:[rank{rank}]:[W{step:010d} reducer.cpp:1399] Warning: every parameter had a gradient, so that"
    " the search for those without one in step {step} was for nothing; it can be switched off (reducer)",
    "[default{gpu}]:[rank{rank}]: UserWarning: gradient bucket view strides {a} do not match {b}; this may impair"
    " performance of step {step}",
    "{at},{a:03d} - node{node:04d} - INFO - dataloader worker {gpu} prefetched shard {a:05d}-of-08192 in {time:.2f} s"
    " ({b} samples)",
    "{at},{a:03d} - node{node:04d} - INFO - [rank{rank}] checkpoint shard {a} of {b} written to"
    " /lustre/ckpt/iter_{step:07d}/mp_rank_{gpu:02d} in {time:.1f} s",
)
_NCCL = (
    "node{node:04d}:{pid}:{pid} [{gpu}] NCCL INFO Channel {a:02d}/0 : {rank}[{gpu}] -> {next}[{gpu}] [send] via"
    " NET/IB/{gpu}/GDRDMA",
    "node{node:04d}:{pid}:{pid} [{gpu}] NCCL INFO comm 0x{word:012x} rank {rank} nranks 1024 cudaDev {gpu} busId"
    " {a}b000 - Init COMPLETE",
    "node{node:04d}:{pid}:{pid} [{gpu}] NCCL INFO NET/IB : Using [{gpu}]mlx5_{gpu}:1/IB/SHARP [RO];"
    " OOB bond0:10.0.{a}.{gpu}<0>",
)
TIMERS_EVERY = 10
_TIMERS = (
    "forward-backward",
    "forward-compute",
    "backward-compute",
    "grads-all-reduce",
    "optimizer-inner-step",
    "optimizer",
)


def write_log(path: Path, size: int, seed: int = 0) -> None:
    """At least so many bytes, and what the ranks say as they die; of a small log there are fewer."""
    ranks = RANKS if size >= 64 << 20 else 4 * GPUS
    with path.open("wb", buffering=1 << 20) as out:
        written = 0
        for lines in _story(random.Random(seed), ranks):
            written += out.write("\n".join(lines).encode() + b"\n")
            if written >= size:
                break
        out.write("\n".join(_death(ranks)).encode() + b"\n")


def _story(chance: random.Random, ranks: int) -> Iterator[list[str]]:
    for rank in range(ranks):
        words = {"rank": rank, "next": (rank + 1) % ranks, **_place(rank), "pid": 10_000 + rank}
        yield [_NCCL[place % 3].format(a=place, word=chance.getrandbits(47), **words) for place in range(30)]
    step = 0
    while True:
        step += 1
        yield _iteration(step, chance)


def _iteration(step: int, chance: random.Random) -> list[str]:
    at = f"2024-05-{step // 86400 % 28 + 1:02d} {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
    uniform = chance.random
    lines = [
        f" [{at}] iteration {step:8d}/ 1000000 | consumed samples: {step * 2048:12d} | elapsed time per iteration (ms):"
        f" {5000 + 100 * uniform():.1f} | throughput per GPU (TFLOP/s/GPU): {400 + 9 * uniform():.1f} | learning rate:"
        f" {1e-4 * uniform():.6E} | global batch size:  2048 | lm loss: {2 + uniform():.6E} | loss scale: 1.0 |"
        f" grad norm: {uniform():.3f} | num zeros: {chance.randrange(10**6)} | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |",
    ]
    if step % TIMERS_EVERY == 0:
        lines.append("(min, max) time across ranks (ms):")
        lines += [f"    {name:.<40}: ({900 * uniform():.2f}, {999 * uniform():.2f})" for name in _TIMERS]
    for _ in range(12):
        rank = chance.randrange(RANKS)
        text = _WARNINGS[int(uniform() * 3.05)]
        lines.append(
            text.format(
                rank=rank,
                step=step,
                **_place(rank),
                a=chance.randrange(8192),
                b=chance.randrange(8192),
                time=9 * uniform(),
                at=at,
            )
        )
    return lines


def _place(rank: int) -> dict[str, int]:
    return {"node": rank // GPUS, "gpu": rank % GPUS}


def _death(ranks: int) -> Iterator[str]:
    failed = min(FAILED_RANK, ranks - 1)
    frames = [
        f'  File "/workspace/megatron/{name}.py", line {100 + place}, in {name}'
        for place, name in enumerate(("pretrain_gpt", "training", "schedules", "transformer", "attention", "layers"))
    ]
    yield f"[rank{failed}]: Traceback (most recent call last):"
    yield from (f"[rank{failed}]: {frame}" for frame in frames)
    yield f"[rank{failed}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
    for rank in range(ranks):
        if rank == failed:
            continue
        yield (
            f"[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout:"
            " WorkNCCL(SeqNum=77, OpType=ALLREDUCE) ran for 600012 milliseconds before timing out."
        )
        yield f"[rank{rank}]: Traceback (most recent call last):"
        yield from (f"[rank{rank}]: {frame}" for frame in frames)
        yield f"[rank{rank}]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank {rank}."
    yield "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    yield f"srun: error: node{failed // GPUS:04d}: task {failed // GPUS}: Exited with exit code 1"
