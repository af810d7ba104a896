"""Slurm's jobs in the words of sacct, from `scontrol show job`, and from --json of sacct, squeue and scontrol."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpulake.core.lines import document
from gpulake.core.types import BadRow
from gpulake.formats.json_text import parts
from gpulake.formats.scontrol import is_records, records, utc_text
from gpulake.formats.slurm_nodes import NOTHING, listed, number

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
            yield found.line_number, _settled(_from_scontrol(found.fields)), found.text


def json_jobs(path: Path) -> Iterator[Said | BadRow]:
    for part in parts(document(path)):
        if part.key != "jobs" or not isinstance(part.value, list):
            continue
        for value in part.value:
            text = json.dumps(value)
            if not isinstance(value, dict):
                yield BadRow(part.line_number, "not a job and what it says", text)
                continue
            rows = _from_sacct(value) if isinstance(value.get("time"), dict) else [_from_squeue(value)]
            for said in rows:
                yield part.line_number, _settled({"time_zone": "UTC"} | said), text


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


def _from_squeue(value: Mapping[str, Any]) -> dict[str, str]:
    def text(key: str) -> str:
        return str(value.get(key) or "")

    task = number(value.get("array_task_id"))
    tasks = text("array_task_string") or ("" if task is None else f"{task:.0f}")
    row = {column: text(key) for key, column in SQUEUE.items()}
    return row | {
        "JobID": _shown(_whole(value.get("job_id")), _whole(value.get("array_job_id")), tasks,
                        _whole(value.get("het_job_id")), _whole(value.get("het_job_offset"))),
        "JobIDRaw": _whole(value.get("job_id")),
        "State": _state(value.get("job_state")),
        "Submit": _time(value.get("submit_time")),
        "Eligible": _time(value.get("eligible_time")),
        "Start": _time(value.get("start_time")),
        "End": _time(value.get("end_time")),
        "TimelimitRaw": _whole(value.get("time_limit")),
        "NNodes": _whole(value.get("node_count")),
        "ReqCPUS": _whole(value.get("cpus")),
        "Restarts": _whole(value.get("restart_cnt")),
        "Priority": _whole(value.get("priority")),
        "Comment": text("comment") if isinstance(value.get("comment"), str) else "",
    }  # fmt: skip


def _from_sacct(value: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    def member(*names: str) -> Any:
        return _member(value, *names)

    raw, nodes = _whole(member("job_id")), str(member("nodes") or "")
    shown = _shown(raw, _whole(member("array", "job_id")), str(member("array", "task") or "")
                   or _whole(member("array", "task_id")), _whole(member("het", "job_id")),
                   _whole(member("het", "job_offset")))  # fmt: skip
    job = {
        "JobID": shown,
        "JobIDRaw": raw,
        "State": _state(member("state", "current")),
        "Reason": str(member("state", "reason") or ""),
        "TimelimitRaw": _whole(member("time", "limit")),
        "Submit": _time(member("time", "submission")),
        "Eligible": _time(member("time", "eligible")),
        "NNodes": _whole(member("allocation_nodes")) or ("1" if nodes else ""),
        "ReqCPUS": _whole(member("required", "CPUs")),
        "ReqTRES": _resources(member("tres", "requested")),
        "AllocTRES": _resources(member("tres", "allocated")),
        "NodeList": nodes,
        "Reservation": str(member("reservation", "name") or ""),
        "AdminComment": str(member("comment", "administrator") or ""),
        "Comment": str(member("comment", "job") or ""),
        "JobName": str(member("name") or ""),
        "User": str(member("user") or ""),
        "Restarts": _whole(member("restart_cnt")),
        "Priority": _whole(member("priority")),
        **{key.capitalize() if key != "qos" else "QOS": str(member(key) or "")
           for key in ("account", "partition", "cluster", "qos", "constraints")},
    }  # fmt: skip
    yield job | _times(value)
    for step in value.get("steps") or []:
        name = str(_member(step, "step", "id") or "").rpartition(".")[2]
        yield _times(step) | {
            "JobID": f"{shown}.{name}",
            "JobIDRaw": f"{raw}.{name}",
            "Cluster": job["Cluster"],
            "Account": job["Account"],
            "State": _state(_member(step, "state")),
            "Submit": _time(_member(step, "time", "start")),
            "NNodes": _whole(_member(step, "nodes", "count")),
            "NTasks": _whole(_member(step, "tasks", "count")),
            "NodeList": str(_member(step, "nodes", "range") or ""),
            "AllocTRES": _resources(_member(step, "tres", "allocated")),
            "TRESUsageInAve": _resources(_member(step, "tres", "requested", "average")),
            "TRESUsageInTot": _resources(_member(step, "tres", "requested", "total")),
            "JobName": str(_member(step, "step", "name") or ""),
        }


def _times(value: Any) -> dict[str, str]:
    times = {name: _time(_member(value, "time", key)) for name, key in (("Start", "start"), ("End", "end"))}
    return times | {"ElapsedRaw": _whole(_member(value, "time", "elapsed"))}


def _member(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shown(raw: str, array: str, task: str, het: str, offset: str) -> str:
    """As sacct shows it. 0 stands for none."""
    if array not in ("", "0") and task not in NOTHING:
        return f"{array}_{task}" if task.isdigit() else f"{array}_[{task}]"
    return f"{het}+{offset or 0}" if het not in ("", "0") else raw


def _state(value: Any) -> str:
    """The base state of a list with flags stands first."""
    return next(iter(listed(value)), "").upper()


def _resources(value: Any) -> str:
    if not isinstance(value, list):
        return ""
    pairs = []
    for one in value:
        count = number(_member(one, "count"))
        kind, name = _member(one, "type"), _member(one, "name")
        if count is not None and kind:
            pairs.append(f"{kind}{f'/{name}' if name else ''}={count:.0f}{'M' if kind == 'mem' else ''}")
    return ",".join(pairs)


def _time(value: Any) -> str:
    seconds = number(value)
    return utc_text(seconds) if seconds and 0 < seconds < 1 << 32 else ""


def _whole(value: Any) -> str:
    found = number(value)
    return "" if found is None else f"{found:.0f}"
