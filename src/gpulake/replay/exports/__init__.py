"""One file a simulator. An export writes a workload, and the machines to run it on, in that simulator's format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpulake.core.registry import Registry
from gpulake.replay.workload import Workload


@dataclass(frozen=True)
class Exported:
    """The written files, and the notes on them (export.json)."""

    folder: Path
    summary: dict[str, Any]


class Export(Protocol):
    def write(self, workload: Workload, folder: Path) -> Exported:
        """All of it or nothing: the folder appears once everything in it is written and has been checked."""
        ...


EXPORTS: Registry[Callable[..., Export]] = Registry("export", "gpulake.replay.exports")
