"""The runs of a log, and their events in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpulake.core.diagnosis import Quote
from gpulake.diagnose.rulebook.rule import Hit


@dataclass(frozen=True)
class Event:
    """A line that a rule matches, with its writer and time."""

    hit: Hit
    quote: Quote
    order: int  # place in the story: by time across files with times, else by line
    at: datetime | None = None
    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    traceback: tuple[str, ...] = ()  # the lines of the traceback that it ends
    severity: str = ""  # debug, info, warning, error; empty: not given
    is_uncaught: bool | None = None  # of an exception: it ended its process; None: unknown
    is_ignored: bool = False  # of an exception: Python printed it without ending anything
    chain: int | None = None  # exceptions of one chain have one number, in one file
    link: str | None = None  # to the exception before it: cause, context, origin
    script: str = ""  # the program that the exception or the usage error ended
    raised_by: Quote | None = None  # the statement that raised it
    rest: tuple[Quote, ...] = ()  # further lines of its message
    first_line: int | None = None  # of its traceback
    speaker: str = ""  # the Ray worker that wrote it


@dataclass(frozen=True)
class Ending:
    """A launcher's report of the worker that failed first."""

    rank: int | None
    host: str | None
    pid: int | None
    exit_code: int | None
    quote: Quote  # the line with the exit code, or the first of the report


@dataclass(frozen=True)
class Story:
    """One run of a log."""

    events: tuple[Event, ...]
    run: int
    runs: int
    lines_read: int
    lines_kept: int
    began_at: datetime | None = None
    ended_at: datetime | None = None  # the last time in the log
    last_progress_at: datetime | None = None
    is_whole: bool = True  # False: it stops without an end or an error
    ranks: int | None = None  # the world size, where known
    hosts: tuple[str, ...] = ()
    job_id: str | None = None  # from the log (SLURM_JOB_ID and the like)
    last_lines: tuple[Quote, ...] = ()
    checkpoint_at: datetime | None = None  # the last one that was written
    endings: tuple[Ending, ...] = ()  # launchers' reports of the first failure
    is_log: bool = True  # False: no line is of a program that logs
