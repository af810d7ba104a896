"""The Standard Workload Format, version 2.2: a line a job, 18 fields, -1 for what is unknown, comments after ';'."""

from __future__ import annotations

FIELDS = (
    "job_number",
    "submit_time",
    "wait_time",
    "run_time",
    "allocated_processors",
    "average_cpu_time",
    "used_memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user_number",
    "group_number",
    "executable_number",
    "queue_number",
    "partition_number",
    "preceding_job",
    "think_time",
)
UNKNOWN = -1
# Header comments that are read. The second is ours: the format knows processors, and not what they are.
START, PROCESSORS = "UnixStartTime", "Processors"
GPU, CPU = "GPUs", "CPUs"


def comment(line: str) -> tuple[str, str]:
    """The name and the value of a header comment; other comments have no value."""
    name, _, value = line.lstrip("; \t").partition(":")
    return name.strip(), value.strip()


def is_row(line: str) -> bool:
    fields = line.split()
    return len(fields) == len(FIELDS) and all(_is_number(field) for field in fields)


def _is_number(field: str) -> bool:
    return field.lstrip("+-").replace(".", "", 1).isdecimal()
