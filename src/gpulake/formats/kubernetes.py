"""Objects of a Kubernetes API as rows: pods, nodes, events, and whatever owns pods. Names of columns are theirs.

What is kept of an object is what the models read; annotations and environments, where secrets may be, are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gpulake.formats.json_text import word
from gpulake.formats.kernel import event_in
from gpulake.formats.kubernetes_claims import claim_row, slice_row
from gpulake.formats.kubernetes_gpus import Gpus, node_gpus, pod_requests, words

API = "gpulake/v1"  # of the object that says what a pulled file is
SNAPSHOT = "Snapshot"
MOST_MESSAGE = 2000
Row = dict[str, object]


class Listing(NamedTuple):
    """What is said of a whole file: by its list, and by the Snapshot at its head."""

    kind: str = ""  # of items that do not say it themselves: PodList has pods
    is_list: bool = False
    cluster: str = ""
    taken_at: str = ""


def listing(before: Listing, snapshot: Mapping[str, Any]) -> Listing:
    spec = _mapping(snapshot, "spec")
    return before._replace(cluster=_text(spec, "cluster"), taken_at=_text(spec, "takenAt"))


def object_row(item: object, listed: Listing) -> Row:
    """Raises ValueError with the reason why an object is none."""
    if not isinstance(item, dict):
        raise ValueError("not an object")
    kind = _text(item, "kind") or listed.kind
    metadata = _mapping(item, "metadata")
    name = _text(metadata, "name")
    if not kind or not name:
        raise ValueError("an object without kind or metadata.name")
    labels, annotations = _mapping(metadata, "labels"), _mapping(metadata, "annotations")
    owner = _controller(metadata)
    row: Row = {
        "cluster": listed.cluster,
        "snapshot_at": listed.taken_at,
        "is_list": listed.is_list,
        "kind": kind,
        "apiVersion": _text(item, "apiVersion"),
        "namespace": _text(metadata, "namespace"),
        "name": name,
        "uid": _text(metadata, "uid"),
        "creationTimestamp": _text(metadata, "creationTimestamp"),
        "deletionTimestamp": _text(metadata, "deletionTimestamp"),
        "owner_kind": owner.get("kind"),
        "owner_name": owner.get("name"),
        "owner_uid": owner.get("uid"),
        **{column: _named(words()["labels"][column], labels, annotations) for column in ("user", "queue", "role")},
        "index": _index(labels, annotations),
    }
    return row | READ.get(kind, _owner)(item)


def _pod(item: Mapping[str, Any]) -> Row:
    if not _text(_mapping(item, "metadata"), "uid"):
        raise ValueError("a pod without metadata.uid")
    spec, status = _mapping(item, "spec"), _mapping(item, "status")
    gpus, cores, memory = pod_requests(spec)
    conditions = _conditions(status)
    scheduled = conditions.get("PodScheduled", {})
    is_scheduled = scheduled.get("status") == "True"
    containers = [one for one in _items(status, "containerStatuses") if isinstance(one, dict)]
    main = _main_container(spec, containers)
    finished = [_text(_mapping(one, "state", "terminated"), "finishedAt") for one in containers]
    return {
        **_requests(gpus, cores, memory),
        "node": _text(spec, "nodeName"),
        "state": _text(status, "phase"),
        "reason": _text(status, "reason") or _text(conditions.get("DisruptionTarget", {}), "reason"),
        "message": _text(status, "message")[:MOST_MESSAGE],
        "scheduled_at": _text(scheduled, "lastTransitionTime") if is_scheduled else "",
        "waiting_reason": "" if is_scheduled else _text(scheduled, "reason"),
        "waiting_message": "" if is_scheduled else _text(scheduled, "message")[:MOST_MESSAGE],
        "startTime": _text(status, "startTime"),
        "ended_at": max(finished) if finished and all(finished) else "",
        "restarts": main.get("restartCount"),
        **_terminated("container", _mapping(main, "state")),
        **_terminated("last", _mapping(main, "lastState")),
    }


def _terminated(prefix: str, state: Mapping[str, Any]) -> Row:
    """A container's run: one that runs, or one that ended."""
    ended = _mapping(state, "terminated")
    return {
        f"{prefix}_startedAt": _text(ended or _mapping(state, "running"), "startedAt"),
        f"{prefix}_finishedAt": _text(ended, "finishedAt"),
        f"{prefix}_exitCode": ended.get("exitCode"),
        f"{prefix}_reason": _text(ended, "reason") or _text(_mapping(state, "waiting"), "reason"),
    }


