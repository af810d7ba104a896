"""A small PAI trace made by hand, with the oddities of the real one, and what plain Python says of it."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

MACHINES = {"m0": ("T4", 96, 512, 2), "m1": ("MISC", 96, 512, 8), "m2": ("V100", 96, 384, 8)}


@dataclass
class Task:
    """A task of the trace made by hand, and what became of it."""

    name: str
    user: str
    group: str
    plan_cpu: float
    plan_gpu: float | None
    plan_mem: float
    gpu_type: str
    size: int
    status: str
    launched: int
    runs: list[tuple[str, int | None, int | None, str]] = field(default_factory=list)  # worker, start, end, machine
    sensors: dict[str, tuple[float, list[float], float]] = field(default_factory=dict)  # cpu, gpu by board, memory

    @property
    def wait(self) -> float | None:
        starts = [start for _, start, _, _ in self.runs if start]
        return min(starts) - self.launched if starts and min(starts) >= self.launched else None

    @property
    def run_seconds(self) -> float | None:
        ran = [end - start for _, start, end, _ in self.runs if start and end and end >= start]
        return mean(ran) if ran else None


def made_by_hand() -> list[Task]:
    dice = random.Random(5)
    tasks = []
    for number in range(120):
        plan_gpu = dice.choice([None, 10.0, 25.0, 50.0, 75.0, 100.0, 100.0, 200.0])
        kind = "" if plan_gpu is None else dice.choice(["T4", "MISC", "V100"])
        task = Task(
            name=f"j{number}",
            user=f"u{min(dice.randrange(9), dice.randrange(9))}",
            group=dice.choice(["", *(f"g{place}" for place in range(12))]),
            plan_cpu=dice.choice([100.0, 600.0, 600.0, 1800.0]),
            plan_gpu=plan_gpu,
            plan_mem=dice.choice([4.0, 29.296875, 58.59375]),
            gpu_type=kind,
            size=dice.choice([1, 1, 1, 2, 4, 10]),
            status=dice.choice(["Terminated", "Terminated", "Failed"]),
            launched=2_000_000 + dice.randrange(900_000),
        )
        for place in range(task.size):
            begin = task.launched + dice.choice([-3, 0, 2, 9, 60, 4000])
            start = None if dice.random() < 0.1 else begin
            end = None if dice.random() < 0.1 else begin + dice.choice([0, 5, 50, 500, 5000])
            worker, machine = f"w{number}.{place}", dice.choice(list(MACHINES))
            task.runs.append((worker, start, end, machine))
            if dice.random() < 0.1 and end:
                task.runs.append((worker, end, end + 100, machine))
            if dice.random() < 0.7:
                boards = [round(dice.choice([0.0, 1.5, 30.0, 90.0, 260.0]), 3) for _ in range(dice.choice([1, 1, 2]))]
                task.sensors[worker] = (dice.choice([50.0, 700.0]), boards, dice.choice([1.0, 20.0, 40.0]))
        tasks.append(task)
    return tasks


def write(folder: Path, tasks: list[Task]) -> None:
    folder.mkdir(exist_ok=True)
    rows: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        name, gpu_plan = task.name, "" if task.plan_gpu is None else task.plan_gpu
        rows["job_table"].append(f"{name},i{name},{task.user},{task.status},{task.launched - 1},{task.launched + 9999}")
        plan = f"{task.plan_cpu},{task.plan_mem},{gpu_plan},{task.gpu_type}"
        rows["task_table"].append(
            f"{name},worker,{task.size},{task.status},{task.launched},{task.launched + 9000},{plan}"
        )
        if task.group:
            rows["group_tag_table"].append(f"i{name},{task.user},,{task.group},")
        for worker, start, end, machine in task.runs:
            times = f"{'' if start is None else start},{'' if end is None else end}"
            rows["instance_table"].append(f"{name},worker,n{worker},{worker},i{name},Terminated,{times},{machine}")
            if start and end:
                rows["machine_metric"].append(f"{worker},{machine},{start},{end + 1},0.003,8,30,120,1,1,1,38")
        rows["instance_table"].append(f"{name},worker,waiting,,i{name},Waiting,,,")
        for worker, (cpu, boards, memory) in task.sensors.items():
            for board, used in enumerate(boards):
                sensed = f"{cpu},{used},{memory},{memory},0.5,0.5,{2**30},0,0,0"
                rows["sensor_table"].append(f"{name},worker,{worker},i{name},m0,/dev/nvidia{board},{sensed}")
    rows["machine_spec"] = [f"{machine},{','.join(map(str, spec))}" for machine, spec in MACHINES.items()]
    for table, lines in rows.items():
        (folder / f"pai_{table}.csv").write_text("".join(f"{line}\n" for line in lines))
