"""Run directories as collectors leave them, written by hand: segments of a node, a block a tick."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpulake.collect.cctf.audit import audit
from gpulake.collect.cctf.parse import parse
from gpulake.collect.rows import KIND_OF, KINDS, GpuSample, HostSample, NicSample, Process, ProcessSample, Row
from gpulake.collect.segments import Block, SegmentWriter

BOOT = "b00t"
EPOCH_MS = 1_700_000_000_000  # when the machine was booted


def header_of(**changes: Any) -> dict[str, Any]:
    """Of the node n1; what is given goes before."""
    return {
        "run_id": "night1",
        "node_id": "n1",
        "stage": "edge",
        "host_id": "0123456789ab",
        "host_name": "host1",
        "boot_id": BOOT,
        "cpu_cores": 2,
        "memory_bytes": 8 << 30,
        "cpu_model": "Chip",
        "cpu_freq_mhz": 2400,
        "ticks_per_second": 100,
        "interval_ms": 1000,
        "columns": {kind: list(row._fields) for kind, row in KINDS.items()},
        **changes,
    }


def block_of(elapsed_ms: int, rows: Iterable[Row], *, now_ms: int | None = None, tick: int | None = None) -> Block:
    by_kind: dict[str, list[list[Any]]] = {}
    for row in rows:
        by_kind.setdefault(KIND_OF[type(row)], []).append(list(row))
    now = EPOCH_MS + elapsed_ms if now_ms is None else now_ms
    return Block(tick if tick is not None else elapsed_ms, now, elapsed_ms, by_kind)


def write_session(run: Path, *blocks: Block, **changes: Any) -> None:
    """One life of a collector: its segments come after those that are there."""
    writer = SegmentWriter(run / "segments", header_of(**changes))
    for block in blocks:
        writer.append(block)
    writer.close()


def parse_session(run: Path, *blocks: Block, **changes: Any) -> None:
    write_session(run, *blocks, **changes)
    parse(run)


def host_of(busy: int, idle: int, **changes: Any) -> HostSample:
    """A host whose cores spent so many ticks; all of what is busy in programs."""
    values: dict[str, Any] = dict.fromkeys(HostSample._fields) | {
        "cpu_ticks": (busy, 0, 0, idle, 0, 0, 0, 0),
        "core_ticks": (),
        "disks": {},
        **changes,
    }
    return HostSample(**values)


def nic_of(rx: int, tx: int, **changes: Any) -> NicSample:
    values: dict[str, Any] = dict.fromkeys(NicSample._fields) | {
        "iface": "eth0",
        "rx_bytes_total": rx,
        "tx_bytes_total": tx,
        "is_main": True,
        **changes,
    }
    return NicSample(**values)


def process_of(pid: int, start_ticks: int, **changes: Any) -> Process:
    values: dict[str, Any] = {
        "proc_id": f"{BOOT}-{start_ticks}-{pid}",
        "pid": pid,
        "ppid": 1,
        "comm": "python",
        "start_ticks": start_ticks,
        "owner_kind": "unattributed",
        "owner_id": "",
        "given_gpus": "",
        **changes,
    }
    return Process(**values)


def sample_of(pid: int, ticks: int, rss_kb: int = 4) -> ProcessSample:
    return ProcessSample(pid, ticks, 0, rss_kb * 1024, 1, None, None)


def gpu_of(elapsed_ms: int, uuid: str, **changes: Any) -> GpuSample:
    return GpuSample(elapsed_ms, uuid, **changes)


def parse_audited(run: Path) -> dict[str, Any]:
    """Parses, and compares its audit with one of the files: it counts rows of processes as it writes them."""
    found = parse(run)
    assert found == audit(run)
    return found


def rows_in(run: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a parsed or merged file; none where there is no file."""
    folder = run / "cctf" if (run / "cctf").is_dir() else run
    path = folder / f"{table}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def document_in(run: Path, name: str) -> Any:
    folder = run / "cctf" if (run / "cctf").is_dir() else run
    return json.loads((folder / name).read_text(encoding="utf-8"))


def cells(rows: Iterable[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def write_lines(path: Path, rows: Iterable[Mapping[str, Any] | str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
