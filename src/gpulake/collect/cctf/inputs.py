"""Finds the files of a run: in a run directory, in its folder cctf or CTS, or below."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpulake.core.errors import InputError
from gpulake.core.lines import text_lines
from gpulake.core.tables import cctf_tables
from gpulake.core.types import BadRow

FOLDERS = ("cctf", "CTS")
DEEPEST = 4


def has_files(folder: Path) -> bool:
    return any((folder / table.file).is_file() for table in cctf_tables().values())


def output_folder(path: Path) -> Path:
    """The folder with the files of the run at `path`."""
    for name in FOLDERS:
        if has_files(path / name):
            return path / name
    if not path.is_dir():
        raise InputError(f"no folder at {path}", "name a run directory, or its folder cctf")
    if (path / "segments").is_dir() or (path / "node_meta.json").is_file() or not has_files(path):
        raise InputError(f"{path} has no parsed files", f"parse it first: gpulake collect parse {path}")
    return path


def output_folders(path: Path, besides: Path) -> list[Path]:
    """All such folders at or below `path`, except one."""
    found = sorted(_below(path, DEEPEST))
    found = [folder for folder in found if folder.resolve() != besides.resolve()]
    if not found:
        output_folder(path)
        raise InputError(f"{path} has no parsed files", f"parse it first: gpulake collect parse {path}")
    return found


def _below(path: Path, depth: int) -> Iterator[Path]:
    inner = [path / name for name in FOLDERS if has_files(path / name)]
    if inner:
        yield inner[0]
    elif has_files(path) and not (path / "segments").is_dir() and not (path / "node_meta.json").is_file():
        yield path
    elif depth and path.is_dir():
        for child in path.iterdir():
            if child.is_dir() and not child.is_symlink():
                yield from _below(child, depth - 1)


def rows_of(path: Path, bad: Callable[[int, str], None]) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines; `bad` gets the number and the reason of other lines."""
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            bad(number, line.reason)
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if line.strip():
                bad(number, "it is no JSON")
            continue
        if isinstance(row, dict):
            yield row
        else:
            bad(number, "it is no object")
