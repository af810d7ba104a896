"""A collected run by hand: two nodes with GPUs and one at the edge, one GPU hot, and requests across all three."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RUN = "night1"
BEGAN_AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
TICKS = 120
INTERVAL_MS = 10_000
NODES = {"gpu01": "h-gpu01", "gpu02": "h-gpu02", "edge1": "h-edge1"}
COMMANDS = {100: "train.py", 101: "loader", 102: "<b>nobody</b>", 103: "sshd"}
HOT = "GPU-01-1"  # of gpu01
LONG_TRACE, LONG_TRACE_SPANS = "t-long", 250
HOSTILE_PATH = "/<script>alert('path')</script>"
GIB = 1 << 30
Row = dict[str, Any]


def write_run(folder: Path) -> Path:
    """The folder that lands."""
    run = folder / RUN / "cctf"
    run.mkdir(parents=True)
    whole = {"nodes.json": list(_nodes()), "links.json": list(_links()), "run_meta.json": {"run_id": RUN, "meta": {}}}
    for name, document in whole.items():
        (run / name).write_text(json.dumps(document))
    lines = {
        "host_metrics": _hosts(),
        "link_metrics": _traffic(),
        "proc_metrics": _processes(),
        "gpu_metrics": _gpus(),
        "node_events": _events(),
        "invocations": _invocations(),
    }
    for name, rows in lines.items():
        (run / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def at_ms(tick: float) -> int:
    return int(BEGAN_AT.timestamp() * 1000 + tick * INTERVAL_MS)


def _place(node: str) -> Row:
    return {"node": node, "host_id": NODES[node], "stage": "edge" if node == "edge1" else "cloud"}


def _nodes() -> Iterator[Row]:
    for node, host in NODES.items():
        gpus = {} if node == "edge1" else {"gpus": 2, "gpu_name": "NVIDIA H100"}
        yield {
            "node_id": node, "host_id": host, "host_name": node, "run_id": RUN, "stage": _place(node)["stage"],
            "cpu_cores": 8, "mem_mb": 65536, "cpu_model": "Chip", "cpu_freq_mhz": 2400, **gpus,
        }  # fmt: skip


def _links() -> Iterator[Row]:
    for node, host in NODES.items():
        yield {"u": node, "v": f"{node}.net", "BW_bps": 10**10, "PR_s": 0.0001, "host_id": host, "iface": "eth0"}


def _hosts() -> Iterator[Row]:
    for tick in range(TICKS):
        for number, node in enumerate(NODES):
            busy = 20.0 + 10 * number + tick % 30
            free = (40 - number) * GIB - tick * (1 << 26)
            yield {
                "ts_ms": at_ms(tick), **_place(node), "cpu_util": busy, "cpu_user_ratio": busy / 100,
                "mem_free_mb": free / 1e6, "memory_total_bytes": 64 * GIB, "memory_available_bytes": free,
                "load_1m": busy / 12, "processes_running": 3, "oom_kills_total": int(tick > 60 and node == "gpu02"),
            }  # fmt: skip


def _traffic() -> Iterator[Row]:
    for tick in range(TICKS):
        for number, node in enumerate(NODES):
            received, sent = (number + 1) * 1_000_000.0 + tick * 1000, 500_000.0 * (number + 1)
            yield {
                "ts_ms": at_ms(tick), **_place(node), "link": f"{node}.nic", "iface": "eth0", "rx_Bps": received,
                "tx_Bps": sent, "rx_errors_total": tick // 40 if node == "edge1" else 0, "is_up": True,
                "speed_bits_per_second": 10**10, "rtt_seconds": 0.0002,
            }  # fmt: skip


def _processes() -> Iterator[Row]:
    for tick in range(TICKS):
        for number, (pid, command) in enumerate(COMMANDS.items()):
            cpu_ms = INTERVAL_MS * (3 - number) if number < 3 else 0
            yield {
                "ts_ms": at_ms(tick), **_place("gpu01"), "pid": pid, "proc_id": f"b-{pid}", "comm": command, "ppid": 1,
                "rss_kb": (4 - number) * 100_000 + tick, "cpu_ms": cpu_ms, "dt_ms": INTERVAL_MS, "threads": 4,
                "owner_kind": "slurm" if number < 2 else "unattributed", "owner_id": "80" if number < 2 else "",
            }  # fmt: skip


def _gpus() -> Iterator[Row]:
    """One of four runs hot and is held back; one stands idle though a job has it."""
    for tick in range(TICKS):
        for number in range(4):
            node, index = f"gpu0{number // 2 + 1}", number % 2
            uuid = f"GPU-0{number // 2 + 1}-{index}"
            is_hot, is_idle = uuid == HOT, uuid == "GPU-02-1"
            watts = 650.0 if is_hot else 80.0 if is_idle else 500.0
            yield {
                "ts_ms": at_ms(tick), **_place(node), "gpu_uuid": uuid, "gpu_index": index, "gpu_name": "NVIDIA H100",
                "pci_bus_id": f"00000000:{number + 1}B:00.0", "gpu_busy_ratio": 0.0 if is_idle else 0.9,
                "memory_used_bytes": (0 if is_idle else 60) * GIB, "memory_total_bytes": 80 * GIB,
                "power_watts": watts, "power_limit_watts": 700.0, "energy_joules_total": watts * tick * 10,
                "temperature_celsius": 70.0 + tick % 30 if is_hot else 55.0 + tick % 5,
                "slowdown_temperature_celsius": 90.0, "clock_event_reasons": 0x40 if is_hot and tick % 30 > 20 else 0,
                "ecc_corrected_total": tick if is_hot else 0, "processes": 0 if is_idle else 1,
                "owner_kind": "slurm", "owner_id": "80", "owner_evidence": "environment" if is_idle else "process",
            }  # fmt: skip


def _events() -> Iterator[Row]:
    lost = "NVRM: Xid (PCI:0000:2b:00): 79, pid=100, GPU has fallen off the bus."
    shown = [
        ("gpu01", 110.0, "xid", "0000:2b:00", 79, lost, "kernel"),
        ("gpu02", 61.0, "oom_kill", "loader", None, "Out of memory: Killed process 101 (<i>loader</i>)", "kernel"),
        ("edge1", 90.0, "link_down", "eth0", None, "eth0: link is down", "kernel"),
    ]
    for node, tick, kind, subject, code, message, source in shown:
        named = {"kind": kind, "subject": subject, "code": code, "message": message, "source": source}
        yield {"ts_ms": at_ms(tick), **_place(node), **named}


def _span(trace: str, span: str, parent: str | None, node: str, begin: float, end: float, **more: Any) -> Row:
    return {
        "trace_id": trace, "span_id": span, "parent_id": parent, "module_id": f"m-{node}", "instance_id": "pid-1",
        "ts_enqueue": at_ms(begin) - 40, "ts_start": at_ms(begin), "ts_end": at_ms(end), **_place(node),
        "method": "GET", "path": "/predict", "status": 200, "pid": 100, "bytes_in": 10, "bytes_out": 1000,
        "cpu_time_ms": 5.0, **more,
    }  # fmt: skip


def _invocations() -> Iterator[Row]:
    yield _span("t-1", "root", None, "edge1", 1.0, 2.0)
    yield _span("t-1", "infer", "root", "gpu01", 1.1, 1.8, path=HOSTILE_PATH)
    yield _span("t-1", "load", "infer", "gpu02", 1.2, 1.4, path="/load", status=500)
    yield _span("t-1", "rank", "root", "gpu02", 1.8, 1.9, path="/rank")
    yield _span("t-1", "orphan", "nobody-knows", "gpu02", 1.5, 1.6, path="/orphan")
    # Whoever writes spans may write nonsense: each the other's parent, and one its own.
    yield _span("t-2", "hen", "egg", "gpu01", 3.0, 3.5, path="/hen")
    yield _span("t-2", "egg", "hen", "gpu01", 3.1, 3.4, path="/egg")
    yield _span("t-2", "self", "self", "gpu01", 3.2, 3.3, path="/self")
    for number in range(LONG_TRACE_SPANS):
        parent = f"s{number // 2}" if number else None
        yield _span(LONG_TRACE, f"s{number}", parent, "gpu01", 5 + number / 100, 6 + number / 100, path="/step")
