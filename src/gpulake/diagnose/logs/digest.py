"""What is kept of a log once it has been read: the lines that may tell something, and what the rest was like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    number: int  # from 1, counted by line feeds
    text: str  # decoded, without colours; of a progress bar, the part that was looked at
    is_hit: bool = False  # a rule's pattern may match it, exactly; else it is context
    file: str = ""


@dataclass(frozen=True)
class Template:
    """Lines that differ in nothing but their digits, told as one."""

    text: str  # digits removed, at most so many characters
    lines: int
    first_line: int
    example: str
    is_routine: bool  # its lines were dropped as routine


@dataclass(frozen=True)
class Digest:
    """Of one file. The same, however the file was cut into chunks."""

    name: str  # of a file of a folder: its path below that; empty for a single log
    lines: tuple[Line, ...]  # by number: the head, the tail, hits and what stands around them
    lines_read: int
    lines_kept: int  # those that no filter drops
    bytes_read: int
    templates: tuple[Template, ...]  # the most frequent, and all that are kept, up to a bound
