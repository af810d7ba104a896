"""A million jobs under three policies on one core, beside simpy and a plain heap that count GPUs only."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.data import Bench
from bench.lines import Line
from bench.measure import BenchError, environment

JOBS = 1_000_000
PEER_JOBS = 20_000
MACHINES, GPUS = 813, 8
BARS = {"fifo": 3.0, "easy": 5.0, "best_fit": 5.0}
MOST_MEBIBYTES = 1024
# Nine jobs of ten are of one machine; runs of some hours; submitted as fast as nine tenths of the GPUs can take them.
CASE = f"""
import heapq, json, resource, sys, time
import numpy as np

def case(size, seed):
    draw = np.random.default_rng(seed)
    gpus = draw.choice([1, 2, 4, 8, 16, 32, 64], size, p=[0.55, 0.1, 0.1, 0.15, 0.05, 0.03, 0.02])
    work = np.clip(draw.lognormal(8, 1.5, size), 10, 400_000).astype(np.int64)
    rate = 0.9 * {MACHINES * GPUS} / (gpus * work).mean()
    return np.cumsum(draw.exponential(1 / rate, size)).astype(np.int64), gpus, work

submit, gpus, work = case(int(sys.argv[2]), int(sys.argv[3]))
"""
OURS = (
    CASE
    + f"""
from gpulake.replay.policies import POLICIES
from gpulake.replay.simulation import simulate
from gpulake.replay.trace import Machines, Trace

def outcome(size):
    count, part = np.maximum(gpus // {GPUS}, 1), np.minimum(gpus, {GPUS}) * 1000
    trace = Trace.of(submit[:size], count[:size], part[:size], work[:size])
    return simulate(trace, Machines.of(np.full({MACHINES}, {GPUS})), POLICIES.get(sys.argv[1]))

outcome(100)  # compiles
begin = time.process_time()
started = int((outcome(len(submit)).start >= 0).sum())
spent = time.process_time() - begin
print(json.dumps([spent, started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
)
SIMPY = (
    CASE
    + f"""
import simpy
env = simpy.Environment()
free = simpy.Container(env, {MACHINES * GPUS}, {MACHINES * GPUS})
started = 0

def job(number):
    global started
    yield env.timeout(int(submit[number]))
    yield free.get(int(gpus[number]))
    started += 1
    yield env.timeout(int(work[number]))
    yield free.put(int(gpus[number]))

begin = time.process_time()
for number in range(len(submit)):
    env.process(job(number))
env.run()
print(json.dumps([time.process_time() - begin, started, 0]))
"""
)
HEAP = (
    CASE
    + f"""
jobs, ends, now, free, started = list(zip(submit.tolist(), gpus.tolist(), work.tolist())), [], 0, {MACHINES * GPUS}, 0
begin = time.process_time()
for at, needs, lasts in jobs:
    now = max(now, at)
    while ends and (ends[0][0] <= now or free < needs):
        end, held = heapq.heappop(ends)
        now, free = max(now, end), free + held
    free, started = free - needs, started + 1
    heapq.heappush(ends, (now + lasts, needs))
print(json.dumps([time.process_time() - begin, started, 0]))
"""
)


def whatif(bench: Bench) -> Iterator[Line]:
    folder = bench.folder("whatif")
    for policy, bar in BARS.items():
        spent, mebibytes = _simulated(OURS, folder, policy, JOBS, bench.seed)
        yield Line(f"{JOBS:,} jobs on {MACHINES * GPUS:,} GPUs, {policy}: CPU time", spent, "s", bar)
        yield Line(
            f"{JOBS:,} jobs on {MACHINES * GPUS:,} GPUs, {policy}: peak memory", mebibytes, "MiB", MOST_MEBIBYTES
        )
    for peer, script, size in (("simpy", SIMPY, PEER_JOBS), ("plain heap", HEAP, JOBS)):
        spent, _ = _simulated(script, folder, "fifo", size, bench.seed)
        yield Line(f"first in, first out, {peer}, GPUs only: jobs per CPU-second", size / spent, "", kind="peer")
    shutil.rmtree(folder)


def _simulated(script: str, folder: Path, policy: str, size: int, seed: int) -> tuple[float, float]:
    """CPU seconds of the simulation and peak memory of its process; all jobs must have started."""
    command = [sys.executable, "-c", script, policy, str(size), str(seed)]
    done = subprocess.run(
        command, cwd=folder, env=environment({}), capture_output=True, text=True, check=True
    ).stdout.splitlines()[-1]
    spent, started, mebibytes = json.loads(done)
    if started != size:
        raise BenchError(f"{policy}: {started} of {size} jobs started")
    return spent, mebibytes
