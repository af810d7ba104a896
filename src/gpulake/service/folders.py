"""Folders in which files appear: which of them are complete, and have not landed as they are now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST_FILES = 500  # of one landing: they are the words of a command
UNFINISHED = (".part", ".tmp", ".swp", "~")  # names under which programs write what they rename later
Look = tuple[int, int]  # size, and time of the last change


class Folders:
    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._seen: dict[Path, Look] = {}
        self._taken: dict[Path, Look] = {}

    @property
    def missing(self) -> list[Path]:
        return [folder for folder in self._folders if not folder.is_dir()]

    def ready(self) -> list[Path]:
        """Those that did not change since the last call, and differ from what was taken."""
        now = dict(self._look())
        ready = [path for path, look in now.items() if self._seen.get(path) == look != self._taken.get(path)]
        self._seen = now
        self._taken = {path: look for path, look in self._taken.items() if path in now}
        return sorted(ready)[:MOST_FILES]

    def take(self, paths: Sequence[Path]) -> None:
        """They are not ready again until they change."""
        self._taken.update({path: self._seen[path] for path in paths})

    def _look(self) -> Iterator[tuple[Path, Look]]:
        for folder in self._folders:
            for place, inner, names in os.walk(folder):
                inner[:] = [name for name in inner if not name.startswith(".")]
                for name in names:
                    path = Path(place, name)
                    if not name.startswith(".") and not name.endswith(UNFINISHED):
                        try:
                            found = path.stat()
                        except OSError:  # it went away
                            continue
                        if path.is_file():
                            yield path, (found.st_size, found.st_mtime_ns)