def _main_container(spec: Mapping[str, Any], statuses: list[Any]) -> Mapping[str, Any]:
    """The status of the first container with GPUs, or else of the first."""
    asked = [one for one in _items(spec, "containers") if isinstance(one, dict)]
    named = sorted(asked, key=lambda one: -sum(pod_requests({"containers": [one]})[0]))
    by_name = {_text(one, "name"): one for one in statuses}
    return next((by_name[_text(one, "name")] for one in named if _text(one, "name") in by_name), {})


def _node(item: Mapping[str, Any]) -> Row:
    metadata, spec, status = _mapping(item, "metadata"), _mapping(item, "spec"), _mapping(item, "status")
    capacity = _mapping(status, "capacity")
    has = node_gpus(capacity, _mapping(metadata, "labels"))
    _, cores, memory = pod_requests({"containers": [{"resources": {"limits": capacity}}]})
    conditions = _conditions(status)
    ready = conditions.get("Ready", {})
    closed = [
        taint
        for taint in _items(spec, "taints")
        if _text(taint, "key") in words()["node"]["taints"] and _text(taint, "effect") in ("NoSchedule", "NoExecute")
    ]
    # Ready apart, a condition that is true is a problem: pressure, or what a problem detector found.
    problems = {
        kind: {key: _text(one, key) for key in ("reason", "message", "lastTransitionTime")}
        for kind, one in conditions.items()
        if kind != "Ready" and one.get("status") == "True"
    }
    return {
        "gpus": has.gpus,
        "device_ratio": has.device_ratio,
        "gpu_type": has.gpu_type,
        "gpu_memory_bytes": has.gpu_memory_bytes,
        "cores": cores,
        "memory_bytes": memory,
        "state": _text(ready, "status"),
        "reason": _text(ready, "reason"),
        "message": _text(ready, "message")[:MOST_MESSAGE],
        "state_since": _text(ready, "lastTransitionTime"),
        "unschedulable": spec.get("unschedulable") is True,
        "taints": ",".join(sorted({_text(taint, "key") for taint in closed})),
        "taints_since": min((at for taint in closed if (at := _text(taint, "timeAdded"))), default=""),
        "problems": json.dumps(problems, ensure_ascii=False, sort_keys=True) if problems else "",
    }


def _event(item: Mapping[str, Any]) -> Row:
    subject = _mapping(item, "involvedObject") or _mapping(item, "regarding")
    series = _mapping(item, "series")
    created = _text(_mapping(item, "metadata"), "creationTimestamp")
    firsts = (_text(item, "firstTimestamp"), _text(item, "deprecatedFirstTimestamp"), _text(item, "eventTime"), created)
    lasts = (_text(series, "lastObservedTime"), _text(item, "lastTimestamp"), _text(item, "deprecatedLastTimestamp"))
    message = _text(item, "message") or _text(item, "note")
    found = event_in(message)
    source = _mapping(item, "source") or _mapping(item, "deprecatedSource")
    first = next(filter(None, firsts), "")
    return {
        "state": _text(item, "type"),
        "reason": _text(item, "reason"),
        "message": message[:MOST_MESSAGE],
        "first_at": first,
        "last_at": next(filter(None, lasts), first),
        "count": series.get("count") or item.get("count") or item.get("deprecatedCount") or 1,
        "object_kind": _text(subject, "kind"),
        "object_name": _text(subject, "name"),
        "object_uid": _text(subject, "uid"),
        "node": _text(source, "host") or (_text(subject, "name") if subject.get("kind") == "Node" else ""),
        "fault_kind": found.kind if found else "",
        "fault_subject": found.subject if found else "",
        "fault_code": found.code if found else None,
    }


