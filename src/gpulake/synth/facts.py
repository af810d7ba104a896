"""The words of the trace, its published curves as distributions, and the habits of its jobs (habits.toml)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from gpulake.core.packaged import packaged_toml
from gpulake.core.pai import published
from gpulake.synth.draws import Curve

GPU_TYPES = ("T4", "MISC", "P100", "V100", "V100M32")
"""The types a task can ask for; their order is the code used in arrays."""
CPU_TYPE = len(GPU_TYPES)
"""The code of a machine, or of a task, without a GPU."""
TYPES = (*GPU_TYPES, "CPU")

STATUSES = ("Terminated", "Running", "Failed", "Interrupted", "Waiting")
TERMINATED, RUNNING, FAILED, INTERRUPTED, WAITING = range(5)

HEADERS = {
    "pai_job_table": "job_name,inst_id,user,status,start_time,end_time",
    "pai_task_table": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
    "pai_instance_table": "job_name,task_name,inst_name,worker_name,inst_id,status,start_time,end_time,machine",
    "pai_sensor_table": (
        "job_name,task_name,worker_name,inst_id,machine,gpu_name,cpu_usage,gpu_wrk_util,avg_mem,max_mem,"
        "avg_gpu_wrk_mem,max_gpu_wrk_mem,read,write,read_count,write_count"
    ),
    "pai_group_tag_table": "inst_id,user,gpu_type_spec,group,workload",
    "pai_machine_spec": "machine,gpu_type,cap_cpu,cap_mem,cap_gpu",
    "pai_machine_metric": (
        "worker_name,machine,start_time,end_time,machine_cpu_iowait,machine_cpu_kernel,machine_cpu_usr,machine_gpu,"
        "machine_load_1,machine_net_receive,machine_num_worker,machine_cpu"
    ),
}
"""The published tables and the text of their .header files, less the final newline."""


def habits() -> dict[str, Any]:
    return packaged_toml("gpulake.synth", "habits.toml")


def gpu_models() -> bytes:
    return (files(__package__) / "gpu_models.csv").read_bytes()


@cache
def curve(family: str, name: str) -> Curve:
    return _through(published()["curves"][family][name])


@cache
def tail_curve(name: str) -> Curve:
    """A distribution of the real tail of pai_instance_table."""
    return _through(published()["tail"][name])


def _through(points: dict[str, Any]) -> Curve:
    return Curve.through(points["percent"], points["value"], least=points["least"], most=points["most"])


def scaled(count: str, jobs: int) -> int:
    """A published count, for a trace of so many jobs."""
    counts = published()["counts"]
    return round(float(counts[count]) * jobs / float(counts["jobs"]))
