"""Where a run keeps its files on a node: one folder a run and node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDir:
    """RUN_DIR, and the names in it."""

    path: Path

    @property
    def segments(self) -> Path:
        return self.path / "segments"

    @property
    def cctf(self) -> Path:
        return self.path / "cctf"

    @property
    def status(self) -> Path:
        """What the collector is doing; written in place, so that a full disk does not silence it."""
        return self.path / "status.json"

    @property
    def lock(self) -> Path:
        """Held by the collector as long as it lives; its pid stands in it."""
        return self.path / "collector.lock"

    @property
    def log(self) -> Path:
        return self.path / "collector.log"

    def events(self, adapter: str, pid: int) -> Path:
        """Where an adapter appends invocations, a line each."""
        return self.path / f"events.{adapter}.{pid}.jsonl"

    @property
    def placement_events(self) -> Path:
        return self.path / "placement_events.jsonl"

    @property
    def system_stats(self) -> Path:
        return self.path / "system_stats.jsonl"

    @property
    def node_meta(self) -> Path:
        return self.path / "node_meta.json"

    @property
    def link_meta(self) -> Path:
        return self.path / "link_meta.json"

    @property
    def run_meta(self) -> Path:
        return self.path / "run_meta.json"

    @property
    def module_inventory(self) -> Path:
        return self.path / "module_inventory.json"


def run_dir(base: Path, run_id: str, node_id: str) -> RunDir:
    return RunDir(base / run_id / node_id)
