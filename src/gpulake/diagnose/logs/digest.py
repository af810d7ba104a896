"""What is kept of a log: the lines that may matter, and templates of all others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    number: int  # from 1, counted by line feeds
    text: str  # decoded, without colours; of a progress bar, one state
    is_hit: bool = False  # a rule's pattern matches it; else it is context
    file: str = ""


@dataclass(frozen=True)
class Template:
    """Lines that differ only in their digits, as one."""

    text: str  # without digits, shortened
    lines: int
    first_line: int
    example: str
    is_routine: bool  # its lines were dropped as routine


@dataclass(frozen=True)
class Digest:
    """Of one file, independent of how it was cut into chunks."""

    name: str  # relative to the folder; empty for a single log
    lines: tuple[Line, ...]  # by number: the head, the tail, hits and their context
    lines_read: int
    lines_kept: int  # those that no filter drops
    bytes_read: int
    templates: tuple[Template, ...]  # the most frequent, and all kept ones, up to a bound
