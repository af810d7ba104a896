"""A lake that has everything that a dashboard can show: a trace, a Slurm cluster, a training run, a collected run,
logs, incidents.

Fixtures `rich` (for tests that only read) and `rich_copy` (for those that write) are in tests/conftest.py.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Cluster, Config
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.flow import Flow
from gpulake.flow.incidents import change, read_incidents
from gpulake.synth import write_trace
from show.web.night_run import write_run

JOBS = 1_000
CLUSTER = "tiger"  # its clocks are in New York: five hours behind
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DEAD_JOB = "80"  # requeued once, then failed; its log is diagnosed twice, its GPUs have telemetry
HOSTILE_JOB = "82"
HOSTILE_USER = "<script>alert('user')</script>"
HOSTILE_NAME = "\"><img src=x onerror=alert('job')>"
HOSTILE_MACHINE = "<img src=x onerror=alert('machine')>"
ODD_USER = "100%_o'neil\\\"x"  # what LIKE, quotes and backslashes would trip over
HOSTILE_LINE = "<script>alert('log')</script> & {{ 7 * 7 }}"
LOG = f"""step 1 of 100
step 2 of 100
{HOSTILE_LINE}
Traceback (most recent call last):
  File "/home/ann/<b>train</b>.py", line 3, in <module>
    state = load("/data/ann/shard-3.bin")
