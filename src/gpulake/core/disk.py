"""What must outlast a power cut: a file is synced before its name, and a name before anything that rests on it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Waits until everything in the folder's file system is on the disk."""
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Sync the parents of a folder: if a power cut loses its name, the synced files inside are lost too."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode, parents=True, exist_ok=True)
    for path in missing:
        sync(path.parent)


def make_folders(parent: Path, names: Iterable[str]) -> None:
    """Folders of one parent, whose names are synced together."""
    make_folder(parent)
    paths = [parent / name for name in names]
    is_any_missing = not all(path.exists() for path in paths)
    for path in paths:
        path.mkdir(exist_ok=True)
    if is_any_missing:
        sync(parent)


def replace(source: Path, path: Path) -> None:
    """Replaces a file atomically: after a crash there is either the complete new one or the old one."""
    sync(source)
    source.replace(path)
    sync(path.parent)


def replace_text(path: Path, content: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    # Never through a link: it may lead elsewhere.
    with fresh.open("x", encoding="utf-8") as file:
        file.write(content)
    replace(fresh, path)
