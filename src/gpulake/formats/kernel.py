"""What the kernel says when something of ours goes wrong: the words, and the events that they are.

Names of processes and devices in a message are others' words; a message is recognised by how it begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

SAME_KILL_MS = 10_000  # the kernel tells of one kill in several lines, within moments

# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
# Without a process it says pid='<unknown>'; of a MIG instance, (PCI:0000:3b:00 GPU-I:05).
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<subject>[0-9A-Fa-f:.]{7,16})(?: [^)]{0,32})?\): "
    r"(?P<code>\d{1,6})\b(?:, pid=(?P<pid>\d{1,10})\b)?"
)
# nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 44 egress non-posted PRIV error
_SXID = re.compile(r"nvidia-nvswitch\d+: SXid \((?:PCI:)?(?P<subject>[0-9A-Fa-f:.]{7,16})\): (?P<code>\d{1,6})\b")
# Out of memory: Killed process 123 (python) total-vm:…; Memory cgroup out of memory: …; older kernels: Kill process.
_KILLED = re.compile(
    r"(?:Memory cgroup out of memory: |Out of memory(?: \([^)]{0,64}\))?: )?"
    r"Kill(?:ed)? process (?P<pid>\d{1,10})(?:, UID \d+)?,? \((?P<subject>.{0,64})\)(?=$|[ ,.])"
)
# oom-kill:constraint=CONSTRAINT_MEMCG,…,task=python,pid=123,uid=1000: a name may hold commas, the last words count.
_OOM_KILL = re.compile(r"oom-kill:constraint=.*,task=(?P<subject>.{0,64}),pid=(?P<pid>\d{1,10}),uid=\d+\s*$")
# mlx5_core 0000:3b:00.0 ens1f0: Link down; igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex
_LINK = re.compile(
    r"(?:^|\s)(?P<subject>[A-Za-z][\w.@-]{0,14}|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])(?:: | NIC |: NIC )"
    r"[Ll]ink (?:is )?(?P<state>[Uu]p|UP|[Dd]own|DOWN)\b",
    re.ASCII,
)
# IPoIB has no such line; that IPv6 begins on it is its word.
_IB_READY = re.compile(r"IPv6: ADDRCONF\(NETDEV_CHANGE\): (?P<subject>ib[\w.]{0,13}): link becomes ready", re.ASCII)
_QUICK = re.compile(r"Xid|[Kk]ill|[Ll]ink")


class KernelEvent(NamedTuple):
    kind: str  # xid, sxid, oom_kill, link_down or link_up
    subject: str  # PCI address, interface, or name of the process
    code: int | None
    pid: int | None


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
    """The event that a message of the kernel tells, if it tells one."""
    if not _QUICK.search(message):
        return None
    for kind_of, match in _PATTERNS:
        if found := match(message):
            words = found.groupdict()
            return KernelEvent(
                kind=kind_of(words),
                subject=words["subject"],
                code=int(words["code"]) if words.get("code") else None,
                pid=int(words["pid"]) if words.get("pid") else None,
            )
    return None


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


def _link_kind(words: dict[str, str | None]) -> str:
    return "link_up" if (words["state"] or "").lower() == "up" else "link_down"


# In the order in which they are tried.
_PATTERNS: tuple[tuple[Callable[[dict[str, str | None]], str], Callable[[str], re.Match[str] | None]], ...] = (
    (lambda _: "xid", _XID.match),
    (lambda _: "sxid", _SXID.match),
    (lambda _: "oom_kill", _KILLED.match),
    (lambda _: "oom_kill", _OOM_KILL.match),
    (lambda _: "link_up", _IB_READY.match),
    (_link_kind, _LINK.search),
)


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
