"""Commands that `gpulake collect exec` traced: which of them wrote a log, when it ran, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpulake.diagnose.logs.reading import Logs
from gpulake.diagnose.scheduler import Record
from gpulake.diagnose.story.events import Story
from gpulake.formats.json_text import json_object

FILES = ("events.exec.*.open.jsonl", "events.exec.*[0-9].jsonl", "invocations.jsonl")
PACKED = (".gz", ".zst")
SLACK_SECONDS = 2.0  # between the last write to a file and the end of its process


@dataclass(frozen=True)
class Command:
    """Times are seconds of the epoch; a command that was killed together with its `exec` has no end."""

    began: float
    ended: float
    pid: int | None
    status: Any
    output: str  # the file that it wrote to; empty: unknown

    @property
    def record(self) -> Record | None:
        """How it ended. Without a status it was killed together with its `exec`, unless its process still runs here."""
        if self.status is None and not Path("/proc", str(self.pid)).exists():
            return Record("", None, "FAILED", "0:9")
        if not isinstance(self.status, int):
            return None
        exit_code = f"0:{-self.status}" if self.status < 0 else f"{self.status}:0"
        return Record("", None, "COMPLETED" if self.status == 0 else "FAILED", exit_code)


def command_of(run: Path, logs: Logs, story: Story) -> tuple[Command | None, Story]:
    """The command of a collected run that wrote the log, by the file's name, else the only one at the time of the log;
    a log that tells no time ran when its command did."""
    commands = list(_commands(run))
    if story.began_at is not None and story.ended_at is not None:
        since, until = story.began_at.timestamp(), story.ended_at.timestamp()
        commands = [one for one in commands if one.began <= until and one.ended >= since]
        writers = _writers(commands, logs)
        # A log that is written anew by each try is of the last one.
        found = writers[-1:] or commands
        return (found[0] if len(found) == 1 else None), story
    if writers := _writers(commands, logs):
        return writers[-1], _timed(story, writers[-1], logs)
    return (commands[0] if len(commands) == 1 else None), story


def _writers(commands: Sequence[Command], logs: Logs) -> list[Command]:
    """Those that wrote a file of this name."""
    if logs.is_folder or len(logs.files) != 1:
        return []
    name = Path(logs.files[0].name)
    plain = name.stem if name.suffix in PACKED else name.name
    return [one for one in commands if Path(one.output).name == plain]


def _timed(story: Story, command: Command, logs: Logs) -> Story:
    """The last line is as old as the file, unless that was written by somebody else, as a copy is."""
    path = logs.files[0].path
    written = path.stat().st_mtime if path is not None else math.inf
    ended = written if command.began <= written <= command.ended + SLACK_SECONDS else command.ended
    if math.isinf(ended):
        return story
    return replace(story, began_at=_moment(command.began), ended_at=_moment(ended))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _commands(run: Path) -> Iterator[Command]:
    """In the order of their begin."""
    rows: dict[Any, dict[str, Any]] = {}
    for name in FILES:
        for file in sorted(run.rglob(name)):
            with file.open(encoding="utf-8", errors="replace") as lines:
                # An invocation that ended takes the place of the open one.
                rows |= {row.get("span_id"): row for line in lines if _is_command(row := json_object(line))}
    yield from sorted((_command(row) for row in rows.values()), key=lambda one: one.began)


def _is_command(row: Mapping[str, Any]) -> bool:
    return row.get("method") == "CLI" and all(isinstance(row.get(name), int | float) for name in ("ts_start", "ts_end"))


def _command(row: Mapping[str, Any]) -> Command:
    status = row.get("status")
    ended = math.inf if status is None else row["ts_end"] / 1000
    return Command(row["ts_start"] / 1000, ended, row.get("pid"), status, str(row.get("output") or ""))
