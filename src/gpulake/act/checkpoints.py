"""The last good checkpoint of a job, from its folder. Those still being written, cut off or too small do not count.

Known by their names: Megatron (iter_*), DeepSpeed (global_step*), Hugging Face (checkpoint-*), Lightning (*.ckpt), and
any folder of torch's distributed checkpoints (*.distcp and .metadata). Nothing is ever written or deleted here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Literal

from gpulake.act.weights import SUFFIXES, damage, missing_shards
from gpulake.core.errors import InputError

Kind = Literal["megatron", "deepspeed", "huggingface", "lightning", "dcp"]
MOST_ENTRIES = 200_000
LEAST_SIZE_RATIO = 0.9  # of the median of its siblings: the same model is written each time
_NAMES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("megatron", re.compile(r"iter_(\d+)")),
    ("deepspeed", re.compile(r"global_step(\d+)")),
    ("huggingface", re.compile(r"checkpoint-(\d+)")),
    ("lightning", re.compile(r".*\.ckpt")),
)
_STEP = re.compile(r"step[=_-]?(\d+)")
_LAST_NUMBER = re.compile(r"(\d+)\D*$")
_UNFINISHED = re.compile(r"(\.|_|-|^)(te?mp|partial|incomplete|writing)(\.|_|-|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    kind: Kind
    saved_at: datetime  # when the last of its files was written
    size_bytes: int
    step: int | None = None


@dataclass(frozen=True)
class Choice:
    """A checkpoint to go back to, the newest that is whole, and why others were skipped, the newest first."""

    chosen: Checkpoint | None
    newest: Checkpoint | None
    passed_over: tuple[tuple[str, str], ...] = ()


def last_good(
    folder: Path,
    before: datetime | None = None,
    before_step: int | None = None,
    not_again: Collection[str] = (),
) -> Choice:
    """The newest whole one that was saved before a time and a step, and was not tried without success."""
    found = sorted(_checkpoints(folder), key=lambda one: (one.saved_at, one.step or 0, one.path.name), reverse=True)
    usual = {
        kind: median([one.size_bytes for one in found if one.kind == kind]) for kind in {one.kind for one in found}
    }
    finished = _finished_steps(folder)
    newest: Checkpoint | None = None
    passed_over: list[tuple[str, str]] = []
    for one in found:
        why = _unfit(one, finished, usual[one.kind])
        if not why:
            newest = newest or one
            why = _unwanted(one, before, before_step, not_again)
        if not why:
            return Choice(one, newest, tuple(passed_over))
        passed_over.append((one.path.name, why))
    return Choice(None, newest, tuple(passed_over))


def _unwanted(one: Checkpoint, before: datetime | None, before_step: int | None, not_again: Collection[str]) -> str:
    if before_step is not None and one.step is not None:
        if one.step >= before_step:
            return f"was saved at step {one.step:,}, which is not before step {before_step:,}"
    elif before is not None and one.saved_at >= before:
        return f"was saved at {one.saved_at:%Y-%m-%d %H:%M:%S} UTC, which is not before {before:%Y-%m-%d %H:%M:%S}"
    return "did not help before" if str(one.path) in not_again else ""


def _unfit(one: Checkpoint, finished: dict[Kind, int], usual_bytes: float) -> str:
    if _UNFINISHED.search(one.path.name):
        return "is still being written"
    if one.step is not None and one.step > finished.get(one.kind, one.step):
        return f"is not finished: the last that is was saved at step {finished[one.kind]:,}"
    if one.size_bytes < LEAST_SIZE_RATIO * usual_bytes:
        return f"has {one.size_bytes:,} bytes, and its siblings {usual_bytes:,.0f}"
    return _content_fault(one)


def _content_fault(one: Checkpoint) -> str:
    files = list(_files(one.path)) if one.path.is_dir() else [one.path]
    if one.path.is_dir() and (why := _folder_fault(one, {file.name for file in files})):
        return why
    for file in files:
        if _UNFINISHED.search(file.name):
            return f"{file.name} is still being written"
        if file.suffix in SUFFIXES and (why := damage(file)):
            return f"{file.name} {why}"
    return ""


def _folder_fault(one: Checkpoint, names: set[str]) -> str:
    """What a finished checkpoint has that one which was cut short may not have."""
    if not any(name.endswith(SUFFIXES) for name in names):
        return "has no weights"
    if any(name.endswith(".distcp") for name in names) and not names & {".metadata", "metadata.json"}:
        return "has no .metadata, which is written last"
    if one.kind == "huggingface":
        try:
            json.loads((one.path / "trainer_state.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return "has no trainer_state.json that can be read"
        return missing_shards(one.path)
    return ""


def _finished_steps(folder: Path) -> dict[Kind, int]:
    """The step that a training framework notes once a checkpoint is written, and not before."""
    steps: dict[Kind, int] = {}
    for kind, name, pattern in (
        ("megatron", "latest_checkpointed_iteration.txt", r"\s*(\d+)\s*"),
        ("deepspeed", "latest", r"\s*global_step(\d+)\s*"),
    ):
        try:
            with (folder / name).open("rb") as file:
                found = re.fullmatch(pattern, file.read(200).decode(errors="replace"))
        except OSError:
            continue
        if found:
            steps[kind] = int(found[1])  # type: ignore[index]
    return steps


def _checkpoints(folder: Path) -> Iterator[Checkpoint]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"cannot list the checkpoints in {folder}: {error.strerror}", "name their folder with --checkpoints"
        ) from error
    for entry in entries:
        if (kind := _kind(entry)) and (one := _checkpoint(entry, kind)):
            yield one


def _kind(entry: Path) -> Kind | None:
    for kind, pattern in _NAMES:
        if pattern.fullmatch(entry.name):
            return kind
    try:
        is_dcp = entry.is_dir() and any(
            file.name == ".metadata" or file.suffix == ".distcp" for file in entry.iterdir()
        )
    except OSError:
        return None
    return "dcp" if is_dcp else None


def _checkpoint(path: Path, kind: Kind) -> Checkpoint | None:
    files = list(_files(path)) if path.is_dir() else [path]
    sizes, times = [], []
    for file in files:
        try:
            about = file.stat()
        except OSError:
            continue
        sizes.append(about.st_size)
        times.append(about.st_mtime)
    if not times:
        return None
    return Checkpoint(path, kind, datetime.fromtimestamp(max(times), UTC), sum(sizes), step_of_name(path.name))


def step_of_name(name: str) -> int | None:
    """iter_0000500, global_step500, checkpoint-500, step-500, epoch=1-step=500.ckpt; epoch=1.ckpt has none."""
    found = _STEP.search(name) or (None if name.endswith(".ckpt") else _LAST_NUMBER.search(name))
    return int(found[1]) if found else None


def _files(folder: Path) -> Iterable[Path]:
    """Links to folders are not followed: they may lead in a circle."""
    count = 0
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            count += 1
            if count > MOST_ENTRIES:
                raise InputError(f"{folder} has more than {MOST_ENTRIES:,} files", "name a folder of checkpoints")
            yield Path(parent) / name
