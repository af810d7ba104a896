"""The lake's format is a number in gpulake.json. Each step makes a lake of one format one of the next.

1   bronze, quarantine, builds, gold, journals
2   archive: a program that does not know it would build without the past
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.config import LAKE_MARKER
from gpulake.core.disk import replace_text
from gpulake.core.errors import LakeError

NEWEST = 2
OLDEST = 1


@dataclass(frozen=True)
class Step:
    to: int
    what: str
    act: Callable[[Path], None] = lambda _: None  # idempotent: it is done again after a crash


STEPS: Mapping[int, Step] = {1: Step(2, "may have an archive of rolled-up samples; no file is changed")}


def format_of(root: Path) -> int:
    """An error where the lake is of a format that this program does not know."""
    try:
        version = json.loads((root / LAKE_MARKER).read_text(encoding="utf-8"))["format"]
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise LakeError(f"the lake at {root} has no readable {LAKE_MARKER}: {error}", "restore it") from error
    if not isinstance(version, int) or version < OLDEST:
        raise LakeError(f"the lake at {root} has format {version!r}", f"formats are {OLDEST} to {NEWEST}: restore it")
    if version > NEWEST:
        raise LakeError(
            f"the lake at {root} has format {version}, and this gpulake knows formats up to {NEWEST}",
            "use the version of gpulake that wrote it, or a later one",
        )
    return version


def pending(root: Path) -> list[Step]:
    return [STEPS[version] for version in range(format_of(root), NEWEST)]


def migrate(root: Path) -> list[Step]:
    """The caller writes to the lake. The number is put after each step."""
    steps = pending(root)
    for step in steps:
        step.act(root)
        put_format(root, step.to)
    return steps


def put_format(root: Path, version: int = NEWEST) -> None:
    replace_text(root / LAKE_MARKER, json.dumps({"format": version}))
