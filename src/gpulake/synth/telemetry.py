"""Telemetry of a few nodes for half a day, as gpulake collect would have recorded it: one folder that lands as a run.

It is made from the jobs that ran there. Three GPUs misbehave on purpose: one is hot, those of the slow machine (or of
another) are held back, one counts memory errors and ends with an Xid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.synth.draws import Ids, generator
from gpulake.synth.incidents import Incident
from gpulake.synth.nodes import BEGINS_AT, INTERVAL_SECONDS, TICKS, Node, observed_nodes
from gpulake.synth.trace import Trace
from gpulake.synth.usage import Usage
from gpulake.synth.writer import Folder

RUN = "synth-half-a-day"
GIB = 1 << 30
ROOM_CELSIUS = 30.0
SPELLS = {"hot_gpu": (60, 150), "throttled_gpu": (30, 330), "gpu_errors": (200, 300)}
"""From tick to tick."""
NODES = {"hot_gpu": "MISC", "throttled_gpu": "T4", "gpu_errors": "V100"}
IDLE, POWER_BRAKE, HEAT = 0x1, 0x88, 0x60  # NVML's reasons for lower clocks
PROCESS_EVERY = 5  # ticks: processes are many
REQUEST_EVERY = 6
Row = dict[str, Any]


def write_telemetry(folder: Folder, trace: Trace, usage: Usage, ids: Ids) -> list[Incident]:
    """The files of a collected run. Returns what was made to go wrong."""
    nodes = observed_nodes(trace, usage, ids)
    rng = generator(trace.seed, 25)
    for name, document in (
        ("nodes.json", [_described(node) for node in nodes]),
        ("links.json", [_link(node) for node in nodes]),
        ("run_meta.json", {"run_id": RUN, "meta": {"is_generated": True}}),
    ):
        folder.write(name, json.dumps(document, indent=1).encode())
    for name, make in (
        ("gpu_metrics", _gpus),
        ("host_metrics", _hosts),
        ("link_metrics", _traffic),
        ("proc_metrics", _processes),
        ("node_events", _events),
        ("invocations", _requests),
    ):
        rows = (row for node in nodes for row in make(node, rng))
        folder.write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    return [_incident(kind, node) for kind, place in NODES.items() for node in nodes if node.gpu_type == place]


def _at_ms(tick: float) -> int:
    return int((BEGINS_AT + tick * INTERVAL_SECONDS) * 1000)


def _place(node: Node) -> Row:
    return {"node": node.name, "host_id": node.name, "stage": "cloud"}


def _is_spell(kind: str, node: Node, index: int) -> NDArray[np.bool_]:
    """The ticks at which a GPU misbehaves: the last one of its node, or all of them where the node is slow."""
    first, last = SPELLS[kind]
    tick = np.arange(TICKS)
    is_chosen = node.gpu_type == NODES[kind] and (kind == "throttled_gpu" or index == node.gpus - 1)
    return (tick >= first) & (tick < last) & is_chosen


def _described(node: Node) -> Row:
    return {
        "node_id": node.name, "host_id": node.name, "host_name": node.name, "run_id": RUN, "stage": "cloud",
        "cpu_cores": node.cores, "mem_mb": node.memory_gb * 1024, "cpu_model": "generated", "cpu_freq_mhz": 2500,
        "gpus": node.gpus, "gpu_name": node.board["name"],
    }  # fmt: skip


def _link(node: Node) -> Row:
    ends = {"u": node.name, "v": f"{node.name}.net", "host_id": node.name, "iface": "eth0"}
    return {**ends, "BW_bps": 10**10, "PR_s": 0.0001}


def _gpus(node: Node, rng: np.random.Generator) -> Iterator[Row]:
    for index in range(node.gpus):
        yield from _gpu(node, index, rng)


def _gpu(node: Node, index: int, rng: np.random.Generator) -> Iterator[Row]:
    board = node.board
    is_hot, is_held_back = _is_spell("hot_gpu", node, index), _is_spell("throttled_gpu", node, index)
    has_errors = _is_spell("gpu_errors", node, index)
    busy = np.where(is_hot, np.maximum(node.busy[index], 0.9), node.busy[index])
    # At the clocks that are left the same work takes longer.
    busy = np.round(np.where(is_held_back, np.minimum(busy / 0.4, 1.0), busy), 3)
    clock = np.where(busy > 0, np.where(is_held_back | is_hot, 0.4, 1.0), 0.2) * board["megahertz"]
    load = busy**0.8 * np.where(is_held_back, 0.5, 0.92)
    watts = board["idle_watts"] + (board["busy_watts"] - board["idle_watts"]) * load
    celsius = _celsius(0.4 * load + 0.6 * node.busy.mean(axis=0), board["slowdown_celsius"], rng)
    celsius = np.where(is_hot, board["slowdown_celsius"] + rng.integers(1, 5, TICKS), celsius)
    reasons = np.where(is_hot, HEAT, np.where(is_held_back, POWER_BRAKE, np.where(busy > 0, 0, IDLE)))
    errors = np.cumsum(np.where(has_errors, rng.integers(0, 4, TICKS), 0))
    joules = np.cumsum(watts) * INTERVAL_SECONDS
    used = np.minimum(node.memory_gib[index], 0.98 * board["memory_gib"])
    named = {
        **_place(node), "gpu_uuid": node.uuid(index), "gpu_index": index, "gpu_name": board["name"],
        "pci_bus_id": f"00000000:{index + 16:02X}:00.0", "memory_total_bytes": int(board["memory_gib"] * GIB),
        "power_limit_watts": float(board["busy_watts"]), "slowdown_temperature_celsius": board["slowdown_celsius"],
    }  # fmt: skip
    for tick in range(TICKS):
        yield {
            "ts_ms": _at_ms(tick), **named, "gpu_busy_ratio": float(busy[tick]),
            "memory_busy_ratio": round(0.6 * float(busy[tick]), 3), "memory_used_bytes": int(used[tick] * GIB),
            "power_watts": round(float(watts[tick]), 1), "energy_joules_total": round(float(joules[tick])),
            "temperature_celsius": int(celsius[tick]), "sm_clock_hertz": int(clock[tick]) * 1_000_000,
            "clock_event_reasons": int(reasons[tick]), "ecc_corrected_total": int(errors[tick]),
            "ecc_uncorrected_total": int(has_errors[: tick + 1].any() and not has_errors[tick]),
            "pcie_replays_total": 0, **_owner(node, index, tick),
        }  # fmt: skip


def _celsius(load: NDArray[np.float64], slowdown: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Well below the slowdown under full load, of which most is the node's: boards warm each other's air."""
    wanted = ROOM_CELSIUS + (slowdown - 14 - ROOM_CELSIUS) * load + rng.normal(0.0, 1.5)
    followed = np.convolve(wanted, np.ones(4) / 4, mode="full")[: len(wanted)]
    followed[:3] = wanted[:3]
    return np.rint(followed + rng.normal(0.0, 0.5, len(wanted)))


