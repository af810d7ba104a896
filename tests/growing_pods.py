"""Snapshots of a Kubernetes cluster that grow from day to day, and samples of its GPUs that name pods."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from typing import Any

from growing import BEGIN, DAYS, Job, Rows

HOURS = 3  # between two snapshots
GPUS = {"nvidia.com/gpu": "2"}
Object = dict[str, Any]


def pod_rows(seed: int) -> Rows:
    draw = random.Random(f"{seed} pods")
    jobs = [Job(1000 + day * 8 + number, day, draw) for day in range(DAYS) for number in range(8)]
    for day in range(DAYS):
        for hour in range(0, 24, HOURS):
            at = BEGIN + timedelta(days=day, hours=hour)
            yield day, f"d{day}/{hour}.json", json.dumps(_snapshot(at, jobs))
        running = [job for job in jobs if job.day in (day - 1, day)]
        for minute in range(0, 1440, 20):
            at = BEGIN + timedelta(days=day, minutes=minute)
            for job in (job for job in running if job.started_at <= at < job.ended_at):
                gpu, node = job.number // 4 % 8, f"g{job.number % 4}"
                labels = f'gpu="{gpu}",UUID="{node}-{gpu}",Hostname="{node}",namespace="lab"'
                busy = f'DCGM_FI_DEV_GPU_UTIL{{{labels},pod="{_name(job)}-x"}} {draw.choice([0, 0, 40, 90])}'
                yield day, f"d{day}/{node}.prom", f"{busy} {int(at.timestamp() * 1000)}"


def _name(job: Job) -> str:
    return f"train-{job.number}"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _snapshot(at: datetime, jobs: list[Job]) -> Object:
    """Of what ended, half is deleted at once, and the rest is listed for two days more."""
    listed = [
        job
        for job in jobs
        if job.submitted_at <= at < job.ended_at + (timedelta(days=2) if job.number % 2 else timedelta())
    ]
    spec = {
        "cluster": "zoo",
        "takenAt": _time(at),
        "kinds": ["Pod", "Node", "Event", "Job", "Workload"],
        "namespaces": ["*"],
    }
    head = {"apiVersion": "gpulake/v1", "kind": "Snapshot", "metadata": {"name": _time(at)}, "spec": spec}
    items = [head, *(_node(number, at) for number in range(4))]
    for job in listed:
        items += _job(job, at)
    return {"apiVersion": "v1", "items": items, "kind": "List"}


def _meta(name: str, at: datetime, owner: Object | None = None) -> Object:
    refs = [{"kind": owner["kind"], "controller": True, **owner["metadata"]}] if owner else []
    return {
        "name": name,
        "uid": f"{name[::-1]}-uid",
        "namespace": "lab",
        "creationTimestamp": _time(at),
        "ownerReferences": refs,
        "labels": {"user": "ann"},
    }


def _node(number: int, at: datetime) -> Object:
    is_down = number == 3 and at.day % 4 == 0 and 6 <= at.hour < 12
    since = at.replace(hour=6) if is_down else BEGIN
    ready = {"type": "Ready", "status": "False" if is_down else "True", "lastTransitionTime": _time(since)}
    meta = {"name": f"g{number}", "uid": f"node-{number}", "creationTimestamp": _time(BEGIN - timedelta(days=9))}
    has = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta | {"labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
        "status": {"capacity": has, "conditions": [ready]},
    }


def _job(job: Job, at: datetime) -> list[Object]:
    """A Job with a pod; of every fifth, the container restarts half-way; every third waits for GPUs."""
    name, is_over = _name(job), at >= job.ended_at
    spec: Object = {"containers": [{"name": "main", "resources": {"limits": GPUS}}]}
    is_bad = job.number % 4 == 0
    end = {"type": "Failed" if is_bad else "Complete", "status": "True", "lastTransitionTime": _time(job.ended_at)}
    owner: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**_meta(name, job.submitted_at)},
        "spec": {"parallelism": 1, "template": {"spec": spec}},
        "status": {"conditions": [end] if is_over else []},
    }
    reference = {"kind": "Job", "metadata": {key: owner["metadata"][key] for key in ("name", "uid")}}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(f"{name}-x", job.submitted_at, reference),
        "spec": spec,
        "status": {"phase": "Pending", "conditions": []},
    }
    if at < job.started_at:
        why = {"reason": "Unschedulable", "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."}
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", **why}]
        return [owner, pod]
    pod["spec"] = spec | {"nodeName": f"g{job.number % 4}"}
    half = job.started_at + (job.ended_at - job.started_at) / 2
    is_again = job.number % 5 == 0 and at >= half
    begun: Object = {"startedAt": _time(half if is_again else job.started_at)}
    killed = {"startedAt": _time(job.started_at), "finishedAt": _time(half), "exitCode": 1, "reason": "Error"}
    code = {"exitCode": int(is_bad), "reason": "Error" if is_bad else "Completed"}
    state = {"terminated": begun | code | {"finishedAt": _time(job.ended_at)}} if is_over else {"running": begun}
    pod["status"] = {
        "phase": ("Failed" if is_bad else "Succeeded") if is_over else "Running",
        "startTime": _time(job.started_at),
        "containerStatuses": [
            {"name": "main", "state": state, "lastState": {"terminated": killed} if is_again else {}, "restartCount": 0}
        ],
    }
    if not is_bad or is_over:
        return [owner, pod]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": _meta(f"{name}-event", at),
        "involvedObject": {"kind": "Pod", "name": f"{name}-x", "uid": pod["metadata"]["uid"]},
        "reason": "Killing",
        "message": "Stopping container main",
        "type": "Normal",
        "lastTimestamp": _time(at),
    }
    return [owner, pod, event]
