"""Parses the prefixes of a line: time, severity, rank, host and pid, as launchers and loggers write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpulake.core.packaged import packaged_toml, spelled_out
from gpulake.formats.json_text import json_object

MOST_PREFIXES = 8  # of one line
LONGEST_PREFIX = 600  # characters that are searched
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SEVERITIES = {
    **dict.fromkeys(("d", "debug", "trace", "t", "v", "verbose"), "debug"),
    **dict.fromkeys(("i", "info", "success", "notice", "n"), "info"),
    **dict.fromkeys(("w", "warn", "warning"), "warning"),
    **dict.fromkeys(("e", "error", "err", "severe", "c", "critical", "f", "fatal", "crit"), "error"),
}
QUIET = ("debug", "info", "warning")


@dataclass(frozen=True)
class ParsedLine:
    """A line without its prefixes, and what they say."""

    body: str
    at: datetime | None = None
    severity: str = ""  # debug, info, warning, error; empty: not given
    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    name: str = ""  # of a Ray worker

    @property
    def writer(self) -> tuple[int | None, str | None, int | None, str]:
        """Lines of one writer belong together, whatever lines of others lie between them."""
        return (self.rank, self.host, self.pid, self.name)


_BAR = re.compile(r"[^|]{0,200}?\d{1,3}%\|[^|]*\| *[\d.,kMG]+/[\d.,kMG?]+ \[[^\]]*\]|\d+it \[[^\]]*\]")
_TABLE = packaged_toml("gpulake.diagnose.story", "prefixes.toml")
_PREFIXES = tuple(re.compile(spelled_out(pattern, _TABLE["parts"])) for pattern in _TABLE["prefixes"])
_MLLOG = re.compile(r":::MLLOG (?P<json>\{.*\})")


def parse_line(text: str, time_zone: str = "UTC", year: int | None = None) -> ParsedLine:
    """A date without a year is taken as of `year`; without that there is no time."""
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    if text.startswith("{") and text.endswith("}"):
        return _of_json(text, time_zone)
    parsed = ParsedLine(text)
    for _ in range(MOST_PREFIXES):
        stripped = _without_bar(parsed) or _without_prefix(parsed, time_zone, year)
        if stripped is None:
            break
        parsed = stripped
    if parsed.at is None and (logged := _MLLOG.search(parsed.body)):
        parsed = replace(parsed, at=_millis(json_object(logged["json"]).get("time_ms")))
    return parsed


def _without_bar(parsed: ParsedLine) -> ParsedLine | None:
    bar = _BAR.match(parsed.body)
    return replace(parsed, body=parsed.body[bar.end() :]) if bar else None


def _without_prefix(parsed: ParsedLine, time_zone: str, year: int | None) -> ParsedLine | None:
    head = parsed.body[:LONGEST_PREFIX]
    for pattern in _PREFIXES:
        if not (found := pattern.match(head)) or not found.end():
            continue
        words = found.groupdict()
        if "name" in words and not (words["name"] or words["pid"]):
            continue
        rank, pid = words.get("rank"), words.get("pid")
        return replace(
            parsed,
            body=parsed.body[found.end() :],
            at=parsed.at or _at(words, time_zone, year),
            severity=parsed.severity or _SEVERITIES.get((words.get("level") or "").lower(), ""),
            rank=int(rank) if rank is not None and parsed.rank is None else parsed.rank,
            host=parsed.host or words.get("host"),
            pid=int(pid) if pid is not None and parsed.pid is None else parsed.pid,
            name=parsed.name or words.get("name") or "",
        )
    return None


def _at(words: dict[str, str | None], time_zone: str, year: int | None) -> datetime | None:
    if words.get("h") is None:
        return None
    try:
        y, m, d = _day(words, year)
        fraction = int(((words.get("frac") or "") + "000000")[:6])
        clock = (int(words["h"] or 0), int(words["mi"] or 0), int(words["s"] or 0), fraction)
        given = datetime(y, m, d, *clock)  # noqa: DTZ001 - the zone is added below
        zone = words.get("zone")
        if zone and zone not in ("Z", "UTC"):
            return datetime.fromisoformat(given.isoformat() + zone).astimezone(UTC)
        return given.replace(tzinfo=UTC if zone else _zone(time_zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _day(words: dict[str, str | None], year: int | None) -> tuple[int, int, int]:
    if date := words.get("date"):
        y, m, d = date.replace("/", "-").split("-")
        return int(y), int(m), int(d)
    if us := words.get("us"):
        m, d, y = us.split("/")
        return int(y), int(m), int(d)
    given = words.get("year")
    if given is None and year is None:
        raise ValueError("no year")
    y_number = int(given) if given is not None else year or 0
    if mon := words.get("mon"):
        return y_number, _MONTHS.index(mon) + 1, int(words["day"] or 0)
    md = words.get("md") or ""
    return y_number, int(md[:-2]), int(md[-2:])


@lru_cache(maxsize=8)
def _zone(name: str) -> Any:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def _of_json(text: str, time_zone: str) -> ParsedLine:
    """A line of a container's log, where the message is one of several fields."""
    document = json_object(text)
    body = next((document[key] for key in ("log", "message", "msg") if isinstance(document.get(key), str)), None)
    if body is None:
        return ParsedLine(text)
    parsed = parse_line(body.rstrip("\n"), time_zone) if not body.startswith("{") else ParsedLine(body)
    given = next((document[key] for key in ("time", "timestamp", "ts", "@timestamp") if key in document), None)
    level = next((document[key] for key in ("level", "severity", "levelname") if key in document), "")
    return replace(
        parsed, at=parsed.at or _time_of(given), severity=parsed.severity or _SEVERITIES.get(str(level).lower(), "")
    )


def _time_of(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return None
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    return _millis(value * 1000) if isinstance(value, int | float) and 1e8 < value < 1e10 else _millis(value)


def _millis(value: object) -> datetime | None:
    if not isinstance(value, int | float) or not 1e11 < value < 1e13:
        return None
    return datetime.fromtimestamp(value / 1000, UTC)
