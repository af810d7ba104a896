"""Slurm's jobs in the words of sacct, from `scontrol show job`, and from --json of sacct, squeue and scontrol."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpulake.core.types import BadRow
from gpulake.formats import slurm as words
from gpulake.formats.json_items import items
from gpulake.formats.sacct import NO_NODES
from gpulake.formats.scontrol import is_records, records
from gpulake.formats.slurm_nodes import NOTHING, listed, number, time_text, whole

JSON_JOBS = re.compile(r'"jobs"\s*:\s*\[\s*[{\]]')
JSON_WORDS = re.compile(r'"(?:[Ss]lurm|job_state|association|tres_req_str)"\s*:')
USER = re.compile(r"(?P<name>[^()]+)\(\d+\)")
SCONTROL = {
    "Account": "Account",
    "QOS": "QOS",
    "JobState": "State",
    "Reason": "Reason",
    "Restarts": "Restarts",
    "ExitCode": "ExitCode",
    "SubmitTime": "Submit",
    "EligibleTime": "Eligible",
    "StartTime": "Start",
    "EndTime": "End",
    "TimeLimit": "Timelimit",
    "Partition": "Partition",
    "NodeList": "NodeList",
    "NumCPUs": "ReqCPUS",
    "Priority": "Priority",
    "Features": "Constraints",
    "Reservation": "Reservation",
    "JobName": "JobName",
    "Comment": "Comment",
    "WorkDir": "WorkDir",
    "AllocTRES": "AllocTRES",
}
SQUEUE = {
    "account": "Account",
    "qos": "QOS",
    "state_reason": "Reason",
    "partition": "Partition",
    "nodes": "NodeList",
    "tres_req_str": "ReqTRES",
    "tres_alloc_str": "AllocTRES",
    "resv_name": "Reservation",
    "cluster": "Cluster",
    "name": "JobName",
    "features": "Constraints",
    "admin_comment": "AdminComment",
    "user_name": "User",
    "current_working_directory": "WorkDir",
}
UNENDED = ("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "REQUEUED", "RESIZING", "STOPPED")
Said = tuple[int, dict[str, str], str]  # line, fields, text


def is_json_jobs(head: str) -> bool:
    return head.lstrip().startswith("{") and bool(JSON_JOBS.search(head) and JSON_WORDS.search(head))


def is_job_records(line: str) -> bool:
    return is_records(line, "JobId")


def record_jobs(path: Path) -> Iterator[Said | BadRow]:
    for found in records(path, "JobId"):
        if isinstance(found, BadRow):
            yield found
        else:
            said = _from_scontrol(found.fields) | {"gpu_indexes": _held_gpus(found.pairs)}
            yield found.line_number, _settled(said), found.text


def json_jobs(path: Path) -> Iterator[Said | BadRow]:
    for part in items(path, "jobs"):
        value = part.value
        if part.key:
            continue
        if not isinstance(value, dict):
            yield BadRow(part.line_number, "not a job and what it says", part.text)
            continue
        rows = _from_sacct(value) if isinstance(value.get("time"), dict) else [_from_squeue(value)]
        for said in rows:
            yield part.line_number, _settled({"time_zone": "UTC"} | said), part.text


def _settled(said: Mapping[str, str]) -> dict[str, str]:
    """Without what stands for nothing, and without times that are only expected."""
    row = {name: "" if value in NOTHING else value for name, value in said.items()}
    if row.get("State", "").partition(" ")[0] in UNENDED:
        row["End"] = ""
        row["Start"] = "" if row["State"] == "PENDING" else row.get("Start", "")
    return row


def _from_scontrol(said: Mapping[str, str]) -> dict[str, str]:
    row = {column: said[key] for key, column in SCONTROL.items() if key in said}
    user = USER.fullmatch(said.get("UserId", ""))
    nodes = said.get("NumNodes", "").partition("-")[0]
    return row | {
        "JobID": _shown(said.get("JobId", ""), said.get("ArrayJobId", ""), said.get("ArrayTaskId", ""),
                        said.get("HetJobId", ""), said.get("HetJobOffset", "")),
        "JobIDRaw": said.get("JobId", ""),
        "User": user["name"] if user else "",
        "NNodes": nodes if nodes.isdigit() else "",
        "ReqCPUS": said.get("NumCPUs", "").partition("-")[0],
        "ReqTRES": said.get("ReqTRES") or said.get("TRES", ""),
        "AllocTRES": said.get("AllocTRES") or (said.get("TRES", "") if said.get("JobState") != "PENDING" else ""),
    }  # fmt: skip


def _held_gpus(pairs: Sequence[tuple[str, str]]) -> str:
    """Of `Nodes=g[1-2] CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:0)`, which --detail prints for each set of equal nodes."""
    names = [key for key, _ in pairs]
    found = []
    for at, (key, nodes) in enumerate(pairs):
        if key == "Nodes" and names[at : at + 4] == ["Nodes", "CPU_IDs", "Mem", "GRES"]:
            found.append((nodes, pairs[at + 3][1]))
    return _indexes(found)


def _indexes(by_nodes: Iterable[tuple[str, str]]) -> str:
    try:
        return words.gpu_indexes(by_nodes)
    except ValueError:
        return ""


def _from_squeue(value: Mapping[str, Any]) -> dict[str, str]:
    def text(key: str) -> str:
        return str(value.get(key) or "")

    task = number(value.get("array_task_id"))
    tasks = text("array_task_string") or ("" if task is None else f"{task:.0f}")
    row = {column: text(key) for key, column in SQUEUE.items()}
    # One for each node, in their order.
    details, nodes = listed(value.get("gres_detail")), _hosts(row["NodeList"])
    return row | {
        "JobID": _shown(whole(value.get("job_id")), whole(value.get("array_job_id")), tasks,
                        whole(value.get("het_job_id")), whole(value.get("het_job_offset"))),
        "JobIDRaw": whole(value.get("job_id")),
        "State": _state(value.get("job_state")),
        "Submit": time_text(value.get("submit_time")),
        "Eligible": time_text(value.get("eligible_time")),
        "Start": time_text(value.get("start_time")),
        "End": time_text(value.get("end_time")),
        "ExitCode": _exit_code(value.get("exit_code")),
        "TimelimitRaw": whole(value.get("time_limit")),
        "NNodes": whole(value.get("node_count")),
        "ReqCPUS": whole(value.get("cpus")),
        "Restarts": whole(value.get("restart_cnt")),
        "Priority": whole(value.get("priority")),
        "Comment": text("comment") if isinstance(value.get("comment"), str) else "",
        "gpu_indexes": _indexes(zip(nodes, details, strict=True)) if len(nodes) == len(details) else "",
    }  # fmt: skip


def _from_sacct(value: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    def member(*names: str) -> Any:
        return _member(value, *names)

    raw, nodes = whole(member("job_id")), str(member("nodes") or "")
    shown = _shown(raw, whole(member("array", "job_id")), str(member("array", "task") or "")
                   or whole(member("array", "task_id")), whole(member("het", "job_id")),
                   whole(member("het", "job_offset")))  # fmt: skip
    job = {
        "JobID": shown,
        "JobIDRaw": raw,
        "State": _state(member("state", "current")),
        "Reason": str(member("state", "reason") or ""),
        "TimelimitRaw": whole(member("time", "limit")),
        "Submit": time_text(member("time", "submission")),
        "Eligible": time_text(member("time", "eligible")),
        "NNodes": whole(member("allocation_nodes")) or ("1" if nodes else ""),
        "ReqCPUS": whole(member("required", "CPUs")),
        "ReqTRES": _resources(member("tres", "requested")),
        "AllocTRES": _resources(member("tres", "allocated")),
        "NodeList": nodes,
        "Reservation": str(member("reservation", "name") or ""),
        "AdminComment": str(member("comment", "administrator") or ""),
        "Comment": str(member("comment", "job") or ""),
        "JobName": str(member("name") or ""),
        "User": str(member("user") or member("association", "user") or ""),
        "ExitCode": _exit_code(member("exit_code")),
        "WorkDir": str(member("working_directory") or ""),
        "SubmitLine": str(member("submit_line") or ""),
        "Restarts": whole(member("restart_cnt")),
        "Priority": whole(member("priority")),
        **{key.capitalize() if key != "qos" else "QOS": str(member(key) or "")
           for key in ("account", "partition", "cluster", "qos", "constraints")},
    }  # fmt: skip
    yield job | _times(value)
    for step in value.get("steps") or []:
        name = _step(_member(step, "step", "id"))
        yield _times(step) | {
            "JobID": f"{shown}.{name}",
            "JobIDRaw": f"{raw}.{name}",
            "Cluster": job["Cluster"],
            "Account": job["Account"],
            "State": _state(_member(step, "state")),
            "Submit": time_text(_member(step, "time", "start")),
            "NNodes": whole(_member(step, "nodes", "count")),
            "NTasks": whole(_member(step, "tasks", "count")),
            "NodeList": str(_member(step, "nodes", "range") or ""),
            "AllocTRES": _resources(_member(step, "tres", "allocated")),
            "TRESUsageInAve": _resources(_member(step, "tres", "requested", "average"), ""),
            "TRESUsageInTot": _resources(_member(step, "tres", "requested", "total"), ""),
            "JobName": str(_member(step, "step", "name") or ""),
        }


def _step(value: Any) -> str:
    """0, `26.batch`, or an object."""
    named = value.get("step_id") if isinstance(value, dict) else value
    return str(named if named is not None else "").rpartition(".")[2]


def _hosts(text: str) -> list[str]:
    try:
        return words.hosts(text)
    except ValueError:
        return []


def _times(value: Any) -> dict[str, str]:
    times = {name: time_text(_member(value, "time", key)) for name, key in (("Start", "start"), ("End", "end"))}
    return times | {"ElapsedRaw": whole(_member(value, "time", "elapsed"))}


def _member(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shown(raw: str, array: str, task: str, het: str, offset: str) -> str:
    """As sacct shows it. 0 stands for none."""
    if array not in ("", "0") and task not in NOTHING:
        return f"{array}_{task}" if task.isdigit() else f"{array}_[{task}]"
    return f"{het}+{offset or 0}" if het not in ("", "0") else raw


def _exit_code(value: Any) -> str:
    """`1:0`, of an object or, up to 23.02, of squeue's status of a process."""
    if isinstance(value, dict) and "return_code" in value:
        signal = _member(value, "signal", "id")
        code, ended_by = number(value["return_code"]), number(_member(value, "signal", "signal_id")) or number(signal)
        return "" if code is None else f"{code:.0f}:{ended_by or 0:.0f}"
    status = number(value)
    return "" if status is None else f"{int(status) >> 8}:{int(status) & 127}"


