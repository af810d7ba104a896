"""A collective over the GPUs of a few nodes, as a test of them: it fails if one is faulty, slow, or sums wrongly.

    srun -w n1,n2 -N 2 --ntasks-per-node=8 python bandwidth.py --least-gigabytes-per-second 100
    torchrun --nproc-per-node=8 bandwidth.py

One file that needs Python and PyTorch alone, so that it can be copied into a job's image: NCCL on NVIDIA's GPUs, RCCL
on AMD's, Gloo without a GPU. The bandwidth is nccl-tests' bus bandwidth of an all-reduce: 2 (n - 1) / n times the bytes
by the time.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

PORT = 29_581
_FIRST_HOST = re.compile(r"([^,\[]+)(?:\[(\d+))?")


@dataclass(frozen=True)
class Place:
    """Of this process among all."""

    rank: int
    size: int
    local_rank: int
    host: str  # of rank 0
    port: int


def place_of(environment: Mapping[str, str]) -> Place:
    """As torchrun or srun says; alone where neither does."""
    if "RANK" in environment:
        rank, size, local_rank = (int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        port = int(environment["MASTER_PORT"])
        return Place(rank, size, local_rank, environment["MASTER_ADDR"], port)
    if "SLURM_PROCID" in environment:
        names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
        rank, size, local_rank = (int(environment[name]) for name in names)
        # Two tests may share a node, one after the other: each step has a port of its own.
        step = int(environment.get("SLURM_STEP_ID", "0"))
        nodes = environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"]
        return Place(rank, size, local_rank, first_host(nodes), PORT + step % 1_000)
    return Place(0, 1, 0, "127.0.0.1", PORT)


def first_host(nodes: str) -> str:
    """n3 of n[3-5,9], and n1 of n1,n2."""
    found = _FIRST_HOST.match(nodes)
    if found is None:
        raise ValueError(f"{nodes!r} is no list of nodes")
    return found[1] + (found[2] or "")


def measure(place: Place, megabytes: float, times: int, seconds: float) -> tuple[float, str]:
    """The slowest rank's bus bandwidth in GB/s, and the name of the backend. Raises where a sum is wrong."""
    import torch
    from torch import distributed

    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", place.local_rank % torch.cuda.device_count()) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    backend = "nccl" if has_gpu else "gloo"
    distributed.init_process_group(
        backend,
        init_method=f"tcp://{place.host}:{place.port}",
        rank=place.rank,
        world_size=place.size,
        device_id=device if has_gpu else None,
        timeout=timedelta(seconds=seconds),
    )
    try:
        count = max(1, int(megabytes * 1e6 / 4))
        taken = [_all_reduce(torch, distributed, device, count, place) for _ in range(times + 1)][
            1:
        ]  # the first warms up
        slowest = torch.tensor([sorted(taken)[len(taken) // 2]], device=device)
        distributed.all_reduce(slowest, op=distributed.ReduceOp.MAX)
        factor = 2 * (place.size - 1) / place.size if place.size > 1 else 1.0
        return factor * count * 4 / float(slowest.item()) / 1e9, backend
    finally:
        distributed.destroy_process_group()


def _all_reduce(torch: Any, distributed: Any, device: Any, count: int, place: Place) -> float:
    values = torch.arange(count, device=device, dtype=torch.float32).remainder_(1024.0).add_(float(place.rank))
    wanted = torch.arange(count, device=device, dtype=torch.float32).remainder_(1024.0)
    wanted.mul_(float(place.size)).add_(place.size * (place.size - 1) / 2)
    distributed.barrier()
    _finish(torch, device)
    begin = time.perf_counter()
    distributed.all_reduce(values)
    _finish(torch, device)
    seconds = time.perf_counter() - begin
    if wrong := int((values != wanted).sum().item()):
        raise RuntimeError(f"{wrong:,} of {count:,} sums are wrong on rank {place.rank}, {device}")
    return seconds


def _finish(torch: Any, device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description="All-reduce over the GPUs of a few nodes; exits with 1 if one is faulty."
    )
    parser.add_argument("--least-gigabytes-per-second", type=float, default=0.0, help="Fail below this bus bandwidth.")
    parser.add_argument("--megabytes", type=float, default=256.0, help="That each rank sums.")
    parser.add_argument("--times", type=int, default=10, help="The median counts.")
    parser.add_argument("--seconds", type=float, default=120.0, help="A rank that waits longer for another fails.")
    given = parser.parse_args(arguments)
    place = place_of(os.environ)
    try:
        found, backend = measure(place, given.megabytes, given.times, given.seconds)
    except RuntimeError as error:  # torch's own are derived from it
        sys.stderr.write(f"rank {place.rank} of {place.size}: {error}\n")
        return 1
    if place.rank == 0:
        sys.stdout.write(f"{backend}, {place.size} ranks: {found:.2f} GB/s\n")
    if found < given.least_gigabytes_per_second:
        sys.stderr.write(f"{found:.2f} GB/s, and at least {given.least_gigabytes_per_second:g} are wanted\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
