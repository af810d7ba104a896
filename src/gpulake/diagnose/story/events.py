"""What a log tells once it is understood: the runs that it holds, and what happened in them, in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpulake.core.diagnosis import Quote
from gpulake.diagnose.rulebook.rule import Hit


@dataclass(frozen=True)
class Event:
    """A line that means something, and who said it when."""

    hit: Hit
    quote: Quote
    order: int  # place in the story: by time across files, where they have times, else by line
    at: datetime | None = None
    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    traceback: tuple[str, ...] = ()  # the lines of the traceback that it ends
    severity: str = ""  # debug, info, warning, error, or nothing where the line does not say
    is_uncaught: bool | None = None  # of an exception: it ended its process; None where the log does not tell
    is_ignored: bool = False  # of an exception: Python printed it in passing
    chain: int | None = None  # exceptions of one chain have one number, in one file
    link: str | None = None  # to the exception before it: cause, context, origin
    script: str = ""  # the program that the exception or the usage error ended
    raised_by: Quote | None = None  # the statement that raised it
    rest: tuple[Quote, ...] = ()  # lines that go on with its message
    first_line: int | None = None  # of its traceback
    speaker: str = ""  # the Ray worker that said it


@dataclass(frozen=True)
class Ending:
    """What a launcher says of the worker that failed first."""

    rank: int | None
    host: str | None
    pid: int | None
    exit_code: int | None
    quote: Quote  # the line with the exit code, or the one that begins the account


@dataclass(frozen=True)
class Story:
    """One run of a log."""

    events: tuple[Event, ...]
    run: int
    runs: int
    lines_read: int
    lines_kept: int
    began_at: datetime | None = None
    ended_at: datetime | None = None  # the last time that is told
    last_progress_at: datetime | None = None
    is_whole: bool = True  # False: it stops in the midst of work, with neither an end nor an error
    ranks: int | None = None  # the world's size, where it is told
    hosts: tuple[str, ...] = ()
    job_id: str | None = None  # where the log says so (SLURM_JOB_ID and the like)
    last_lines: tuple[Quote, ...] = ()
    checkpoint_at: datetime | None = None  # the last one that was written
    endings: tuple[Ending, ...] = ()  # what launchers say of the first to fail
