"""Metadata of a run, known before its first row, with the field names of the published format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpulake import __version__
from gpulake.collect.identity import Identity
from gpulake.collect.rundir import RunDir, read_object
from gpulake.collect.settings import Settings
from gpulake.collect.sources.nic import default_interfaces
from gpulake.core.disk import replace_text


def write_metas(run: RunDir, identity: Identity, settings: Settings) -> None:
    """Writes node_meta.json, link_meta.json and run_meta.json, each atomically. Raises OSError."""
    iface = settings.interface or next(iter(default_interfaces(Path("/proc"))), "")
    _write(run.node_meta, node_meta(identity, iface))
    _write(run.link_meta, link_meta(iface))
    # Keys that other tools wrote, such as the load, are kept.
    _write(run.run_meta, read_object(run.run_meta) | run_meta(identity, settings))


def node_meta(identity: Identity, iface: str) -> dict[str, Any]:
    return {
        "run_id": identity.run_id,
        "node": identity.node_id,
        "stage": identity.stage,
        "host": identity.host_name,
        "iface": iface,
        "cpu_cores": identity.cpu_cores,
        "mem_mb": identity.memory_bytes >> 20,
        "cpu_model": identity.cpu_model,
        "cpu_freq_mhz": identity.cpu_freq_mhz,
        "host_id": identity.host_id,
    }


def link_meta(iface: str) -> dict[str, Any]:
    """The propagation delay is unknown until round trips are sampled."""
    try:
        megabits = int((Path("/sys/class/net") / iface / "speed").read_text())
    except (OSError, ValueError):
        megabits = 0
    return {"iface": iface, "BW_bps": max(megabits, 0) * 1_000_000, "PR_s": None}


def run_meta(identity: Identity, settings: Settings) -> dict[str, Any]:
    return {
        "run_id": identity.run_id,
        "node_id": identity.node_id,
        "host_id": identity.host_id,
        "boot_id": identity.boot_id,
        "stage": identity.stage,
        "gpulake": __version__,
        "options": {name: _plain(value) for name, value in asdict(settings).items()},
    }


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    return None if value == float("inf") else value


def _write(path: Path, content: Mapping[str, Any]) -> None:
    replace_text(path, json.dumps(content, indent=2) + "\n")
