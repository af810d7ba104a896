"""Kernel logs as they lie about: every line lands, and what it tells of reaches the events of its node."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."
KILL = "Out of memory: Killed process 9 (python) total-vm:1kB"
WRITTEN_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def built(folder: Path, *paths: Path) -> Flow:
    flow = Flow(Config(lake=folder / "lake", threads=1))
    flow.land(list(paths))
    flow.build(["silver_node_events"])
    return flow


def test_an_event_has_its_node_and_its_time_whatever_the_line_says_of_it(tmp_path: Path) -> None:
    since_boot = tmp_path / "n1.dmesg.log"
    since_boot.write_text(f"[    1.000] {XID}\n[   61.500] {KILL}\n[   61.600] {KILL}\n[  121.000] eth0: renamed\n")
    os.utime(since_boot, (WRITTEN_AT.timestamp(), WRITTEN_AT.timestamp()))
    dated = tmp_path / "n2-kern.log"
    dated.write_text(f"kern  :warn  : 2025-01-21T04:41:44,283302+00:00 {XID}\n")
    flow = built(tmp_path, since_boot, dated)
    columns = "node_id, happened_at, kind, subject, code, pid, message, source"
    events = rows_of(flow.lake, f"SELECT {columns} FROM silver_node_events ORDER BY happened_at")
    assert [tuple(event.values()) for event in events] == [
        ("n2", datetime(2025, 1, 21, 4, 41, 44, 283302, UTC), "xid", "0000:3b:00", 79, 7, XID, "kernel"),
        ("n1", datetime(2026, 1, 2, 3, 2, 5, tzinfo=UTC), "xid", "0000:3b:00", 79, 7, XID, "kernel"),
        ("n1", datetime(2026, 1, 2, 3, 3, 5, 500_000, UTC), "oom_kill", "python", None, 9, KILL, "kernel"),
    ]


def test_a_folder_is_searched_for_kernel_logs_and_other_logs_are_left_alone(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "dmesg.txt").write_text("[ 1.0] hello\n")
    (raw / "train.log").write_text("step 1 loss 2.0\n")
    result = Flow(Config(lake=tmp_path / "lake", threads=1)).land([raw])
    landings, unknown = result.landings, result.unknown
    assert [(landing.table, landing.rows_landed) for landing in landings] == [("bronze_kernel_log", 1)]
    assert unknown == ()


@pytest.mark.real
def test_every_real_kernel_log_lands_whole(real_data: Path, tmp_path: Path) -> None:
    names = ("dmesg", "kmsg")
    paths = [
        path
        for path in sorted((real_data / "node_logs").rglob("*"))
        if path.is_file() and any(name in path.name for name in names)
    ]
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    landings = flow.land(paths).landings
    assert len(landings) == len(paths) == 10
    assert sum(landing.rows_quarantined for landing in landings) == 0
    codes = rows_of(
        flow.lake, "SELECT code, count(*) AS n FROM bronze_kernel_log WHERE kind = 'xid' GROUP BY code ORDER BY code"
    )
    assert codes == [{"code": 13, "n": 16}, {"code": 43, "n": 1}, {"code": 119, "n": 5}]