OSError: [Errno 5] Input/output error: '/data/ann/<b>shard</b>-3.bin'
"""
OTHER_LOG = """step 1 of 100
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB
"""
FIELDS = ["JobID", "JobName", "User", "Account", "Cluster", "State", "Submit", "Eligible", "Start", "End"]
FIELDS += ["NNodes", "ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES", "NodeList", "AdminComment"]
USED = {
    "nodes": {
        node: {
            "cpus": 4,
            "total_time": 7200.0,
            "used_memory": 3 << 30,
            "total_memory": 8 << 30,
            "gpu_utilization": {"0": 80.0, "1": 20.0},
            "gpu_used_memory": {"0": 40 << 30, "1": 10 << 30},
        }
        for node in ("gpu01", "gpu02")
    },
    "total_time": 3600,
    "gpus": 4,
}


def rich_config(folder: Path) -> Config:
    clusters = {CLUSTER: Cluster(time_zone="America/New_York")}
    return Config(lake=folder / "lake", threads=1, clusters=clusters, alerts=Alerts(is_sent_at_once=False))


def write_rich_lake(folder: Path) -> None:
    """Its sink is never sent to: alerts wait in the outbox."""
    sinks = {"ops": SinkSettings(kind="webhook", url_variable="GPULAKE_NO_SUCH_URL")}
    alerts = Alerts(sinks=sinks, is_sent_at_once=False)
    flow = Flow(replace(rich_config(folder), alerts=alerts), FrozenClock(NOW))
    raw = folder / "raw"
    write_trace(raw / "trace", jobs=JOBS, seed=7)
    flow.refresh([raw / "trace", *_written(raw), write_run(raw)], None)
    _add_incidents(flow, folder)


def _written(folder: Path) -> list[Path]:
    texts = {
        "sacct.txt": sacct_text(),
        "machines.csv": "cluster,machine,gpu_type,gpus,cores,memory_gib\n"
        + "".join(f"{CLUSTER},{name},H100,2,8,64\n" for name in ("gpu01", "gpu02", "gpu03", HOSTILE_MACHINE)),
        "outages.csv": "cluster,machine,started_at,ended_at,reason\n"
        f"{CLUSTER},gpu03,2026-03-01T13:00:00Z,2026-03-01T15:00:00Z,fan\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "slurm-81").mkdir()
    training = folder / "slurm-81" / "night.jsonl"
    training.write_text("".join(json.dumps(row) + "\n" for row in logged_steps()))
    return [*(folder / name for name in texts), training]


def logged_steps() -> list[dict[str, float]]:
    """Of job 81, from 10:10 UTC on: two minutes of start-up, a stall of ten, and six steps done again."""
    begin = datetime(2026, 3, 1, 10, 10, tzinfo=UTC).timestamp()
    steps = [*((step, 120 + 20 * step) for step in range(1, 31)), *((step, 720 + 20 * step) for step in range(31, 41))]
    steps += [(step, 1640 + 20 * (step - 34)) for step in range(35, 61)]
    return [{"_step": step, "_timestamp": begin + at, "train/loss": 4.0 / step} for step, at in steps]


def sacct_text() -> str:
    used = "JS1:" + base64.b64encode(gzip.compress(json.dumps(USED).encode())).decode()
    both = {"NNodes": "2", "NodeList": "gpu[01-02]", "AllocTRES": gpus(4), "ReqTRES": gpus(4)}
    asked = {"ReqCPUS": "8", "ReqMem": "16G"}
    one = {"NNodes": "1", "AllocTRES": gpus(1), "ReqTRES": gpus(1)}
    rows = [
        {"JobID": DEAD_JOB, "State": "REQUEUED", **both, **asked, **times("04:50", "05:00", "05:20")},
        {"JobID": DEAD_JOB, "State": "FAILED", **both, **asked, **times("05:20", "05:30", "06:30"),
         "AdminComment": used},
        {"JobID": "81", "State": "COMPLETED", **one, "NodeList": "gpu02", **times("05:00", "05:10", "06:00")},
        {
            "JobID": HOSTILE_JOB, "State": "FAILED", "User": HOSTILE_USER, "JobName": HOSTILE_NAME, **one,
            "NodeList": "gpu03", **times("06:00", "06:10", "07:00"),
        },
        {"JobID": "83", "State": "RUNNING", **one, "NodeList": "gpu03", **times("06:00", "07:10", "Unknown")},
        {"JobID": "84", "State": "PENDING", "ReqTRES": gpus(2), **times("06:00", "Unknown", "Unknown")},
        {"JobID": "85", "State": "CANCELLED by 7", "User": ODD_USER, **one, "NodeList": "gpu01",
         **times("07:00", "07:00", "08:00")},
        {"JobID": "86", "State": "COMPLETED", "User": ODD_USER, **one, "NodeList": "gpu01",
         **times("08:00", "08:30", "12:00")},
        {"JobID": "87", "State": "COMPLETED", **one, "NodeList": "gpu01", **times("08:00", "08:30", "12:00"),
         "Submit": "the day before <b>yesterday</b>"},
    ]  # fmt: skip
    known = {"Cluster": "Tiger", "User": "ann", "Account": "math", "JobName": "train"}
    lines = ["|".join({**known, **row}.get(field, "") for field in FIELDS) for row in rows]
    return "\n".join(["|".join(FIELDS), *lines]) + "\n"


def times(submit: str, start: str, end: str) -> dict[str, str]:
    """Of the first of March, by the clocks of the cluster."""
    submitted, started, ended = (f"2026-03-01T{time}:00" if ":" in time else time for time in (submit, start, end))
    return {"Submit": submitted, "Eligible": submitted, "Start": started, "End": ended}


def gpus(count: int) -> str:
    return f"cpu=8,gres/gpu={count},gres/gpu:h100={count}"


def _add_incidents(flow: Flow, folder: Path) -> None:
    """Those of the build stay as they are, all but one; of logs one is acknowledged, one muted, one over, one open."""
    logs = folder / "logs"
    logs.mkdir()
    asked = [("80.log", LOG, DEAD_JOB), ("80-again.log", OTHER_LOG, DEAD_JOB), ("82.log", OTHER_LOG, HOSTILE_JOB)]
    asked += [("85.log", LOG, "85"), ("86.log", OTHER_LOG, "86")]
    result = []
    for minutes, (name, text, job) in enumerate(asked):
        (logs / name).write_text(text)
        clock = FrozenClock(NOW + timedelta(minutes=minutes))
        request = DiagnosisRequest(logs / name, job_id=job, cluster_id=CLUSTER)
        result.append(Flow(flow.config, clock).diagnose(request).diagnosis.incident_id)
    later = FrozenClock(NOW + timedelta(hours=1))
    change(flow.lake, later, "acknowledge", result[1], "bob", "<b>looking</b>")
    change(flow.lake, later, "mute", result[2], "bob", until=NOW + timedelta(days=1))
    change(flow.lake, later, "resolve", result[3], "eve", "the disk was replaced")
    of_build = [one for one in read_incidents(flow.lake) if one.incident_id not in result and one.state == "open"]
    change(flow.lake, later, "acknowledge", [one.incident_id for one in of_build[:1]], "bob")