def _owner(node: Node, index: int, tick: int) -> Row:
    count = int(node.holders[index, tick])
    if count == 0:
        return {"processes": 0}
    alone = {"owner_kind": "container", "owner_id": node.runs[node.holder[index, tick]].worker}
    return {"processes": count, **(alone if count == 1 else {"owner_kind": "several"}), "owner_evidence": "process"}


def _hosts(node: Node, rng: np.random.Generator) -> Iterator[Row]:
    cores, memory = np.full(TICKS, 0.06 * node.cores), np.full(TICKS, 0.04 * node.memory_gb)
    for run in node.runs:
        cores[run.first : run.last] += run.cores
        memory[run.first : run.last] += run.memory_gb
    busy = np.clip(cores / node.cores * (1 + 0.05 * rng.standard_normal(TICKS)), 0.01, 0.99)
    free = np.maximum(node.memory_gb - memory, 0.05 * node.memory_gb)
    for tick in range(TICKS):
        share, available = float(busy[tick]), int(free[tick] * GIB)
        yield {
            "ts_ms": _at_ms(tick), **_place(node), "cpu_util": round(100 * share, 2),
            "cpu_user_ratio": round(0.8 * share, 4), "cpu_system_ratio": round(0.2 * share, 4),
            "mem_free_mb": round(available / 1e6), "memory_total_bytes": node.memory_gb * GIB,
            "memory_available_bytes": available, "load_1m": round(share * node.cores, 2),
            "processes_running": max(1, round(share * node.cores)), "oom_kills_total": 0,
        }  # fmt: skip


