"""Files of every source that grow from day to day: rows that come late, jobs whose state changes."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

DAYS = 12
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
LATE = 0.03  # of the rows come with a later day's file
SLURM = "JobID|JobIDRaw|JobName|User|Account|Cluster|State|Submit|Eligible|Start|End|NNodes|ReqCPUS|ReqMem|ReqTRES|"
TIMES = "state,submit_time,start_time,end_time,duration,queue"
HEADERS = {
    "sacct.txt": f"{SLURM}AllocTRES|NodeList|TRESUsageInAve",
    "seren.csv": f"job_id,user,node_num,gpu_num,cpu_num,type,{TIMES},gpu_time",
    "Venus/cluster_log.csv": f"job_id,user,vc,gpu_num,cpu_num,node_num,{TIMES}",
    "openb_pod_list_default.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time",
    "checkpoints.csv": "cluster,job,saved_at",
    "outages.csv": "cluster,machine,started_at,ended_at,reason",
}
# What there is from the first day on: inventories, of which new ones lead to a full build.
INVENTORIES = {
    "machines.csv": "cluster,machine,gpu_type,gpus,cores,memory_gib\n"
    + "".join(f"Tiger,g{number},h100,8,64,512\n" for number in range(4)),
    "Venus/cluster_gpu_number.csv": "date,vcA,total\n2026-03-01,64,64\n",
    "openb_node_list_all_node.csv": "sn,cpu_milli,memory_mib,gpu,model\nnode-0,64000,262144,8,V100M32\n",
    "cluster_machine_list.csv": "machineId, number of GPUs, single GPU mem\nm1, 8, 24GB\nm2, 8, 24GB\n",
}


@dataclass
class Job:
    """Submitted at an hour of a day; over on the same day or, one in four, on the next."""

    number: int
    day: int
    draw: random.Random
    submitted_at: datetime = field(init=False)
    started_at: datetime = field(init=False)
    ended_at: datetime = field(init=False)

    def __post_init__(self) -> None:
        minutes = self.draw.randrange(0, 80) * 15
        self.submitted_at = BEGIN + timedelta(days=self.day, minutes=minutes)
        self.started_at = self.submitted_at + timedelta(minutes=15 * self.draw.randrange(0, 3))
        self.ended_at = self.started_at + timedelta(minutes=15 * self.draw.randrange(1, 16))
        if self.draw.random() < 0.25:
            self.ended_at += timedelta(hours=20)

    @property
    def is_over(self) -> bool:
        return self.ended_at < BEGIN + timedelta(days=self.day + 1)

    @property
    def state(self) -> str:
        return self.draw.choice(["COMPLETED", "COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED", "PREEMPTED"])


Rows = Iterator[tuple[int, str, str]]  # the day on which it comes, the file, the row


def slurm(job: Job) -> Rows:
    def row(name: str, raw: str, state: str, start: str, end: str, use: str = "") -> str:
        node, tres = f"g{job.number % 4}", f"cpu=8,gres/gpu={1 + job.number % 4}"
        submit = f"{job.submitted_at:%Y-%m-%dT%H:%M:%S}"
        return (
            f"{name}|{raw}|train{job.number % 3}|ann|math|Tiger|{state}|{submit}|{submit}|{start}|{end}|1|8|8G|"
            f"{tres}|{tres}|{node}|{use}"
        )

    begin, end, is_array = (
        f"{job.started_at:%Y-%m-%dT%H:%M:%S}",
        f"{job.ended_at:%Y-%m-%dT%H:%M:%S}",
        job.number % 5 == 0,
    )
    # The first task of each array waits with the rest of it on the first day; the last one takes the array's number.
    name, raw = (f"{job.number}_1", f"{job.number}") if is_array else (f"{job.number}", f"{job.number}")
    if not job.is_over:
        waiting = row(f"{job.number}_[1-2]", f"{job.number}", "PENDING", "Unknown", "Unknown")
        yield job.day, "sacct.txt", waiting if is_array else row(name, raw, "RUNNING", begin, "Unknown")
    last = job.day + (not job.is_over)
    yield last, "sacct.txt", row(name, raw, job.state, begin, end)
    yield (
        last,
        "sacct.txt",
        row(f"{name}.0", f"{raw}.0", "COMPLETED", begin, end, f"gres/gpuutil={25 * (job.number % 4)}"),
    )
    if job.number % 6 == 0:
        yield last, "checkpoints.csv", f"Tiger,{name},{job.started_at + timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}"
    if job.number % 20 == 0:
        at = f"{job.ended_at:%Y-%m-%dT%H:%M:%SZ}"
        yield last, "outages.csv", f"Tiger,g3,{at},{job.ended_at + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ},disk"


def acme(job: Job) -> Rows:
    submit, begin, end = (f"{at:%Y-%m-%d %H:%M:%S}+00:00" for at in (job.submitted_at, job.started_at, job.ended_at))
    words = f"{job.number},u{job.number % 3},1,{job.number % 9},8,SFT"
    if not job.is_over:
        yield job.day, "seren.csv", f"{words},RUNNING,{submit},{begin},,0,0,0"
    yield job.day + (not job.is_over), "seren.csv", f"{words},{job.state},{submit},{begin},{end},0,0,0"


def helios(job: Job) -> Rows:
    submit, begin, end = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (job.submitted_at, job.started_at, job.ended_at))
    words = f"{job.number},u{job.number % 3},vcA,{job.number % 5},8,1"
    yield job.day + (not job.is_over), "Venus/cluster_log.csv", f"{words},{job.state},{submit},{begin},{end},0,0"


def philly(job: Job) -> Rows:
    begin, end = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (job.started_at, job.ended_at))
    first = {"start_time": begin, "end_time": begin, "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}
    machines = [{"ip": f"m{1 + number}", "gpus": ["gpu0", "gpu1"]} for number in range(1 + job.number % 2)]
    then = {"start_time": begin, "end_time": end, "detail": machines}
    words = {
        "vc": "v",
        "jobid": f"p{job.number}",
        "user": "u",
        "submitted_time": f"{job.submitted_at:%Y-%m-%d %H:%M:%S}",
    }
    if not job.is_over:
        yield job.day, "cluster_job_log.json", json.dumps(words | {"status": "Failed", "attempts": [first]})
    log = words | {"status": "Pass", "attempts": [*([first] if job.number % 3 == 0 else []), then]}
    yield job.day + (not job.is_over), "cluster_job_log.json", json.dumps(log)


def openb(job: Job) -> Rows:
    create, begin, end = (int((at - BEGIN).total_seconds()) for at in (job.submitted_at, job.started_at, job.ended_at))
    phase = "Failed" if job.number % 4 == 0 else "Succeeded"
    row = f"pod{job.number},6000,12288,1,{250 * (1 + job.number % 4)},,LS,{phase},{create},{end},{begin}"
    yield job.day + (not job.is_over), "openb_pod_list_default.csv", row


def telemetry_rows(seed: int) -> Rows:
    """Two nodes of the collector and of exporters, by turns silent for days; a board cut in two; a GPU that two sources
    see; a process that comes and goes."""
    draw = random.Random(seed)
    for day in range(DAYS):
        for number in range(40):
            at = BEGIN + timedelta(
                days=day, minutes=5 * number + (1080 if number > 20 else 0), seconds=draw.randrange(9)
            )
            for node in ("n1", "n2"):
                if node == "n2" and 3 < day < 8:
                    continue
                yield from _collected(
                    draw, day, node, {"ts_ms": int(at.timestamp() * 1000), "node": node, "host_id": node}
                )
            if number % 2:
                yield from _scraped(draw, day, number, at)


def _collected(draw: random.Random, day: int, node: str, words: dict[str, object]) -> Rows:
    def row(file: str, **values: object) -> tuple[int, str, str]:
        return day, f"{node}/{file}.jsonl", json.dumps(words | values)

    for gpu in range(2):
        owner = {"owner_kind": "slurm", "owner_id": str(1000 + draw.randrange(5))} if draw.random() < 0.5 else {}
        watts, celsius = float(draw.randrange(50, 300)), float(draw.randrange(30, 99))
        yield row(
            "gpu_metrics", gpu_uuid=f"{node}-GPU{gpu}", gpu_index=gpu, gpu_name="H100",
            gpu_busy_ratio=draw.randrange(5) / 4, power_watts=watts, temperature_celsius=celsius,
            clock_event_reasons=draw.choice([0, 4, 64]), ecc_corrected_total=day, **owner,
        )  # fmt: skip
    if draw.random() < 0.5:
        yield row("gpu_metrics", gpu_uuid=f"{node}-MIG", gpu_index=0, parent_uuid=f"{node}-GPU0", power_watts=watts)
    yield row("gpu_processes", gpu_uuid=f"{node}-GPU0", pid=draw.randrange(7, 9), memory_used_bytes=4096)
    yield row("host_metrics", cpu_util=float(draw.randrange(100)), mem_free_mb=2.0)
    yield row("link_metrics", link=f"{node}.nic", rx_Bps=8.0, tx_Bps=float(draw.randrange(9)))
    yield row("proc_metrics", pid=draw.randrange(7, 9), utime=100 + day, stime=0, rss_kb=4)


def _scraped(draw: random.Random, day: int, number: int, at: datetime) -> Rows:
    """A page of node_exporter, now and then, and the day's page of dcgm-exporter that names pods, with their times."""
    ms, file = int(at.timestamp() * 1000), f"d{day}/dcgm.prom"
    labels = 'gpu="{}",UUID="{}",Hostname="{}",modelName="H100"'
    pod = ',pod="p",namespace="lab"' if draw.random() < 0.2 else ""
    for gpu in ((1, "n1-GPU1", "n1"), (0, "g9-GPU0", "g9")):
        yield day, file, f"DCGM_FI_DEV_GPU_UTIL{{{labels.format(*gpu)}{pod}}} {draw.randrange(100)} {ms}"
        yield day, file, f"DCGM_FI_DEV_GPU_TEMP{{{labels.format(*gpu)}{pod}}} {draw.randrange(30, 99)} {ms}"
    if number % 4 == 3:
        return
    node = f"d{day}/q{number}.prom"
    yield day, node, 'node_uname_info{nodename="web01"} 1'
    yield day, node, f"node_time_seconds {ms / 1000}"
    yield day, node, f'node_cpu_seconds_total{{cpu="0",mode="idle"}} {ms // 1000}'
    yield day, node, f'node_cpu_seconds_total{{cpu="0",mode="user"}} {ms // 2000}'
    yield day, node, f'node_network_receive_bytes_total{{device="eth0"}} {ms}'
    yield day, node, "node_load1 0.5"


