"""Processes and GPUs of a parsed run: who was there, what it used, whose it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpulake.collect.rows import GpuProcess, ProcessEnd, Row
from recorded_runs import (
    BOOT,
    EPOCH_MS,
    block_of,
    cells,
    document_in,
    gpu_of,
    host_of,
    parse_audited,
    process_of,
    rows_in,
    sample_of,
    write_session,
)

AT = EPOCH_MS


def test_a_process_has_a_row_in_every_tick_and_is_charged_from_its_birth(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        block_of(1000, [host_of(1, 1), process_of(5, 10), sample_of(5, 300)]),
        block_of(2000, [process_of(9, 150), sample_of(9, 7, rss_kb=8)]),
        block_of(3000, []),
        block_of(4000, [sample_of(5, 302), ProcessEnd(9)]),
    )
    parse_audited(tmp_path)
    assert cells(rows_in(tmp_path, "proc_metrics"), "ts_ms", "pid", "utime", "rss_kb", "cpu_ms", "dt_ms") == [
        (AT + 1000, 5, 300, 4, None, None),
        (AT + 2000, 5, 300, 4, 0, 1000),
        (AT + 2000, 9, 7, 8, 70, 500),
        (AT + 3000, 5, 300, 4, 0, 1000),
        (AT + 3000, 9, 7, 8, 0, 1000),
        (AT + 4000, 5, 302, 4, 20, 1000),
    ]
    assert rows_in(tmp_path, "proc_metrics")[2] == {
        "ts_ms": AT + 2000,
        "pid": 9,
        "rss_kb": 8,
        "utime": 7,
        "stime": 0,
        "cpu_ms": 70,
        "dt_ms": 500,
        "node": "n1",
        "stage": "edge",
        "host_id": "0123456789ab",
        "proc_id": f"{BOOT}-150-9",
        "started_ms": AT + 1500,
        "ppid": 1,
        "comm": "python",
        "threads": 1,
        "ticks_per_second": 100,
        "read_bytes_total": None,
        "written_bytes_total": None,
        "owner_kind": "unattributed",
        "owner_id": "",
    }
    assert cells(rows_in(tmp_path, "proc_cpu"), "ts_ms", "pid", "cpu_ms", "dt_ms", "proc_id")[:2] == [
        (AT + 2000, 5, 0, 1000, f"{BOOT}-10-5"),
        (AT + 2000, 9, 70, 500, f"{BOOT}-150-9"),
    ]
    assert len(rows_in(tmp_path, "proc_cpu")) == 5
    assert len(rows_in(tmp_path, "proc_rss")) == 6


def test_while_processes_cannot_be_read_no_owner_is_idle(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        block_of(1000, [host_of(1, 1), process_of(5, 10), sample_of(5, 300)]),
        replace(block_of(2000, []), unread=["pid"]),
        replace(block_of(3000, []), unread=["pid"]),
        block_of(4000, [sample_of(5, 600)]),
    )
    parse_audited(tmp_path)
    assert cells(rows_in(tmp_path, "proc_metrics"), "ts_ms", "cpu_ms", "dt_ms") == [
        (AT + 1000, None, None),
        (AT + 4000, 3000, 3000),
    ]


def test_a_pid_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        block_of(1000, [host_of(1, 1), process_of(5, 10), sample_of(5, 300)]),
        block_of(2000, [ProcessEnd(5), process_of(5, 160, comm="bash"), sample_of(5, 2)]),
        block_of(3000, [process_of(6, 210), sample_of(6, 1), ProcessEnd(6)]),
        block_of(4000, [ProcessEnd(5)]),
    )
    parse_audited(tmp_path)
    assert cells(rows_in(tmp_path, "proc_metrics"), "ts_ms", "proc_id", "comm", "cpu_ms", "dt_ms") == [
        (AT + 1000, f"{BOOT}-10-5", "python", None, None),
        (AT + 2000, f"{BOOT}-160-5", "bash", 20, 400),
        (AT + 3000, f"{BOOT}-160-5", "bash", 0, 1000),
    ]


def test_rows_of_a_process_that_is_moved_to_a_job_are_counted_before_and_after(tmp_path: Path) -> None:
    moved = process_of(5, 10, owner_kind="slurm", owner_id="77")
    first: list[Row] = [host_of(1, 1), process_of(5, 10, owner_id=None), sample_of(5, 300)]
    blocks = [block_of(1000, first), block_of(2000, []), block_of(3000, [moved]), block_of(4000, [])]
    write_session(tmp_path, *blocks)
    metrics = parse_audited(tmp_path)["files"]["proc_metrics"]
    assert (metrics["rows"], metrics["missing"]["owner_id"]["count"]) == (4, 2)
    assert [row["owner_id"] for row in rows_in(tmp_path, "proc_metrics")] == [None, None, "77", "77"]


def test_a_process_that_ended_in_a_lost_block_leaves_when_the_others_are_said_again(tmp_path: Path) -> None:
    said: list[Row] = [process_of(pid, 10) for pid in (5, 6, 7)]
    samples: list[Row] = [sample_of(pid, 1) for pid in (5, 6, 7)]
    write_session(
        tmp_path,
        block_of(1000, [*said, *samples]),
        block_of(3000, [said[0], said[2], samples[0], samples[2]]),
        block_of(4000, []),
    )
    parse_audited(tmp_path)
    assert cells(rows_in(tmp_path, "proc_metrics"), "ts_ms", "pid") == [
        (AT + 1000, 5),
        (AT + 1000, 6),
        (AT + 1000, 7),
        (AT + 3000, 5),
        (AT + 3000, 7),
        (AT + 4000, 5),
        (AT + 4000, 7),
    ]


def test_a_gpu_is_held_by_who_uses_it_or_else_by_who_was_given_it(tmp_path: Path) -> None:
    def use(uuid: str, pid: int, owner: str) -> GpuProcess:
        return GpuProcess(1000, uuid, pid, None, 10, None, None, "slurm", owner)

    given_gpus = {"owner_kind": "slurm", "owner_id": "40"}
    write_session(
        tmp_path,
        block_of(
            1000,
            [
                process_of(8, 1, given_gpus="2,GPU-d", **given_gpus),
                process_of(9, 1, given_gpus="-1,5", **given_gpus),
                process_of(10, 1, given_gpus="4"),  # nobody knows whose it is: it is given nothing
                *(
                    gpu_of(1000, f"GPU-{letter}{letter}", gpu_index=index, gpu_name="H200")
                    for index, letter in enumerate("abcdef")
                ),
                gpu_of(1000, "MIG-1", parent_uuid="GPU-ff", gpu_index=0),
                gpu_of(1000, "MIG-2", parent_uuid="GPU-ff", gpu_index=2),
                use("GPU-aa", 8, "41"),
                use("GPU-bb", 8, "41"),
                use("GPU-bb", 77, "42"),
                use("MIG-1", 77, "42"),
            ],
        ),
    )
    parse_audited(tmp_path)
    assert cells(rows_in(tmp_path, "gpu_metrics"), "gpu_uuid", "owner_kind", "owner_id", "owner_evidence") == [
        ("GPU-aa", "slurm", "41", "process"),
        ("GPU-bb", "several", None, "process"),
        ("GPU-cc", "slurm", "40", "environment"),
        ("GPU-dd", "slurm", "40", "environment"),
        ("GPU-ee", None, None, None),
        ("GPU-ff", "slurm", "42", "process"),
        ("MIG-1", "slurm", "42", "process"),
        ("MIG-2", None, None, None),
    ]
    assert cells(rows_in(tmp_path, "gpu_processes"), "gpu_uuid", "pid", "proc_id", "comm") == [
        ("GPU-aa", 8, f"{BOOT}-1-8", "python"),
        ("GPU-bb", 8, f"{BOOT}-1-8", "python"),
        ("GPU-bb", 77, None, None),
        ("MIG-1", 77, None, None),
    ]
    node = document_in(tmp_path, "nodes.json")[0]
    assert (node["gpus"], node["gpu_name"], node["mem_mb"]) == (6, "H200", 8192)


def test_gpu_rows_that_come_late_stand_at_their_own_time(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        block_of(1000, [gpu_of(1000, "GPU-a", gpu_busy_ratio=0.0)]),
        block_of(2000, [gpu_of(1900, "GPU-b"), gpu_of(1200, "GPU-a"), gpu_of(900, "GPU-b")]),
    )
    parse_audited(tmp_path)
    assert cells(rows_in(tmp_path, "gpu_metrics"), "ts_ms", "gpu_uuid", "gpu_busy_ratio") == [
        (AT + 900, "GPU-b", None),
        (AT + 1000, "GPU-a", 0.0),
        (AT + 1200, "GPU-a", None),
        (AT + 1900, "GPU-b", None),
    ]
