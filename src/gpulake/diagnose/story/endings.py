"""torchrun's report of the worker that failed first, with its exit code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpulake.core.diagnosis import Quote
from gpulake.diagnose.logs.digest import Line
from gpulake.diagnose.story.events import Ending
from gpulake.diagnose.story.lines import ParsedLine

LONGEST_BLOCK = 12
_BEGINS = re.compile(r"Root Cause \(first observed failure\)")
_RANK = re.compile(r"rank\s+: (\d{1,9}) \(local_rank")
_HOST = re.compile(r"host\s+: (\S+)")
_EXIT = re.compile(r"exitcode\s+: (-?\d{1,9}) +\(pid: (\d{1,10})\)")


def read_endings(lines: Sequence[tuple[Line, ParsedLine]], file: str = "") -> tuple[Ending, ...]:
    """Reports of the first observed failure, in the order of the file. Lines of other writers may lie between."""
    found = []
    for index, (line, _) in enumerate(lines):
        if _BEGINS.search(line.text):
            found.append(_account(line, lines[index + 1 : index + 1 + LONGEST_BLOCK], file))
    return tuple(found)


def _account(begin: Line, block: Sequence[tuple[Line, ParsedLine]], file: str) -> Ending:
    rank = host = pid = code = None
    quote = Quote(begin.number, begin.text, file)
    for line, parsed in block:
        if "=====" in parsed.body:
            break
        if rank is None and (found := _RANK.search(line.text)):
            rank = int(found[1])
        elif host is None and (found := _HOST.search(line.text)):
            host = found[1]
        elif code is None and (found := _EXIT.search(line.text)):
            code, pid, quote = int(found[1]), int(found[2]), Quote(line.number, line.text, file)
    return Ending(rank, host, pid, code, quote)
