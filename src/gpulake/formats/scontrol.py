"""Records that `scontrol show` prints, over several lines or, with -o, on one: `NodeName=g1 Arch=x86_64 State=IDLE`.

A file that `gpulake pull` saved begins with a line that says what Slurm does not: cluster, time and time zone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpulake.core.clock import is_time_zone
from gpulake.core.lines import text_lines
from gpulake.core.types import BadRow
from gpulake.formats.json_text import json_object

NOTE = "# slurm "
MOST_RECORD_CHARACTERS = 1 << 20
# Keys begin with a capital letter: AllocNode:Sid, CPUs/Task, MCS_label.
KEY = re.compile(r"(?:^|\s)(?P<key>[A-Z][A-Za-z:/_]*)=")
# Texts of people, which may hold what looks like a key: only these keys end one.
TEXTS = {"Reason", "Comment", "Extra", "OS", "JobName", "Command", "WorkDir", "AdminComment", "SystemComment"}
ENDING = {
    *("Comment", "Extra", "InstanceId", "InstanceType", "RealMemory", "Dependency", "UserId", "WorkDir", "StdErr"),
    *("ResumeAfterTime", "Topology", "AdminComment", "SystemComment", "FailedNode"),
}
FIRST_KEYS = ("NodeName", "JobId", "PartitionName", "ReservationName")


@dataclass(frozen=True)
class Note:
    """The first line of a file that was pulled."""

    cluster: str
    asked_at: str  # ISO, in UTC
    time_zone: str  # in which the program wrote its times; empty: that of the cluster
    since: str  # the accounting was pulled completely from then until asked_at; empty: it was not

    def line(self) -> str:
        return f"{NOTE}{json.dumps(self.__dict__, sort_keys=True)}\n"


@dataclass(frozen=True)
class Record:
    line_number: int
    fields: dict[str, str]  # of a key that comes again, the first
    pairs: tuple[tuple[str, str], ...]  # every key and its value
    text: str


def note_of(line: str) -> Note | None:
    """None for a line that is no such note."""
    if not line.startswith(NOTE):
        return None
    said = json_object(line.removeprefix(NOTE))
    words = {name: str(said.get(name) or "") for name in ("cluster", "asked_at", "time_zone", "since")}
    is_whole = words["cluster"] and words["asked_at"] and is_time_zone(words["time_zone"] or "UTC")
    return Note(**words) if is_whole else None


def is_records(line: str, first_key: str) -> bool:
    """Whether a line begins a record of this kind, and has or may go on to have more than its name."""
    return re.match(rf"{first_key}=\S+(\s+[A-Z][A-Za-z:/_]*=|\s*$)", line) is not None


def fields(text: str) -> dict[str, str]:
    return dict(reversed(list(_pairs(text))))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    key, begin = "", 0
    for match in KEY.finditer(text):
        if key in TEXTS and match["key"] not in ENDING:
            continue
        if key:
            yield key, text[begin : match.start()].strip()
        key, begin = match["key"], match.end()
    if key:
        yield key, text[begin:].strip()


def records(path: Path, first_key: str) -> Iterator[Record | BadRow]:
    """Each begins with its key at the left edge; what is no part of one is bad."""
    begins, lines, size = 0, list[str](), 0
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        text = line.rstrip("\r\n")
        if text.startswith(f"{first_key}="):
            yield from _record(begins, lines)
            begins, lines, size = number, [text], len(text)
        elif lines and text[:1].isspace() and size < MOST_RECORD_CHARACTERS:
            lines.append(text)
            size += len(text)
        elif text.strip() and not text.startswith("#"):
            yield BadRow(number, f"no record of {first_key}", text)
    yield from _record(begins, lines)


def _record(number: int, lines: list[str]) -> Iterator[Record]:
    if lines:
        pairs = tuple(_pairs(" ".join(line.strip() for line in lines)))
        yield Record(number, dict(reversed(pairs)), pairs, "\n".join(lines))


def utc_text(seconds: float) -> str:
    """Seconds of the epoch as a time without an offset, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
