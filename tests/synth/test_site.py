"""A generated site: one consistent story, told by several sources."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpulake.core.errors import UsageError
from gpulake.formats.sacct import header_of
from gpulake.synth.site import Site, write_site
from gpulake.synth.site.activity import Activity, parts_of
from gpulake.synth.site.jobs import requested
from gpulake.synth.site.plan import planned
from gpulake.synth.site.schedule import History, scheduled

SITE = Site(until=datetime(2026, 3, 2, 9, 0, tzinfo=UTC), nodes=10, gpus=4, days=5, seed=3, interval_seconds=900)


@pytest.fixture(scope="module")
def history() -> History:
    plan = planned(SITE)
    return scheduled(plan, requested(plan))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    write_site(out, SITE)
    return out


def test_no_gpu_is_held_by_two_jobs_or_while_its_node_is_out_of_service(history: History) -> None:
    held: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for part in parts_of(history):
        for device in part.devices:
            span = (part.run.started_at, part.run.ended_at or SITE.ends_at)
            held.setdefault((part.node, device), []).append(span)
    for outage in history.outages:
        for device in range(SITE.gpus):
            held.setdefault((outage.node, device), []).append((outage.started_at, outage.ended_at))
    for spans in held.values():
        spans.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_jobs_end_in_every_way_that_slurm_knows(history: History) -> None:
    states = Counter(run.state for run in history.runs)
    assert set(states) == {
        *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "RUNNING"),
    }
    assert any(job.ended_at is not None for job in history.unstarted)
    assert any(run.attempt > 0 for run in history.runs)
    assert any(len(run.nodes) > 1 for run in history.runs)


def test_what_jobs_use_is_what_their_gpus_do(history: History) -> None:
    parts = parts_of(history)
    activity = Activity(planned(SITE), history, parts)
    for stretch in activity.stretches():
        assert ((stretch.holder >= 0) | (stretch.busy == 0)).all()
    held = [len(part.devices) * ((part.run.ended_at or SITE.ends_at) - part.run.started_at) for part in parts]
    used = activity.use.used_seconds / held
    assert ((used >= 0) & (used <= 1)).all()
    for part, share in zip(parts, used, strict=True):
        if part.run.request.busy == 0:
            assert share == 0


def test_the_truth_adds_up_to_capacity(folder: Path) -> None:
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    buckets = truth["buckets"]
    assert truth["capacity_gpu_hours"] == 10 * 4 * 5 * 24
    assert sum(buckets.values()) == pytest.approx(truth["capacity_gpu_hours"], abs=0.01)
    held = {bucket: hours for bucket, hours in buckets.items() if bucket not in ("down", "unallocated")}
    for by in ("users", "accounts"):
        summed: Counter[str] = Counter()
        for one in truth[by].values():
            summed.update(one)
        assert dict(summed) == pytest.approx(held, abs=0.01)
    assert [incident["kind"] for incident in truth["incidents"]] == [
        *("failing_link", "stuck_queue", "runaway_user", "hot_node", "idle_holder", "dead_node", "throttled_row"),
        *("flapping_node", "xid_storm"),
    ]


def test_the_accounting_is_what_sacct_prints(folder: Path, history: History) -> None:
    head, *rows = (folder / "slurm" / "sacct.txt").read_text(encoding="utf-8").splitlines()
    header = header_of(head)
    assert header is not None
    assert all(len(row.split("|")) == header.width for row in rows)
    jobs = [row for row in rows if "." not in row.split("|")[0]]
    assert len(jobs) == len(history.runs) + len(history.unstarted)
    assert len(rows) == len(jobs) + 3 * len(history.runs)


def test_samples_name_the_job_that_holds_the_gpu(folder: Path) -> None:
    pages = sorted((folder / "prometheus").glob("dcgm-*.prom"))
    assert len(pages) == 6
    lines = pages[2].read_text(encoding="utf-8").splitlines()
    (first, *_) = [line for line in lines if line.startswith("DCGM_FI_DEV_GPU_UTIL") and "hpc_job" in line]
    assert first.startswith('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-')
    assert 'Hostname="gpu-001",instance="gpu-001:9400",job="dcgm-exporter",hpc_job="' in first
    assert lines[-1] == "# EOF"


def test_the_same_site_is_the_same_bytes_and_another_seed_is_not(tmp_path: Path) -> None:
    small = Site(until=SITE.until, nodes=4, gpus=2, days=2, interval_seconds=1800)
    hashes = []
    for place, site in enumerate((small, small, Site(small.until, 4, 2, 2, 1, 1800))):
        write_site(tmp_path / str(place), site)
        files = sorted((tmp_path / str(place)).rglob("*.*"))
        hashes.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


def test_a_site_that_cannot_be_is_an_error() -> None:
    with pytest.raises(UsageError, match="no GPU model named 'h1000'") as raised:
        Site(until=SITE.until, gpu_model="h1000")
    assert "h100" in raised.value.hint
    with pytest.raises(UsageError, match="cannot make a site of 0 nodes"):
        Site(until=SITE.until, nodes=0)


def test_pods_hold_what_slurm_says_that_jobs_hold(tmp_path: Path) -> None:
    small = Site(until=SITE.until, nodes=4, gpus=2, days=2, interval_seconds=3600)
    held: dict[str, Counter[tuple[str, str]]] = {"slurm": Counter(), "kubernetes": Counter()}
    for teller in held:
        write_site(tmp_path / teller, small, tell=teller)
    head, *lines = (tmp_path / "slurm" / "slurm" / "sacct.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        row = dict(zip(head.split("|"), line.split("|"), strict=True))
        if "." not in row["JobID"] and "gres/gpu=" in row["AllocTRES"] and row["End"] != "Unknown":
            gpus = int(row["AllocTRES"].split("gres/gpu=")[1].split(",")[0])
            held["slurm"][row["User"], row["Account"]] += gpus * int(row["ElapsedRaw"])
    pods: dict[str, dict[str, Any]] = {}
    for file in sorted((tmp_path / "kubernetes" / "kubernetes").iterdir()):
        pods |= {one["metadata"]["uid"]: one for one in json.loads(file.read_bytes())["items"] if one["kind"] == "Pod"}
    for pod in pods.values():
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        for state in pod["status"].get("containerStatuses", ()):
            if limits and (ran := state["state"].get("terminated")):
                began, ended = (datetime.fromisoformat(ran[key]) for key in ("startedAt", "finishedAt"))
                seconds = int(limits["nvidia.com/gpu"]) * int((ended - began).total_seconds())
                held["kubernetes"][pod["metadata"]["labels"]["user"], pod["metadata"]["namespace"]] += seconds
    assert held["kubernetes"] == held["slurm"]
    assert len(held["slurm"]) > 5
