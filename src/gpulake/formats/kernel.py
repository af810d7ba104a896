"""Lines of the kernel's log, the events in them (kernel.toml), and how serious an event is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from gpulake.core.packaged import packaged_toml

SAME_KILL_MS = 10_000  # the kernel tells of one kill in several lines, within moments


class KernelEvent(NamedTuple):
    kind: str  # a section of kernel.toml
    subject: str  # PCI address, interface, device or name of the process
    code: int | None
    pid: int | None


class FaultCode(NamedTuple):
    """An Xid or SXid, by NVIDIA's catalogue."""

    name: str
    severity: str
    remedy: str


@dataclass(frozen=True)
class KernelFault:
    """A kind of event. Critical and warning are reported at the first event, info once the rate is unusual."""

    kind: str
    severity: str
    words: str = ""  # the events in a sentence, plural; empty: no fault
    remedy: str = ""
    patterns: tuple[re.Pattern[str], ...] = ()
    examples: Mapping[str, str] = field(default_factory=dict)  # a message, and the subject of its event
    title: str = ""  # what stands before a code
    codes: Mapping[int, FaultCode] = field(default_factory=dict)


class Line(NamedTuple):
    """A line of a kernel log. Of its times there is at most one."""

    message: str
    elapsed_ms: int | None = None  # since boot
    at: datetime | None = None


_KMSG = re.compile(r"\d{1,4},(?P<seq>\d{1,20}),(?P<usec>\d{1,18}),[^;]*;(?P<message>.*)", re.DOTALL)
_PREFIX = re.compile(r"(?:<\d{1,4}>)?(?:[a-z0-9]+ *:[a-z]+ *: ?)?")  # <6>, or "kern  :warn  : " of dmesg -x
_SYSLOG = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ kernel: ?|\S+ \S+ kernel: ?")
_SINCE_BOOT = re.compile(r"\[ *(?P<seconds>\d{1,9}\.\d{1,9})\](?:\[ *[TC]\d+\])? ?(?P<message>.*)", re.DOTALL)
_ISO = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d{1,9}(?:Z|[+-]\d\d:?\d\d)) (?P<message>.*)", re.DOTALL)
_CTIME = re.compile(
    r"\[(?P<at>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d \d{4})\] ?(?P<message>.*)", re.DOTALL
)


def read_line(text: str) -> Line:
    """A line of dmesg in any of its ways of telling the time, of pstore, or of /dev/kmsg; without one, the message."""
    text = text.rstrip("\r\n")
    if found := _KMSG.fullmatch(text):
        return Line(found["message"], elapsed_ms=int(found["usec"]) // 1000)
    prefix = _PREFIX.match(text)
    text = text[prefix.end() :] if prefix else text
    if found := _ISO.fullmatch(text):
        return Line(found["message"], at=_iso(found["at"]))
    if syslog := _SYSLOG.match(text):
        text = text[syslog.end() :]
    if found := _SINCE_BOOT.fullmatch(text):
        return Line(found["message"], elapsed_ms=round(float(found["seconds"]) * 1000))
    if found := _CTIME.fullmatch(text):  # it is the reader's local time, and does not say which
        return Line(found["message"], at=_ctime(found["at"]))
    return Line(text)


def event_in(message: str) -> KernelEvent | None:
    """The event that a message of the kernel reports, if any."""
    if not _hints().search(message):
        return None
    for fault in kernel_faults().values():
        for pattern in fault.patterns:
            if found := pattern.match(message):
                words = found.groupdict()
                return KernelEvent(
                    kind=fault.kind,
                    subject=words["subject"],
                    code=int(words["code"]) if words.get("code") else None,
                    pid=int(words["pid"]) if words.get("pid") else None,
                )
    return None


@cache
def kernel_faults() -> Mapping[str, KernelFault]:
    """By kind, in the order in which their patterns are tried."""
    return {kind: _fault(kind, entry) for kind, entry in _content("kernel").items() if kind != "codes"}


def catalogue(family: str) -> Mapping[str, Any]:
    """NVIDIA's catalogue of Xids or SXids: actions, the source, and under the family's name its entries."""
    return _content(family)


def _fault(kind: str, entry: Mapping[str, Any]) -> KernelFault:
    return KernelFault(
        kind=kind,
        severity=entry["severity"],
        words=entry.get("words", ""),
        remedy=entry.get("remedy", ""),
        patterns=tuple(re.compile(pattern, re.ASCII) for pattern in entry.get("patterns", ())),
        examples=entry.get("examples", {}),
        title=entry.get("title", ""),
        codes=_codes(kind, entry["severity"]) if "title" in entry else {},
    )


def _codes(kind: str, default: str) -> dict[int, FaultCode]:
    """Of a text that has to follow the code, or must not, the first entry counts, as the most general one."""
    severities = _content("kernel")["codes"][kind]
    known = catalogue(kind)
    codes: dict[int, FaultCode] = {}
    for entry in known[kind]:
        action = entry["action"]
        severity = next((one for one, actions in severities.items() if action in actions), default)
        for code in entry["codes"]:
            codes.setdefault(code, FaultCode(entry["name"], severity, known["actions"][action]["remedy"]))
    return codes


def _content(name: str) -> dict[str, Any]:
    return packaged_toml("gpulake.formats", f"{name}.toml")


@cache
def _hints() -> re.Pattern[str]:
    """A word of every message that is an event: most messages have none, and need no further look."""
    entries = _content("kernel").values()
    return re.compile("|".join(sorted({re.escape(hint) for entry in entries for hint in entry.get("hints", ())})))


class Kills:
    """Counts a kill once, in however many lines it is reported."""

    def __init__(self) -> None:
        self._last: tuple[int | None, int] | None = None

    def is_new(self, event: KernelEvent, elapsed_ms: int) -> bool:
        """True for every other event."""
        if event.kind != "oom_kill":
            return True
        last = self._last
        self._last = (event.pid, elapsed_ms)
        return last is None or last[0] != event.pid or elapsed_ms - last[1] > SAME_KILL_MS


def _iso(text: str) -> datetime | None:
    whole, _, rest = text.replace(",", ".").partition(".")
    digits = re.match(r"\d+", rest)
    zone = rest[digits.end() :] if digits else ""
    try:
        moment = datetime.fromisoformat(f"{whole}.{(digits[0] if digits else '0')[:6]:0<6}{zone}")
    except ValueError:
        return None
    return moment.astimezone(UTC)


def _ctime(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except ValueError:
        return None