def _state(value: Any) -> str:
    """The base state of a list with flags stands first."""
    return next(iter(listed(value)), "").upper()


def _resources(value: Any, memory_unit: str = "M") -> str:
    if not isinstance(value, list):
        return ""
    pairs = []
    for one in value:
        count = number(_member(one, "count"))
        kind, name = _member(one, "type"), _member(one, "name")
        if count is not None and kind:
            pairs.append(f"{kind}{f'/{name}' if name else ''}={count:.0f}{memory_unit if kind == 'mem' else ''}")
    return ",".join(pairs)


def worked_out(row: dict[str, str]) -> dict[str, str]:
    """What SQL should not have to."""
    shown = words.job_id(row.get("JobID") or row.get("JobIDRaw", ""))
    raw = words.job_id(row["JobIDRaw"]).job_id if row.get("JobIDRaw") else ""
    base_state, cancelled_by = words.state(row.get("State", ""))
    gpus, gpu_type = words.gpus(row.get("AllocTRES", ""))
    wanted = row.get("ReqTRES", "")
    requested_gpus, requested_type = words.gpus(wanted)
    nodes = row.get("NodeList", "")
    node_count = row.get("NNodes") or row.get("AllocNodes", "")
    cpus = row.get("NCPUS") or row.get("AllocCPUS") or row.get("ReqCPUS", "")
    elapsed = words.elapsed_seconds(row.get("ElapsedRaw", ""), row.get("Elapsed", ""))
    return {
        "job_id": shown.job_id,
        "raw_job_id": raw or (shown.job_id if shown.is_plain else ""),
        "array_job_id": shown.array_job_id,
        "array_task_id": shown.array_task_id,
        "het_job_id": shown.het_job_id,
        "het_offset": shown.het_offset,
        "step": shown.step,
        "base_state": base_state,
        "cancelled_by": cancelled_by,
        "gpus": gpus,
        "requested_gpus": requested_gpus,
        "gpu_type": gpu_type or requested_type,
        "memory_bytes": words.memory_bytes(row.get("ReqMem", ""), wanted, node_count, cpus),
        "nodes": "" if nodes in NO_NODES else ",".join(words.hosts(nodes)),
        "gpu_util_ratio": words.gpu_ratio(row.get("TRESUsageInAve", "")),
        "js1": words.summary(row.get("AdminComment", "")),
        **({} if row.get("ElapsedRaw") or elapsed is None else {"ElapsedRaw": f"{elapsed:.0f}"}),
    }
