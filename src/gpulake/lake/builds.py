"""Builds are immutable files; a pointer names the one that readers use. Publishing is one rename."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.disk import sync

POINTER = "CURRENT"
SUFFIX = ".duckdb"


@dataclass(frozen=True)
class Builds:
    folder: Path

    def current(self) -> Path | None:
        pointer = self.folder / POINTER
        try:
            return self.folder / pointer.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None

    def publish(self, staged: Path, build_id: str, keep: int) -> None:
        target = self.folder / f"{build_id}{SUFFIX}"
        sync(staged)
        staged.replace(target)
        replace_text(self.folder / POINTER, target.name)
        self._prune(keep)

    def _prune(self, keep: int) -> None:
        current = self.current()
        older = sorted(path for path in self.folder.glob(f"*{SUFFIX}") if path != current)
        for path in older[: max(0, len(older) - (keep - 1))]:
            # A reader that has it open keeps reading: the file goes when the last reader closes it.
            path.unlink()


def replace_text(path: Path, content: str) -> None:
    """The whole new content or the whole old one, whatever happens."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(content, encoding="utf-8")
    sync(fresh)
    fresh.replace(path)
    sync(path.parent)