def _owner(item: Mapping[str, Any]) -> Row:
    """Jobs of any kind, and what queues them: state, times, and the sum of their pod templates."""
    spec, status = _mapping(item, "spec"), _mapping(item, "status")
    conditions = _conditions(status)
    true = {kind: one for kind, one in conditions.items() if one.get("status") == "True"}
    known = words()["states"]
    said = next((kind for kind in known["conditions"] if kind in true), "")
    own = _mapping(status, "state") or {"phase": status.get("jobStatus") or status.get("phase") or status.get("state")}
    state = said if said in known["final"] else _text(own, "phase") or said
    since = _text(true.get(said, {}), "lastTransitionTime") if state == said else _text(own, "lastTransitionTime")
    ended = _text(status, "completionTime") or _text(status, "endTime") or since
    gpus, cores, memory, instances = Gpus(0, 0), 0.0, 0.0, 0.0
    for count, template in templates(spec):
        asked, more_cores, more_memory = pod_requests(template)
        gpus = Gpus(gpus.devices + count * asked.devices, gpus.shares + count * asked.shares)
        cores, memory, instances = cores + count * more_cores, memory + count * more_memory, instances + count
    admitted = true.get("Admitted") or true.get("QuotaReserved") or {}
    queued = {} if "QuotaReserved" in true else conditions.get("QuotaReserved", {})  # Kueue
    return {
        **_requests(gpus, cores, memory),
        "instances": instances or None,
        "state": state,
        "reason": _text(true.get(said, {}), "reason") or _text(own, "reason"),
        "message": (_text(true.get(said, {}), "message") or _text(own, "message"))[:MOST_MESSAGE],
        "startTime": _text(status, "startTime"),
        "ended_at": ended if state in known["final"] else "",
        "admitted_at": _text(admitted, "lastTransitionTime"),
        "waiting_reason": _text(queued, "reason"),
        "waiting_message": _text(queued, "message")[:MOST_MESSAGE],
        **({"queue": queue} if (queue := _text(spec, "queueName") or _text(spec, "queue")) else {}),
    }


def _snapshot(item: Mapping[str, Any]) -> Row:
    spec = _mapping(item, "spec")
    listed = {f"listed_{key}": ",".join(map(str, _items(spec, key))) for key in ("kinds", "namespaces")}
    return {**listed, "message": _text(spec, "skipped")}


READ: Mapping[str, Callable[[Mapping[str, Any]], Row]] = {
    "Pod": _pod,
    "Node": _node,
    "Event": _event,
    SNAPSHOT: _snapshot,
    "ResourceClaim": claim_row,
    "ResourceSlice": slice_row,
}


def templates(spec: object, count: float = 1) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """The specs of pods within that of their owner, and how many pods each stands for."""
    if isinstance(spec, list):
        for one in spec:
            yield from templates(one, count)
    elif isinstance(spec, dict):
        times = next((spec[key] for key in ("replicas", "parallelism", "count") if isinstance(spec.get(key), int)), 1)
        pods = _mapping(spec, "template", "spec")
        if "containers" in pods:
            yield count * times, pods
        else:
            for one in spec.values():
                yield from templates(one, count * times)


def fields(row: Mapping[str, object], columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word(row.get(column)) for column in columns)


def _requests(gpus: Gpus, cores: float, memory: float) -> Row:
    return {"gpu_devices": gpus.devices, "gpu_shares": gpus.shares, "cores": cores, "memory_bytes": memory}


def _named(names: list[str], labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    said = ({**annotations, **labels}.get(name) for name in names)
    return next((str(value) for value in said if value), "")


def _index(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    """Of a pod within its role; of a set of jobs, that of the job comes first."""
    both = (_named(words()["labels"][column], labels, annotations) for column in ("job_index", "index"))
    return ".".join(filter(None, both))


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    owners = [one for one in _items(metadata, "ownerReferences") if isinstance(one, dict)]
    return next((one for one in owners if one.get("controller") is True), owners[0] if owners else {})


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {_text(one, "type"): one for one in _items(status, "conditions") if isinstance(one, dict)}


def _mapping(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        found = value.get(key)
        value = found if isinstance(found, dict) else {}
    return value


def _items(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _text(value: object, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
