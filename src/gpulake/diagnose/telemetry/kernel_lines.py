"""Kernel logs as text: dmesg in any of its ways of telling the time, syslog, journalctl."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, tzinfo

from gpulake.diagnose.telemetry.samples import Gathering, NodeEvent
from gpulake.formats.kernel import Kills, event_in, read_line

_SYSLOG = re.compile(
    r"(?P<at>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<host>\S+) (?:kernel|NVRM)(?:\[\d+\])?: ?", re.ASCII
)
_BEHIND_TIME = re.compile(r"(?P<host>\S+) kernel(?:\[\d+\])?: ?", re.ASCII)
_LOCAL = re.compile(r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} ", re.ASCII)  # dmesg -T: the clock on the wall
_SINCE_BOOT = re.compile(r"\[ *\d+\.\d+\] ?", re.ASCII)


def is_telemetry(lines: Iterable[str]) -> bool:
    for text in lines:
        line = read_line(text)
        if line.elapsed_ms is not None or _SYSLOG.match(text) or _LOCAL.match(text):
            return True
        behind = _BEHIND_TIME.match(line.message) if line.at is not None else None
        if behind or (line.at is not None and event_in(line.message)):
            return True
    return False


def read(lines: Iterable[str], gathering: Gathering, node: str, zone: tzinfo, written_at: float) -> None:
    """Times since boot are counted back from the time the file was written, taken for that of the last line."""
    kills = Kills()
    since_boot: list[tuple[int, NodeEvent]] = []
    last_ms = 0
    for text in lines:
        line = read_line(text)
        host, message, at = node, line.message, line.at.timestamp() if line.at is not None else None
        if line.at is not None and _LOCAL.match(text):
            at = line.at.replace(tzinfo=zone).timestamp()
        if found := _SYSLOG.match(text):
            at, host = _syslog_time(found["at"], zone, written_at), found["host"]
            message = _SINCE_BOOT.sub("", text[found.end() :].rstrip("\r\n"), count=1)
        elif line.at is not None and (found := _BEHIND_TIME.match(message)):
            host, message = found["host"], message[found.end() :]
        last_ms = max(last_ms, line.elapsed_ms or 0)
        event = event_in(message)
        if at is not None:
            is_wanted = gathering.counts(at)
            if event and is_wanted and kills.is_new(event, int(at * 1000)):
                gathering.add_event(NodeEvent(at, host, event.kind, event.subject, event.code, event.pid, message))
        elif event and line.elapsed_ms is not None and kills.is_new(event, line.elapsed_ms):
            pending = NodeEvent(0.0, host, event.kind, event.subject, event.code, event.pid, message)
            since_boot.append((line.elapsed_ms, pending))
    for elapsed_ms, pending in since_boot:
        at = written_at - (last_ms - elapsed_ms) / 1000
        if gathering.counts(at):
            gathering.add_event(replace(pending, at_seconds=at))


def _syslog_time(text: str, zone: tzinfo, written_at: float) -> float | None:
    """Syslog leaves out the year: the last one in which it is not after the file was written."""
    latest = datetime.fromtimestamp(written_at, UTC)
    for year in (latest.year, latest.year - 1):
        try:
            moment = datetime.strptime(f"{year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=zone)
        except ValueError:
            continue
        if moment.timestamp() <= written_at + 86_400:
            return moment.timestamp()
    return None
