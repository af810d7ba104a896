"""The text of `sacct --parsable2` as rows: any fields in any order, behind a header row, with any delimiter.

A field may hold line breaks and delimiters, and there are no quotes: lines are joined until a row has as many fields as
the header; where it has more, they are joined in the only way in which each looks like what its column holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpulake.core.types import BadRow, TextRow
from gpulake.formats import slurm as words

LONGEST_ROW_CHARACTERS = 1 << 20
NO_NODES = {"", "None assigned", "None", "(null)", "Unknown"}
RENAMED = {"Reserved": "Planned"}  # by version 21.08
NO_NUMBER = {"UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None"}
# NO_VAL and INFINITE, of 32 and of 64 bits, where sacct prints them as numbers.
NO_NUMBER |= {str(2**bits - less) for bits in (32, 64) for less in (1, 2)}
Shape = Callable[[str], object]
Ways = list[tuple[str, ...]]
MOST_SURPLUS = 32  # delimiters in the texts of one row
# What people write. `Constraints` and `Licenses` have a | of their own.
TEXTS = {"JobName", "Comment", "AdminComment", "SystemComment", "SubmitLine", "WorkDir", "StdIn", "StdOut", "StdErr"}
TEXTS |= {"Constraints", "Container", "Extra", "Licenses"}
STATES = (
    r"BOOT_FAIL|CANCELLED|COMPLET(ED|ING)|CONFIGURING|DEADLINE|EXPEDITING|FAILED|LAUNCH_FAILED|NODE_FAIL|OUT_OF_MEMORY"
    r"|PENDING|POWER_UP_NODE|PREEMPTED|RECONFIG_FAIL|REQUEUE(D|_FED|_HOLD)|RESIZING|RESV_DEL_HOLD|REVOKED|RUNNING"
    r"|SIGNALING|SPECIAL_EXIT|STAGE_OUT|STOPPED|SUSPENDED|TIMEOUT"
)
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|Unknown|None|N/A|"
SPAN = r"(\d+-)?\d+(:\d\d)+(\.\d+)?|UNLIMITED|Partition_Limit|INVALID|"
NUMBER = r"-?\d+(\.\d+)?|UNLIMITED|Partition_Limit|INVALID|Unknown|None|"
RESOURCES = r"([^=,|]+=[^,|]*(,[^=,|]+=[^,|]*)*)?"
SHAPES = {
    words.JOB_ID.pattern: ["JobID", "JobIDRaw"],
    rf"({STATES})\+?( by \S+)?": ["State"],
    TIME: ["Submit", "Eligible", "Start", "End"],
    SPAN: [
        *["Elapsed", "Suspended", "Planned", "Reserved", "Timelimit", "CPUTime", "PlannedCPU", "ResvCPU"],
        *["TotalCPU", "UserCPU", "SystemCPU", "AveCPU", "MinCPU"],
    ],
    NUMBER: [
        *["ElapsedRaw", "TimelimitRaw", "CPUTimeRAW", "PlannedCPURAW", "ResvCPURAW", "ConsumedEnergyRaw", "Restarts"],
        *["Priority", "NNodes", "AllocNodes", "ReqNodes", "NCPUS", "AllocCPUS", "ReqCPUS", "NTasks", "UID", "GID"],
        *["AssocID", "DBIndex", "QOSRAW", "WCKeyID"],
    ],
    r"(\d+:\d+)?": ["ExitCode", "DerivedExitCode"],
    RESOURCES: ["ReqTRES", "AllocTRES"],
    # The operator's words, or the summary of jobstats, which is base64.
    rf"{words.SUMMARY}[A-Za-z0-9+/=]*|(?!.*{words.SUMMARY}).*": ["AdminComment"],
    r"(/.*)?": ["WorkDir"],
    rf"{words.HOST}(,{words.HOST})*|{'|'.join(map(re.escape, sorted(NO_NODES)))}": ["NodeList"],
    r"\S*": ["User", "Account", "Cluster", "Partition", "QOS", "Group", "Reservation", "Constraints"],
}
SHAPE: dict[str, Shape] = {
    name: re.compile(shape, re.ASCII | re.DOTALL).fullmatch for shape, names in SHAPES.items() for name in names
}


@dataclass(frozen=True)
class Header:
    delimiter: str
    names: tuple[str, ...]
    width: int  # one more than names, where each line ends with a delimiter

    def width_of(self, lines: list[str]) -> int:
        return sum(line.count(self.delimiter) for line in lines) + 1

    def rows(self, lines: list[str]) -> list[tuple[str, ...]]:
        """The rows that the lines may be: one, unless they have more fields than there are columns."""
        fields = "\\n".join(lines).split(self.delimiter)
        if len(fields) == self.width:
            return [tuple(fields[: len(self.names)])]
        if self.width > len(self.names) and fields.pop():
            return []
        return mended(fields, self.names, self.delimiter)

    def is_whole(self, lines: list[str]) -> bool:
        """Whether nothing can follow: it is one row, and each field looks like what its column holds."""
        ways = self.rows(lines)
        return len(ways) == 1 and all(shape(ways[0][at]) for at, shape in self._shapes)

    @property
    def id_name(self) -> str:
        return "JobID" if "JobID" in self.names else "JobIDRaw"

    def begins_a_row(self, line: str) -> bool:
        """Whether the line has the id of a job where a row has it."""
        at = self.names.index(self.id_name)
        fields = line.split(self.delimiter, at + 1)
        return at < len(fields) and words.JOB_ID.fullmatch(fields[at]) is not None

    @cached_property
    def _shapes(self) -> list[tuple[int, Shape]]:
        return [(at, shape) for at, name in enumerate(self.names) if (shape := shape_of(name))]


def header_of(line: str) -> Header | None:
    """The delimiter may be anything but letters and blanks: --delimiter sets it."""
    found = re.match(r"[A-Za-z]+(?P<delimiter>[^A-Za-z ]+)", line)
    if not found:
        return None
    delimiter = found["delimiter"]
    fields = line.split(delimiter)
    names = tuple(fields[:-1] if not fields[-1] else fields)
    is_ours = "State" in names and ("JobID" in names or "JobIDRaw" in names)
    return Header(delimiter, names, len(fields)) if is_ours and all(name.isalpha() for name in names) else None


def joined_rows(lines: Iterable[tuple[int, str]], header: Header) -> Iterator[TextRow | BadRow]:
    """Rows as wide as the header."""
    joining = Joining(header)
    for number, line in lines:
        yield from joining.add(number, line)
    yield from joining.finish()


class Joining:
    """Joins lines to rows as wide as the header. A line that begins like a row never continues the one before it."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._lines: list[str] = []
        self._begins = self._width = self._characters = 0

    def add(self, number: int, line: str) -> Iterator[TextRow | BadRow]:
        """The rows that end before the line."""
        more = line.count(self._header.delimiter)
        if self._is_part(line, more):
            self._lines.append(line)
            self._width, self._characters = self._width + more, self._characters + len(line)
            return
        yield from self.finish()
        self._lines = [line] if line else []
        self._begins, self._width, self._characters = number, more + 1, len(line)

    def finish(self) -> Iterator[TextRow | BadRow]:
        """The rows of the lines that wait for more."""
        lines, self._lines = self._lines, []
        yield from _rows(self._begins, lines, self._header)

    def _is_part(self, line: str, more: int) -> bool:
        header = self._header
        return (
            bool(self._lines)
            and self._width + more <= header.width + MOST_SURPLUS
            and self._characters + len(line) < LONGEST_ROW_CHARACTERS
            and not header.begins_a_row(line)
            and not (self._width >= header.width and header.is_whole(self._lines))
        )


