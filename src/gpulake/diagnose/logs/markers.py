"""Signs of trouble in a line, independent of the rules. A line with one is never dropped as routine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Marker:
    name: str
    pattern: str  # RE2
    before: int  # lines that are kept with it
    after: int


TRACEBACK = Marker(
    "traceback", r"Traceback \(most recent call last\)|^\s*(?:The above|During handling of the above) exception", 3, 3
)
# After a frame come its source code, marks below it and, at the end, the exception.
FRAME = Marker("frame", r'\bFile "[^"]+", line \d+|\bframe #\d+: |^\s*#\d+ +0x[0-9a-f]+ ', 1, 4)
ERROR = Marker(
    "error",
    r"\b(?:ERROR|FATAL|CRITICAL|PANIC|EMERGENCY|FAILED|ABORTED|KILLED)\b"
    r"|\b[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|SystemExit|Failure|Fault)\b"
    r"|(?i)\berrors?:|\berror \(|\b(?:fatal|panic|killed|segfault|crashed|aborting)\b"
    r"|\bcore dumped\b|\bsegmentation fault\b|\bbus error\b|\billegal instruction\b|\bfloating point exception\b"
    r"|\bout of memory\b|\boom[-_ ]?kill|\bno space left\b|\bpermission denied\b|\bno such file\b"
    r"|\btimed out\b|\bconnection (?:refused|reset|closed|timed)|\bbroken pipe\b|\bunable to\b|\bcannot\b|\bcan't\b"
    r"|\bfailed (?:to|with|for|on|at|in)\b|\bfailure\b|\bexit(?:ed|ing|s)? (?:with )?(?:code|status)\b|\bexitcode\b"
    r"|\bsignal \d+\b|\bSIG(?:KILL|TERM|SEGV|ABRT|BUS|INT|FPE|ILL|HUP)\b|\bpreempt|\bcancelled\b|\bxid\b"
    r"|\buncorrectable\b|\bunhealthy\b|\bnot responding\b|\bterminat(?:ed|ing)\b",
    3,
    3,
)
MARKERS = (TRACEBACK, FRAME, ERROR)
