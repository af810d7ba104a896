"""Rows of JSON lines: those of a collected run (core/cctf.toml), and those of a plain sampler that says all in one.

A row says by its keys what it is, so that files may be called anything and may be mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpulake.diagnose.telemetry.samples import GPU_FIELDS, Gathering, GpuSample, HostSample, NodeEvent, gpu_sample
from gpulake.formats.json_text import json_object
from gpulake.formats.plausible import is_plausible

_TIME = re.compile(r'"ts_ms"\s*:\s*(\d{9,16})\b', re.ASCII)
MEGABYTE = 1_000_000
# The keys of which a row of telemetry has at least one pair.
TELEMETRY_KEYS = tuple(
    {"ts_ms", key}
    for key in ("gpu_uuid", "gpu_util", "mem_free_mb", "memory_available_bytes", "cpu_util", "kind", "pid")
)


def is_telemetry(lines: Iterable[str]) -> bool:
    return any(keys <= row.keys() for line in lines for row in [json_object(line)] for keys in TELEMETRY_KEYS)


def read(lines: Iterable[str], gathering: Gathering, node: str) -> None:
    about: dict[str, Any] = {}
    for line in lines:
        if not line.strip():
            continue
        # Most rows of a long file are of other times: those are not parsed.
        time = _TIME.search(line, 0, 4096)
        if time is not None and not gathering.window.holds(int(time[1]) / 1000):
            gathering.counts(int(time[1]) / 1000)
            continue
        row = json_object(line)
        if not row:
            gathering.bad_rows += 1
        elif isinstance(row.get("meta"), dict):
            about = row["meta"]
        else:
            _add(row, about, gathering, node)


def _add(row: dict[str, Any], about: dict[str, Any], gathering: Gathering, given: str) -> None:
    moment = _number(row, "ts_ms")
    if moment is None or not 1e9 < moment < 1e15:
        gathering.bad_rows += 1
        return
    at = moment / 1000
    if not gathering.counts(at):
        return
    node = str(row.get("node") or row.get("node_id") or given)
    if "kind" in row:
        gathering.add_event(_event(row, at, node))
    elif "pid" in row:
        return  # a process: nothing is decided by it
    elif "gpu_uuid" in row:
        measured = {field: row[field] for field in GPU_FIELDS if _is_number(row.get(field))}
        gathering.add_gpu(gpu_sample(at, node, str(row["gpu_uuid"]), measured))
    elif "gpu_util" in row or "mem_used" in row:
        gathering.add_gpu(_plain_gpu(row, about, at, node))
        gathering.add_host(_host(row, at, node))
    elif "mem_free_mb" in row or "memory_available_bytes" in row or "cpu_util" in row:
        gathering.add_host(_host(row, at, node))


def _event(row: dict[str, Any], at: float, node: str) -> NodeEvent:
    return NodeEvent(
        at_seconds=at,
        node=node,
        kind=str(row["kind"]),
        subject=str(row.get("subject") or ""),
        code=_count(row, "code"),
        pid=_count(row, "pid"),
        message=str(row.get("message") or ""),
    )


def _plain_gpu(row: dict[str, Any], about: dict[str, Any], at: float, node: str) -> GpuSample:
    busy, power = _number(row, "gpu_util"), _number(row, "power_mw")
    listed = row.get("procs")
    return GpuSample(
        at_seconds=at,
        node=node,
        gpu=str(row.get("uuid") or row.get("gpu") or about.get("uuid") or "0"),
        busy_ratio=_sound("_ratio", busy / 100 if busy is not None else None),
        memory_used_bytes=_number(row, "mem_used"),
        memory_total_bytes=_number(row, "mem_total") or _number(about, "mem_total"),
        power_watts=_sound("_watts", power / 1000 if power is not None else None),
        temperature_celsius=_sound("_celsius", _number(row, "temp_c")),
        ecc_uncorrected=_count(row, "ecc_uncorrected"),
        last_xid=_count(row, "xid"),
        clock_event_reasons=_count(row, "throttle"),
        pids=_pids(listed) if isinstance(listed, list) else None,
    )


def _pids(listed: list[Any]) -> frozenset[int]:
    """Of pairs of a pid and its memory."""
    firsts = (entry[0] for entry in listed if isinstance(entry, list) and entry)
    return frozenset(pid for pid in firsts if isinstance(pid, int))


def _host(row: dict[str, Any], at: float, node: str) -> HostSample:
    free, busy = _number(row, "mem_free_mb"), _number(row, "cpu_util")
    available = _number(row, "memory_available_bytes")
    available_mb = _number(row, "mem_available_mb")
    return HostSample(
        at_seconds=at,
        node=node,
        memory_available_bytes=available if available is not None or available_mb is None else available_mb * MEGABYTE,
        memory_free_bytes=free * MEGABYTE if free is not None else None,
        memory_total_bytes=_number(row, "memory_total_bytes"),
        cpu_busy_ratio=_sound("_ratio", busy / 100 if busy is not None else None),
        oom_kills=_count(row, "oom_kills_total"),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(row: dict[str, Any], name: str) -> float | None:
    value = row.get(name)
    return _sound(name, value) if _is_number(value) else None


def _sound(name: str, value: float | None) -> float | None:
    return value if value is not None and is_plausible(name, value) else None


def _count(row: dict[str, Any], name: str) -> int | None:
    value = _number(row, name)
    return int(value) if value is not None else None
