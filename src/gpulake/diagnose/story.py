"""What a log tells once it is understood: the runs that it holds, and what happened in them, in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpulake.core.diagnosis import Quote
from gpulake.diagnose.rule import Hit


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