JOBS: dict[str, Callable[[Job], Rows]] = {
    "slurm": slurm, "acme": acme, "helios": helios, "philly": philly, "openb": openb
}  # fmt: skip


def job_rows(seed: int, jobs_a_day: int = 8) -> Rows:
    for name, rows in JOBS.items():
        draw = random.Random(f"{seed} {name}")
        for day in range(DAYS):
            for number in range(jobs_a_day):
                yield from rows(Job(1000 + day * jobs_a_day + number, day, draw))


def site_rows(seed: int) -> Rows:
    """Jobs of Slurm of which only GPU samples say what they used; some samples name the job."""
    draw = random.Random(f"{seed} site")
    for day in range(DAYS):
        jobs = [Job(1000 + day * 8 + number, day, draw) for number in range(8)]
        for job in jobs:
            yield from ((at, file, row) for at, file, row in slurm(job) if "gpuutil" not in row)
        for number, node in itertools.product(range(72), range(4)):
            at = BEGIN + timedelta(days=day, minutes=20 * number, seconds=draw.randrange(60))
            for gpu in range(4):
                labels = f'gpu="{gpu}",UUID="g{node}-{gpu}",Hostname="g{node}"'
                if gpu == 0:
                    labels += f',hpc_job="{draw.choice(jobs).number}"'
                busy, ms = draw.choice([0, 0, 40, 90]), int(at.timestamp() * 1000)
                yield day, f"d{day}/g{node}.prom", f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {busy} {ms}"


def write_steps(folder: Path, rows: Rows, seed: int, cuts: tuple[int, ...]) -> list[Path]:
    """A folder for each step: all days up to the first cut, then those up to the next."""
    draw = random.Random(seed)
    steps: list[dict[str, list[str]]] = [{} for _ in cuts]
    for day, file, row in rows:
        step = next((number for number, cut in enumerate(cuts) if day < cut), len(cuts) - 1)
        # A page is a whole.
        if not file.endswith(".prom") and draw.random() < LATE:
            step = draw.randrange(step, len(cuts))
        steps[step].setdefault(file, []).append(row)
    folders = []
    for number, files in enumerate(steps):
        base = folder / str(number)
        for name, lines in files.items():
            _write(base / name, lines)
        if number == 0:
            for name, content in INVENTORIES.items():
                _write(base / name, [content.rstrip("\n")], header="")
        folders.append(base)
    return folders


def _write(path: Path, lines: list[str], header: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name == "cluster_job_log.json":
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    else:
        first = HEADERS.get(path.name, HEADERS.get(f"{path.parent.name}/{path.name}", "")) if header is None else header
        path.write_text("\n".join([*([first] if first else []), *lines]) + "\n")
    os.utime(path, (BEGIN.timestamp(),) * 2)
