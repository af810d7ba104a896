"""Dumps of sacct written by hand."""

from __future__ import annotations

import base64
import gzip
import json

from gpulake.core.config import Cluster

CLUSTERS = {"tiger": Cluster(time_zone="America/New_York")}
FIELDS = ["JobID", "JobIDRaw", "JobName", "User", "Account", "Cluster", "State", "Submit", "Eligible", "Start", "End"]
FIELDS += ["ElapsedRaw", "NNodes", "NTasks", "ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES", "NodeList", "AdminComment"]
FIELDS += ["TRESUsageInAve", "TRESUsageInTot"]


def dump(*rows: dict[str, str]) -> str:
    known = {"Cluster": "Tiger", "User": "ann", "Account": "math", "JobName": "train"}
    lines = ["|".join({**known, **row}.get(field, "") for field in FIELDS) for row in rows]
    return "\n".join(["|".join(FIELDS), *lines]) + "\n"


def times(submit: str, start: str, end: str) -> dict[str, str]:
    return {"Submit": submit, "Eligible": submit, "Start": start, "End": end}


def gpus(count: int, kind: str = "") -> str:
    return f"cpu=8,gres/gpu={count}" + (f",gres/gpu:{kind}={count}" if kind else "")


def jobstats(summary: dict[str, object]) -> str:
    """The comment that jobstats leaves."""
    return "JS1:" + base64.b64encode(gzip.compress(json.dumps(summary).encode())).decode()
