"""Objects of a Kubernetes API by hand, with the fields of its reference (core/v1, batch/v1, kubeflow.org/v1, Kueue)."""

from __future__ import annotations

import json
from typing import Any

Object = dict[str, Any]


def at(clock: str) -> str:
    """A time of the day of the story."""
    return f"2026-05-01T{clock}:00Z" if len(clock) == 5 else f"2026-05-01T{clock}Z"


def metadata(
    name: str, namespace: str = "", created: str = "10:00", owner: Object | None = None, **more: Any
) -> Object:
    found: Object = {"name": name, "uid": f"uid-{name}", "creationTimestamp": at(created), **more}
    if namespace:
        found["namespace"] = namespace
    if owner:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        named = {key: owner["metadata"][key] for key in ("name", "uid")}
        found["ownerReferences"] = [reference | named]
    return found


def containers(resources: Object) -> Object:
    return {"containers": [{"name": "main", "resources": {"limits": resources, "requests": resources}}]}


def gpus(count: int) -> Object:
    return {"nvidia.com/gpu": str(count)}


def condition(kind: str, status: str = "True", since: str = "10:00", **more: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": at(since), **more}


def pod(meta: Object, node: str, resources: Object, started: str = "", phase: str = "Running", **status: Any) -> Object:
    spec = containers(resources) | ({"nodeName": node} if node else {})
    found: Object = {"phase": phase, **status}
    if started:
        found |= {"startTime": at(started), "conditions": [condition("PodScheduled", since=started)]}
    if started and "containerStatuses" not in status:
        found["containerStatuses"] = [ran(started)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": found}


def ran(started: str, finished: str = "", code: int = 0, reason: str = "", last: Object | None = None) -> Object:
    state = _terminated(started, finished, code, reason) if finished else {"running": {"startedAt": at(started)}}
    return {"name": "main", "restartCount": 0 if last is None else 1, "state": state, "lastState": last or {}}


def _terminated(started: str, finished: str, code: int, reason: str) -> Object:
    ended = {"startedAt": at(started), "finishedAt": at(finished), "exitCode": code}
    return {"terminated": ended | {"reason": reason or ("Error" if code else "Completed")}}


def terminated(started: str, finished: str, code: int = 0, reason: str = "") -> Object:
    return _terminated(started, finished, code, reason)


def node(name: str, capacity: Object, ready: str = "True", since: str = "09:00", **spec: Any) -> Object:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"} if capacity else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels=labels) | {"creationTimestamp": "2026-04-01T00:00:00Z"},
        "spec": spec,
        "status": {
            "capacity": {"cpu": "96", "memory": "1Ti", **capacity},
            "conditions": [condition("Ready", ready, since)],
        },
    }


def job(meta: Object, resources: Object, parallelism: int = 1, **status: Any) -> Object:
    spec = {"parallelism": parallelism, "completions": parallelism, "template": {"spec": containers(resources)}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": status}


def event(name: str, reason: str, subject: Object, last: str, message: str, host: str = "") -> Object:
    named = {key: subject["metadata"].get(key, "") for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata(name, "default", last),
        "involvedObject": {"kind": subject["kind"], **named},
        "reason": reason,
        "message": message,
        "type": "Warning",
        "firstTimestamp": at(last),
        "lastTimestamp": at(last),
        "count": 1,
        "source": {"component": "kubelet", **({"host": host} if host else {})},
    }


def snapshot(taken: str, *objects: Object, namespaces: tuple[str, ...] = ("*",), cluster: str = "Zoo") -> str:
    """A file as a pull saves it."""
    kinds = ["Pod", "Node", "Event", "Job", "PyTorchJob", "Workload"]
    spec = {"cluster": cluster, "takenAt": at(taken), "kinds": kinds, "namespaces": list(namespaces)}
    head = {"apiVersion": "gpulake/v1", "kind": "Snapshot", "metadata": {"name": taken}, "spec": spec}
    return kubectl(head, *objects)


def kubectl(*objects: Object) -> str:
    """As kubectl prints a list."""
    return json.dumps({"apiVersion": "v1", "items": objects, "kind": "List"}, indent=4)