def _rows(number: int, lines: list[str], header: Header) -> Iterator[TextRow | BadRow]:
    """One row. What follows a line that is as wide as a row is no part of it, unless the two look right together."""
    if len(lines) > 1 and header.width_of(lines[:1]) == header.width and not header.is_whole(lines):
        yield _row(number, lines[:1], header)
        number, lines = number + 1, lines[1:]
    if any(lines):
        yield _row(number, lines, header)


def _row(number: int, lines: list[str], header: Header) -> TextRow | BadRow:
    ways = header.rows(lines)
    text = "\n".join(lines)
    if len(ways) == 1:
        return TextRow(number, ways[0], text)
    reason = f"{header.width_of(lines)} fields where {header.width} are expected"
    return BadRow(number, f"{reason}, and more than one way to join them" if ways else reason, text)


def mended(fields: Sequence[str], names: Sequence[str], delimiter: str) -> Ways:
    """The ways, two at most, to put more fields than there are columns together, so that each looks like its column.

    That a text begins or ends with the delimiter is assumed only where there is no other way.
    """
    if not 0 <= len(fields) - len(names) <= MOST_SURPLUS:
        return []
    return _ways(fields, names, delimiter, is_tight=True) or _ways(fields, names, delimiter, is_tight=False)


def _ways(fields: Sequence[str], names: Sequence[str], delimiter: str, *, is_tight: bool) -> Ways:
    surplus = len(fields) - len(names)
    found: dict[int, Ways] = {len(fields): [()]}
    for place in reversed(range(len(names))):
        shape = shape_of(names[place])
        most = surplus if _may_hold(names[place], delimiter) else 0
        before: dict[int, Ways] = {}
        for begin in range(place, place + surplus + 1):
            for end in range(begin + 1, begin + most + 2):
                if end not in found or (is_tight and end > begin + 1 and "" in (fields[begin], fields[end - 1])):
                    continue
                text = delimiter.join(fields[begin:end])
                if shape is None or shape(text):
                    before[begin] = [*before.get(begin, []), *((text, *rest) for rest in found[end])][:2]
        found = before
    return found.get(0, [])


def shape_of(name: str) -> Shape | None:
    """Whether a text looks like what the column holds; nothing for a column that may hold anything."""
    return SHAPE.get("ReqTRES" if name.startswith("TRESUsage") else name)


def _may_hold(name: str, delimiter: str) -> bool:
    """Whether the delimiter may stand in a field of the column; in one of a column that is not listed, it may not."""
    has_commas = name == "NodeList" or name.endswith("TRES") or name.startswith("TRESUsage")
    return name in TEXTS or (has_commas and delimiter == ",")
