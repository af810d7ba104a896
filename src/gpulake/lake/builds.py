"""Builds are immutable files; a pointer names the one that readers use. Publishing is one rename."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.disk import replace, replace_text
from gpulake.core.errors import LakeError

POINTER = "CURRENT"
SUFFIX = ".duckdb"
_NAME = re.compile(rf"[\w-]+{re.escape(SUFFIX)}", re.ASCII)


@dataclass(frozen=True)
class Builds:
    folder: Path

    def current(self) -> Path | None:
        pointer = self.folder / POINTER
        try:
            content = pointer.read_bytes()
        except FileNotFoundError:
            return None
        name = content.decode(errors="replace").strip()
        if not _NAME.fullmatch(name):
            raise LakeError(f"{pointer} names no build: {content[:80]!r}", "make it anew: gpulake build")
        return self.folder / name

    def publish(self, staged: Path, build_id: str, keep: int) -> None:
        target = self.folder / f"{build_id}{SUFFIX}"
        replace(staged, target)
        replace_text(self.folder / POINTER, target.name)
        self._prune(keep)

    def _prune(self, keep: int) -> None:
        current = self.current()
        older = sorted(path for path in self.folder.glob(f"*{SUFFIX}") if path != current)
        for path in older[: max(0, len(older) - (keep - 1))]:
            # A reader that has it open keeps reading: the file goes when the last reader closes it.
            path.unlink()
