"""Telemetry from the lake: of the nodes that the log names, or that the job ran on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import built_from
from diagnose.measured import AT, failed, story
from gpulake.core.diagnosis import Diagnosis
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry import Samples, consult, samples_from_lake, window_of
from gpulake.diagnose.telemetry.samples import GpuSample, HostSample, NodeEvent
from gpulake.lake import Lake

FIELDS = "JobID|JobName|User|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList"
JOB = "7|train|ann|tiger|FAILED|2026-03-01T11:00:00|2026-03-01T11:59:00|2026-03-01T12:11:00|1|gres/gpu=8|gpu01"


def _lines(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def watched(tmp_path: Path) -> Lake:
    """Two nodes; the memory of gpu01 runs out at the end of the run, and gpu02's does not."""
    ms = int(AT * 1000)
    times = [ms + at * 1000 for at in (0, 300, 590, 595, 600)]
    nodes = {"gpu01": 1_000_000, "gpu02.cluster": 60_000_000_000}
    files = {"sacct.txt": f"{FIELDS}\n{JOB}\n"}
    for node, available in nodes.items():
        host = {"node": node, "cpu_util": 10, "memory_available_bytes": available, "memory_total_bytes": 10**11}
        gpu = {"node": node, "gpu_uuid": f"GPU-{node}", "gpu_busy_ratio": 0.0, "memory_used_bytes": 5}
        files[f"{node}/cctf/host_metrics.jsonl"] = _lines([{"ts_ms": at, **host} for at in times])
        files[f"{node}/cctf/gpu_metrics.jsonl"] = _lines([{"ts_ms": at, **gpu} for at in times])
    process = {"ts_ms": times[2], "node": "gpu01", "pid": 42, "rss_kb": 3, "comm": "python"}
    files["gpu01/cctf/proc_metrics.jsonl"] = _lines([process])
    event = {"node": "gpu01", "kind": "xid", "subject": "0000:3b:00", "code": 31, "message": "NVRM: Xid 31"}
    files["gpu01/cctf/node_events.jsonl"] = _lines([{"ts_ms": times[3], **event}])
    return built_from(tmp_path / "watched", files)


def _found(lake: Lake, diagnosis: Diagnosis, reported: Story) -> Samples:
    with lake.reading() as reader:
        return samples_from_lake(reader, diagnosis, reported, window_of(reported))


def test_the_samples_of_the_nodes_that_the_log_names(watched: Lake) -> None:
    found = _found(watched, failed("ProcessKilled"), story(hosts=("GPU01.cluster.local",)))
    assert found.nodes == ("gpu01",)
    assert found.gpus["gpu01", "GPU-gpu01"][0] == GpuSample(AT, "gpu01", "GPU-gpu01", 0.0, 5)
    assert found.hosts["gpu01"][-1] == HostSample(AT + 600, "gpu01", 1_000_000, None, 10**11, 0.1)
    assert found.events == (NodeEvent(AT + 595, "gpu01", "xid", "0000:3b:00", 31, None, "NVRM: Xid 31"),)


def test_the_job_tables_know_the_nodes_of_a_job(watched: Lake) -> None:
    by_job = _found(watched, failed("ProcessKilled"), story(job_id="7"))
    assert by_job == _found(watched, failed("ProcessKilled"), story(hosts=("gpu01",)))
    assert consult(failed("ProcessKilled"), story(job_id="7"), by_job).reason == "HostOOMKilled"
    other = story(hosts=("gpu02",))
    assert consult(failed("ProcessKilled"), other, _found(watched, failed("ProcessKilled"), other)).reason == (
        "ProcessKilled"
    )


def test_finding_nothing_is_no_error(watched: Lake, lake: Lake) -> None:
    unknown = (story(), story(hosts=("nowhere",)), story(job_id="8"), replace(story(hosts=("gpu01",)), began_at=None))
    for reported in unknown:
        assert _found(watched, failed("ProcessKilled"), reported).is_empty
    assert _found(lake, failed("ProcessKilled"), story(hosts=("gpu01",), job_id="7")).is_empty
