"""What a field of `sacct` may look like, to put a row together again in which a text holds the delimiter."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpulake.core import slurm_words as words

NO_NODES = {"", "None assigned", "None", "(null)", "Unknown"}
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