def _traffic(node: Node, rng: np.random.Generator) -> Iterator[Row]:
    received = 2e7 + 2e8 * node.busy.mean(axis=0) * (1 + 0.1 * rng.standard_normal(TICKS))
    for tick in range(TICKS):
        yield {
            "ts_ms": _at_ms(tick), **_place(node), "link": f"{node.name}.nic", "iface": "eth0",
            "rx_Bps": round(float(received[tick])), "tx_Bps": round(0.4 * float(received[tick])),
            "rx_errors_total": 0, "tx_errors_total": 0, "is_up": True, "speed_bits_per_second": 10**10,
            "rtt_seconds": 0.0002,
        }  # fmt: skip


def _processes(node: Node, rng: np.random.Generator) -> Iterator[Row]:
    for pid, run in enumerate(node.runs, start=1000):
        for tick in range(run.first - run.first % -PROCESS_EVERY, run.last, PROCESS_EVERY):
            spent = PROCESS_EVERY * INTERVAL_SECONDS * 1000
            yield {
                "ts_ms": _at_ms(tick), **_place(node), "pid": pid, "proc_id": f"{run.worker}-{pid}", "comm": run.name,
                "ppid": 1, "rss_kb": int(run.memory_gb * (GIB >> 10)), "threads": 8, "dt_ms": spent,
                "cpu_ms": round(run.cores * spent * float(rng.uniform(0.9, 1.1))), "owner_kind": "container",
                "owner_id": run.worker,
            }  # fmt: skip


def _events(node: Node, rng: np.random.Generator) -> Iterator[Row]:
    if node.gpu_type != NODES["gpu_errors"]:
        return
    bus = f"0000:{node.gpus - 1 + 16:02x}:00"
    yield {
        "ts_ms": _at_ms(SPELLS["gpu_errors"][1]) + int(rng.integers(0, 1000)), **_place(node), "kind": "xid",
        "subject": bus, "code": 48, "source": "kernel",
        "message": f"NVRM: Xid (PCI:{bus}): 48, pid=1000, An uncorrectable double bit error",
    }  # fmt: skip


def _requests(node: Node, rng: np.random.Generator) -> Iterator[Row]:
    """What its services answer: a request, and the model behind it."""
    for number, tick in enumerate(range(0, TICKS, REQUEST_EVERY)):
        begin, wait, run = _at_ms(tick), int(rng.exponential(20)), 20 + int(rng.exponential(80))
        trace = f"{node.name}-{number}"
        for span, parent, path, late, spent in (
            ("request", None, "/predict", 0, wait + run + 5),
            ("model", "request", "/infer", wait, run),
        ):
            yield {
                "trace_id": trace, "span_id": span, "parent_id": parent, "module_id": f"serving-{span}",
                "instance_id": "pid-900", "ts_enqueue": begin, "ts_start": begin + late, "ts_end": begin + late + spent,
                **_place(node), "method": "GET", "path": path, "status": 500 if rng.random() < 0.02 else 200,
                "pid": 900, "bytes_in": 400, "bytes_out": 2000, "cpu_time_ms": 5.0,
            }  # fmt: skip


def _incident(kind: str, node: Node) -> Incident:
    index = range(node.gpus) if kind == "throttled_gpu" else [node.gpus - 1]
    first, last = (BEGINS_AT + tick * INTERVAL_SECONDS for tick in SPELLS[kind])
    expect = {
        "hot_gpu": "this GPU is above the temperature at which it slows down, and is held back for heat",
        "throttled_gpu": "the clocks of these GPUs are held back for power, at 0.4 of what they could be",
        "gpu_errors": "this GPU corrects memory errors, then has one that it cannot correct, and Xid 48",
    }
    magnitude = {"hot_gpu": node.board["slowdown_celsius"], "throttled_gpu": 0.4, "gpu_errors": 48.0}
    return Incident(
        kind=kind,
        first_second=first,
        last_second=last,
        subject="gpu",
        subject_ids=tuple(node.uuid(place) for place in index),
        magnitude=float(magnitude[kind]),
        expect=expect[kind],
    )
