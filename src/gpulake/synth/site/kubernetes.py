"""The story as Kubernetes tells it: lists of pods, nodes, jobs and events, as a pull saves them.

A Slurm job is a Job of the namespace of its account, a run of it on a node is a pod. Finished pods are kept until the
next list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpulake.formats.prometheus import Labels
from gpulake.synth.site.activity import Part
from gpulake.synth.site.jobs import Request
from gpulake.synth.site.plan import Outage, Plan, Site, habits, iso
from gpulake.synth.site.schedule import History, Run, Unstarted
from gpulake.synth.site.snapshots import snapshots

Object = dict[str, Any]
KINDS = ("Pod", "Node", "Event", "Job")
QUEUE = "kueue.x-k8s.io/queue-name"
INDEX = "batch.kubernetes.io/job-completion-index"
# Exit code and reason of the container, and the reason of the pod. With a node, all pods of the run on it are lost.
ENDS = {
    "COMPLETED": (0, "Completed", ""),
    "FAILED": (1, "Error", ""),
    "OUT_OF_MEMORY": (137, "OOMKilled", ""),
    "CANCELLED": (143, "Error", ""),
    "TIMEOUT": (143, "Error", "DeadlineExceeded"),
    "PREEMPTED": (143, "Error", "Preempting"),
    "NODE_FAIL": (137, "Error", "NodeLost"),
}


def job_id(request: Request) -> str:
    """As the lake calls it: namespace, name and the begin of the uid."""
    return f"{request.account}/{_job_name(request)}/{_job_uid(request)[:8]}"


def pod_labels(part: Part) -> Labels:
    """What Prometheus makes of dcgm-exporter's labels when it finds the exporter through Kubernetes."""
    run = part.run
    pod = _pod_name(run, run.nodes.index(part.node))
    return (("exported_namespace", run.request.account), ("exported_pod", pod), ("exported_container", "main"))


def exporter_labels(node: str) -> Labels:
    return (("namespace", "gpu-operator"), ("pod", f"nvidia-dcgm-exporter-{node}"))


def lists(plan: Plan, history: History) -> Iterator[tuple[int, bytes]]:
    """A moment, and what is listed then."""
    waiting: list[Run | Unstarted] = sorted((*history.runs, *history.unstarted), key=lambda job: job.submitted_at)
    ended = sorted((run for run in history.runs if run.ended_at is not None), key=lambda run: run.ended_at or 0)
    last = 0
    for one in snapshots(plan, history):
        queued = [job for job in waiting if job.submitted_at <= one.second < _left_queue(job)]
        over = [run for run in ended if last < (run.ended_at or 0) <= one.second]
        last = one.second
        jobs = {job.request.number: job for job in (*queued, *over, *one.alive)}
        items = [
            {"apiVersion": "gpulake/v1", "kind": "Snapshot", "metadata": {"name": iso(one.second)},
             "spec": {"cluster": habits()["cluster"], "takenAt": iso(one.second), "kinds": KINDS, "namespaces": ["*"]}},
            *(_node(plan.site, node, one.second, one.outages.get(node), plan) for node in range(plan.site.nodes)),
            *(_job(job, one.second) for job in jobs.values()),
            *(_pod(plan.site, job, index, one.second)
              for job in (*queued, *over, *one.alive) for index in range(job.request.nodes)),
            *(_event(plan.site, outage) for outage in one.outages.values() if outage.state == "DOWN"),
        ]  # fmt: skip
        document = {"apiVersion": "v1", "items": items, "kind": "List"}
        yield one.second, json.dumps(document, separators=(",", ":")).encode()


def _left_queue(job: Run | Unstarted) -> float:
    moment = job.started_at if isinstance(job, Run) else job.ended_at
    return float("inf") if moment is None else moment


def _job_name(request: Request) -> str:
    return f"{request.name}-{request.job_id.replace('_', '-')}"


def _job_uid(request: Request) -> str:
    return f"{request.number:08d}-0000-4000-8000-000000000000"


def _pod_name(job: Run | Unstarted, index: int) -> str:
    return f"{_job_name(job.request)}-{index}-{job.attempt:05d}"


def _labels(request: Request) -> dict[str, str]:
    """A partition of Slurm is a queue of Kueue, one in every namespace."""
    return {"user": request.user, QUEUE: request.partition}


def _template(request: Request) -> Object:
    gpus = {"nvidia.com/gpu": str(request.gpus)} if request.gpus else {}
    asked = {"cpu": str(request.cores), "memory": f"{request.memory_gib}Gi", **gpus}
    return {"containers": [{"name": "main", "resources": {"limits": gpus, "requests": asked}}]}


