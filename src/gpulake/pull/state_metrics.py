"""Pods and nodes as kube-state-metrics told them to a Prometheus, for those who may not ask the Kubernetes API.

What the server knows at a step of time becomes a snapshot, in the form in which `pull kubernetes` saves one. TAKEN
has the metrics.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from gpulake.formats.kubernetes_gpus import words
from gpulake.formats.query_range import Series
from gpulake.pull import PULLS, Desk, Piece, Span
from gpulake.pull.kubernetes import END, write_head
from gpulake.pull.past import Past
from gpulake.pull.prometheus import PrometheusPull

PREFIX = "label_"
# kube-state-metrics writes an underscore for all that a label may not have.
_MIG = re.compile(r"nvidia_com_mig_(\d+g)_(\d+gb)")
Object = dict[str, Any]
Key = tuple[str, ...]  # of a pod: namespace and name; of a node: its name


@PULLS.register("state_metrics")
@dataclass(frozen=True)
class StateMetricsPull:
    url: str
    cluster: str = "kubernetes"
    step: timedelta = timedelta(minutes=5)
    match: str = ""  # such as cluster="tiger": further conditions of every series
    ca_file: Path | None = None
    timeout_seconds: float = 120.0
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    name: str = "state_metrics"

    def __post_init__(self) -> None:
        _ = self._prometheus

    @property
    def address(self) -> str:
        return self._prometheus.address

    @property
    def scope(self) -> str:
        return f"{self.cluster} {self.match}".strip()

    @property
    def overlap(self) -> timedelta:
        return timedelta()

    @property
    def _prometheus(self) -> PrometheusPull:
        return PrometheusPull(self.url, self.step, "", self.ca_file, self.timeout_seconds, environment=self.environment)

    def pieces(self, span: Span, desk: Desk) -> Iterator[Piece]:
        yield from Past(self._prometheus, {*TAKEN, *LABELLED}, self.match).pieces(span, desk, self._write)

    def _write(self, told: Iterable[Series], at: datetime, folder: Path) -> Path | None:
        objects = _Objects()
        for series in told:
            objects.take(series)
        found = objects.found()
        if not found:
            return None
        file = folder / f"{at:%Y%m%dT%H%M%SZ}.json"
        with file.open("w", encoding="utf-8") as out:
            write_head(out, self.cluster, at, ("Pod", "Node"), ("*",))
            out.writelines(f",\n{json.dumps(one)}" for one in found)
            out.write(END)
        return file


class _Objects:
    def __init__(self) -> None:
        self._pods: defaultdict[Key, Object] = defaultdict(_empty)
        self._nodes: defaultdict[Key, Object] = defaultdict(_empty)

    def take(self, series: Series) -> None:
        # A label of the exporter's own target wins where Prometheus was told nothing else.
        exported = ((name.partition("exported_")[2], value) for name, value in series.labels.items())
        labels = series.labels | {name: value for name, value in exported if name}
        value = float(series.values[0][1])
        subject = self._pods if series.metric.startswith("kube_pod_") else self._nodes
        key = (
            (labels.get("namespace", ""), labels.get("pod", "")) if subject is self._pods else (labels.get("node", ""),)
        )
        if not all(key) or not math.isfinite(value):
            return
        if series.metric in LABELLED:
            subject[key]["metadata"]["labels"] |= _plain(labels)
        elif series.metric in TAKEN:
            TAKEN[series.metric](subject[key], labels, value)

    def found(self) -> list[Object]:
        """Of each, its phase or condition must be known: without it, the rest is what a restart left."""
        pods = [
            {"apiVersion": "v1", "kind": "Pod", **_named(pod, name, namespace)}
            for (namespace, name), pod in self._pods.items()
            if "phase" in pod["status"]
        ]
        nodes = [
            {"apiVersion": "v1", "kind": "Node", **_named(node, name)}
            for (name,), node in self._nodes.items()
            if node["status"]["conditions"]
        ]
        return [*pods, *nodes]


def _empty() -> Object:
    return {"metadata": {"labels": {}}, "spec": {}, "status": {"conditions": []}, "requests": defaultdict(dict)}


def _named(found: Object, name: str, namespace: str = "") -> Object:
    """With its containers, of which only what they ask for is known. A uid that is not said follows from the names."""
    requests, terminated = found.pop("requests"), found.pop("terminated", None)
    if requests:
        found["spec"]["containers"] = [
            {"name": one, "resources": {"requests": asked}} for one, asked in sorted(requests.items())
        ]
    if terminated:
        state = {"startedAt": found["status"].get("startTime", ""), **terminated}
        found["status"]["containerStatuses"] = [{"name": min(requests, default="main"), "state": {"terminated": state}}]
    own = {"name": name} | ({"namespace": namespace} if namespace else {})
    return found | {"metadata": {"uid": _uid(namespace, name)} | found["metadata"] | own}


def _uid(*names: str) -> str:
    return hashlib.sha256("/".join(names).encode()).hexdigest()[:32]


def _time(value: float) -> str:
    return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _info(pod: Object, labels: Mapping[str, str], _: float) -> None:
    pod["spec"] |= {"nodeName": labels["node"]} if labels.get("node") else {}
    pod["metadata"] |= {"uid": labels["uid"]} if labels.get("uid") else {}


def _owner(pod: Object, labels: Mapping[str, str], _: float) -> None:
    kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
    if kind not in ("", "<none>"):
        owner = {"kind": kind, "name": name, "uid": _uid(labels["namespace"], kind, name), "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]


def _created(found: Object, _: Mapping[str, str], value: float) -> None:
    found["metadata"]["creationTimestamp"] = _time(value)


def _started(pod: Object, _: Mapping[str, str], value: float) -> None:
    pod["status"]["startTime"] = _time(value)


def _completed(pod: Object, _: Mapping[str, str], value: float) -> None:
    pod.setdefault("terminated", {})["finishedAt"] = _time(value)


def _phase(pod: Object, labels: Mapping[str, str], value: float) -> None:
    if value:
        pod["status"]["phase"] = labels.get("phase", "")


def _reason(pod: Object, labels: Mapping[str, str], value: float) -> None:
    if value:
        pod["status"]["reason"] = labels.get("reason", "")


def _terminated(pod: Object, labels: Mapping[str, str], value: float) -> None:
    if value:
        pod.setdefault("terminated", {})["reason"] = labels.get("reason", "")


def _unschedulable(found: Object, _: Mapping[str, str], value: float) -> None:
    if value:
        why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Unschedulable"}
        found["status"]["conditions"].append(why)


def _cordoned(node: Object, _: Mapping[str, str], value: float) -> None:
    node["spec"]["unschedulable"] = bool(value)


def _condition(node: Object, labels: Mapping[str, str], value: float) -> None:
    if value:
        status = labels.get("status", "").capitalize()
        node["status"]["conditions"].append({"type": labels.get("condition", ""), "status": status})


def _request(pod: Object, labels: Mapping[str, str], value: float) -> None:
    pod["requests"][labels.get("container", "main")][_resource(labels)] = str(value)


def _capacity(node: Object, labels: Mapping[str, str], value: float) -> None:
    node["status"].setdefault("capacity", {})[_resource(labels)] = str(value)


def _resource(labels: Mapping[str, str]) -> str:
    written = labels.get("resource", "")
    mig = _MIG.fullmatch(written)
    return f"nvidia.com/mig-{mig[1]}.{mig[2]}" if mig else _resources().get(written, written)


@cache
def _resources() -> dict[str, str]:
    """Names of resources, by how they are written; there are series of them by the thousand."""
    known = words()["resources"]
    names = (*known["devices"], *known["percentages"], *known["percentages"].values())
    return {_written(name): name for name in names}


def _plain(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: labels[written] for written, name in _used_labels().items() if written in labels}


@cache
def _used_labels() -> dict[str, str]:
    """Labels of objects that the tables use, by how they are written."""
    node, known = words()["node"], words()["labels"].values()
    names = (
        *node["gpu_type"],
        node["gpu_count"],
        node["gpu_memory_mebibytes"],
        *(one for names in known for one in names),
    )
    return {PREFIX + _written(name): name for name in names}


def _written(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


LABELLED = ("kube_pod_labels", "kube_node_labels")
TAKEN = {
    "kube_pod_info": _info,
    "kube_pod_owner": _owner,
    "kube_pod_created": _created,
    "kube_pod_start_time": _started,
    "kube_pod_completion_time": _completed,
    "kube_pod_status_phase": _phase,
    "kube_pod_status_reason": _reason,
    "kube_pod_status_unschedulable": _unschedulable,
    "kube_pod_container_status_terminated_reason": _terminated,
    "kube_pod_container_resource_requests": _request,
    "kube_node_created": _created,
    "kube_node_spec_unschedulable": _cordoned,
    "kube_node_status_condition": _condition,
    "kube_node_status_capacity": _capacity,
}