def _job(job: Run | Unstarted, second: int) -> Object:
    request = job.request
    status: Object = {"active": request.nodes}
    if isinstance(job, Run) and job.ended_at is not None and job.ended_at <= second and job.state == "COMPLETED":
        ended = iso(job.ended_at)
        status = {"succeeded": request.nodes, "completionTime": ended,
                  "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": ended}]}  # fmt: skip
    made = {"creationTimestamp": iso(request.submitted_at), "labels": _labels(request)}
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": _job_name(request), "namespace": request.account, "uid": _job_uid(request), **made},
        "spec": {"parallelism": request.nodes, "completions": request.nodes,
                 "activeDeadlineSeconds": request.limit_seconds, "template": {"spec": _template(request)}},
        "status": status,
    }  # fmt: skip


def _pod(site: Site, job: Run | Unstarted, index: int, second: int) -> Object:
    request = job.request
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": _job_name(request), "uid": _job_uid(request),
             "controller": True}  # fmt: skip
    metadata: Object = {
        "name": _pod_name(job, index), "namespace": request.account,
        "uid": f"{request.number:08d}-{job.attempt:04d}-4000-9000-{index:012d}", "ownerReferences": [owner],
        "creationTimestamp": iso(job.submitted_at), "labels": {**_labels(request), INDEX: str(index)},
    }  # fmt: skip
    spec, status = _template(request), dict[str, Any](phase="Pending")
    if isinstance(job, Run) and job.started_at <= second:
        spec["nodeName"] = site.name(job.nodes[index])
        status = _status(job, second)
        if job.state == "CANCELLED" and job.ended_at is not None and job.ended_at <= second:
            metadata["deletionTimestamp"] = iso(job.ended_at)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _status(run: Run, second: int) -> Object:
    began = iso(run.started_at)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": began}
    status: Object = {"phase": "Running", "startTime": began, "conditions": [scheduled]}
    state: Object = {"running": {"startedAt": began}}
    if run.ended_at is not None and run.ended_at <= second:
        code, of_container, of_pod = ENDS[run.state]
        status |= {"phase": "Succeeded" if code == 0 else "Failed", **({"reason": of_pod} if of_pod else {})}
        ended = {"startedAt": began, "finishedAt": iso(run.ended_at), "exitCode": code, "reason": of_container}
        state = {"terminated": ended}
    return status | {"containerStatuses": [{"name": "main", "restartCount": 0, "state": state, "lastState": {}}]}


def _node(site: Site, node: int, second: int, outage: Outage | None, plan: Plan) -> Object:
    ends = [one.ended_at for one in plan.outages if one.node == node and one.state == "DOWN" and one.ended_at <= second]
    since, is_down = iso(max(ends, default=site.begins_at - 30 * 86_400)), False
    spec: Object = {}
    if outage is not None and outage.state == "DOWN":
        since, is_down = iso(outage.started_at), True
    elif outage is not None:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        spec = {"unschedulable": True, "taints": [{**taint, "timeAdded": iso(outage.started_at)}]}
    ready = {"type": "Ready", "status": "Unknown" if is_down else "True", "lastTransitionTime": since,
             "reason": "NodeStatusUnknown" if is_down else "KubeletReady"}  # fmt: skip
    labels = {"nvidia.com/gpu.product": site.board["name"].replace(" ", "-"), "nvidia.com/gpu.count": str(site.gpus)}
    return {
        "apiVersion": "v1", "kind": "Node", "spec": spec,
        "metadata": {"name": site.name(node), "uid": f"node-{node}", "labels": labels,
                     "creationTimestamp": iso(site.begins_at - 30 * 86_400)},
        "status": {"capacity": {"cpu": "192", "memory": "2Ti", "nvidia.com/gpu": str(site.gpus)},
                   "conditions": [ready]},
    }  # fmt: skip


def _event(site: Site, outage: Outage) -> Object:
    name, at = site.name(outage.node), iso(outage.started_at)
    return {
        "apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "NodeNotReady", "count": 1,
        "metadata": {"name": f"{name}.{outage.started_at:x}", "namespace": "default",
                     "uid": f"event-{name}-{outage.started_at:x}", "creationTimestamp": at},
        "involvedObject": {"kind": "Node", "name": name, "uid": f"node-{outage.node}"},
        "message": f"Node {name} status is now: NodeNotReady", "firstTimestamp": at, "lastTimestamp": at,
        "source": {"component": "node-controller"},
    }  # fmt: skip
