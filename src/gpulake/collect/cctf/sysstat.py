"""Parsers of mpstat, vmstat -t and ifstat -t: a row per line, other lines are rejected."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, tzinfo
from pathlib import Path
from typing import Any

from gpulake.collect.cctf.calendar import DayClock, dates, first_day, local_ms, second_of_day
from gpulake.core.lines import text_lines
from gpulake.core.types import BadRow

KEPT_LINES = 100
_NUMBER = re.compile(r"\d{1,15}(?:[.,]\d{1,9})?")
_MPSTAT_DATE = re.compile(r"Linux\s+\S+\s+\(.*\)\s+(\S+)")
_HYPHENS = re.compile(r"-*procs?-*\s+-")
# Bytes of a unit; vmstat writes -S m in 10^6 and -S M in 2^20.
UNITS = {"k": 1000, "K": 1024, "m": 10**6, "M": 1 << 20}
RATES = {"KB/s": 1024.0, "Kbps": 125.0, "kbps": 125.0}


@dataclass
class LogReport:
    """Counts of the lines of one log."""

    file: str
    rows: int = 0
    dated_by: str = ""  # the evidence for its first day
    reasons: Counter[str] = field(default_factory=Counter)
    rejected: list[tuple[int, str]] = field(default_factory=list)  # line number and reason, the first of them

    def reject(self, line_number: int, reason: str) -> None:
        self.reasons[reason] += 1
        if len(self.rejected) < KEPT_LINES:
            self.rejected.append((line_number, reason))

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "rows": self.rows,
            "dated_by": self.dated_by,
            "rejected": sum(self.reasons.values()),
            "reasons": dict(sorted(self.reasons.items())),
            "first_rejected": [{"line": line, "reason": reason} for line, reason in self.rejected],
        }


def lines_of(path: Path) -> Iterator[tuple[int, list[str], str]]:
    for line_number, line in text_lines(path):
        text = line.text if isinstance(line, BadRow) else line  # the beginning of an overlong line
        yield line_number, text.split(), text


def mpstat_rows(
    path: Path, report: LogReport, *, near_ms: int | None, end_ms: int, where: tzinfo
) -> Iterator[dict[str, Any]]:
    """One row per time: all CPUs, and each core with mpstat -P ALL."""
    clock = DayClock(_first_day(path, near_ms, end_ms, where), where)
    columns: list[str] = []
    row: dict[str, Any] = {}
    for line_number, words, line in lines_of(path):
        if not words or words[0].rstrip(":").lower() in ("average", "durchschn.", "moyenne"):
            continue
        if header := _MPSTAT_DATE.match(line):
            if (day := _likeliest(dates(header[1]), near_ms, where)) is not None:
                clock.set_day(day)
            continue
        time = second_of_day(words)
        rest = words[time[1] :] if time else []
        if rest and time and rest[0] == "CPU":
            columns = rest
            clock.ms(time[0])
            continue
        values = _cpu_values(rest, columns)
        if time is None or isinstance(values, str):
            report.reject(line_number, str(values) if time else "it does not begin with a time")
            continue
        ts_ms = clock.ms(time[0])
        if rest[0] == "all":
            yield from [row] if row else []
            row = _cpu_row(ts_ms, values)
            report.rows += 1
        elif row:
            row.setdefault("core_busy_ratios", []).append(round(1 - values["%idle"] / 100, 4))
    yield from [row] if row else []


def _cpu_values(words: list[str], columns: list[str]) -> dict[str, float] | str:
    """The numbers by column, or the reason to reject the line."""
    if not columns:
        return "no header comes before it"
    if len(words) != len(columns) or not re.fullmatch(r"all|\d{1,5}", words[0]):
        return "its numbers do not fit the header"
    values = {name: number(word) for name, word in zip(columns[1:], words[1:], strict=True)}
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) != len(values):
        return "a value is not a number"
    return known if 0 <= known.get("%idle", -1) <= 100 else "it does not say how much was idle"


def _cpu_row(ts_ms: int | None, values: Mapping[str, float]) -> dict[str, Any]:
    def ratio(*names: str) -> float | None:
        found = [values[name] for name in names if name in values]
        return round(sum(found) / 100, 6) if found else None

    return {
        "ts_ms": ts_ms,
        "cpu_util": round(100 - values["%idle"], 2),
        # mpstat reports guests separately; the kernel, and so our samples, count them as user time.
        "cpu_user_ratio": ratio("%usr", "%user", "%nice", "%guest", "%gnice"),
        "cpu_system_ratio": ratio("%sys", "%irq", "%soft"),
        "cpu_iowait_ratio": ratio("%iowait"),
        "cpu_steal_ratio": ratio("%steal"),
    }


def _first_day(path: Path, near_ms: int | None, end_ms: int, where: tzinfo) -> date:
    """The first day of a log without dates."""
    seconds = (time[0] for _, words, _ in lines_of(path) if (time := second_of_day(words)))
    return first_day(seconds, near_ms=near_ms, end_ms=end_ms, where=where) or date(1970, 1, 1)


def _likeliest(meanings: list[date], near_ms: int | None, where: tzinfo) -> date | None:
    """The meaning nearest to another log of the run; without one, the month comes first."""
    if not meanings:
        return None
    if near_ms is None:
        return meanings[0]
    return min(meanings, key=lambda day: abs((local_ms(day, 43_200, where) or 0) - near_ms))


def mpstat_begin_ms(path: Path, where: tzinfo, near_ms: int | None = None) -> int | None:
    """The start of the log by its header: an anchor for logs without dates."""
    day = None
    for _, words, line in lines_of(path):
        if header := _MPSTAT_DATE.match(line):
            day = _likeliest(dates(header[1]), near_ms, where)
        elif day is not None and (time := second_of_day(words)):
            return local_ms(day, time[0], where)
    return None


def vmstat_rows(path: Path, report: LogReport, *, unit_bytes: int, where: tzinfo) -> Iterator[dict[str, Any]]:
    columns: list[str] = []
    clock_day: DayClock | None = None
    for line_number, words, line in lines_of(path):
        if not words or _HYPHENS.match(line):
            continue
        if words[0] == "r" and "free" in words:
            columns = words
            continue
        parsed = _vmstat_values(words, columns)
        if isinstance(parsed, str):
            report.reject(line_number, parsed)
            continue
        values, day, second = parsed
        # The line has a date; the clock only resolves the repeated hour at the end of summer time.
        clock_day = clock_day or DayClock(day, where)
        clock_day.set_day(day)
        report.rows += 1
        yield {
            "ts_ms": clock_day.ms(second),
            "mem_free_mb": values["free"] * unit_bytes / 1e6,
            "swap_used_bytes": values["swpd"] * unit_bytes if "swpd" in values else None,
            "processes_running": values.get("r"),
            "processes_blocked": values.get("b"),
        }


def _vmstat_values(words: list[str], columns: list[str]) -> tuple[dict[str, int], date, int] | str:
    day = dates(words[-2]) if len(words) > 2 else []
    time = second_of_day(words[-1:])
    if not day or time is None:
        return "it does not end with a date and a time"
    # The header has one word for date and time, the zone; or none.
    names = columns[: len(words) - 2]
    if "free" not in names:
        return "no header comes before it"
    numbers = words[: len(names)]
    if len(words) - 2 != len(names) or not all(word.isascii() and word.isdigit() for word in numbers):
        return "its numbers do not fit the header"
    if any(len(word) > 15 for word in numbers):
        return "a number is too large"
    return {name: int(word) for name, word in zip(names, numbers, strict=True)}, day[0], time[0]


def vmstat_begin_ms(path: Path, where: tzinfo) -> int | None:
    for row in vmstat_rows(path, LogReport(path.name), unit_bytes=1, where=where):
        found: int | None = row["ts_ms"]
        return found
    return None


def vmstat_unit(path: Path, word: str, memory_bytes: int | None) -> int:
    """Bytes of the unit of the log: free, buffers and cache together cannot exceed the memory of the node."""
    if word != "auto":
        return UNITS[word]
    most = 0
    columns: list[str] = []
    for line_number, words, _ in lines_of(path):
        if words and words[0] == "r" and "free" in words:
            columns = words
        elif not isinstance(parsed := _vmstat_values(words, columns), str):
            most = max(most, sum(parsed[0].get(name, 0) for name in ("free", "buff", "cache", "inact", "active")))
        if line_number > 1000:
            break
    if not memory_bytes:
        return UNITS["m"]
    return next((UNITS[unit] for unit in ("m", "K") if most * UNITS[unit] <= memory_bytes * 1.02), UNITS["k"])


def ifstat_rows(
    path: Path, report: LogReport, *, near_ms: int | None, end_ms: int, where: tzinfo
) -> Iterator[dict[str, Any]]:
    """A row per interface of a line. KB are 1024 bytes; unreadable values are None."""
    clock = DayClock(_first_day(path, near_ms, end_ms, where), where)
    interfaces: list[str] = []
    unit = RATES["KB/s"]
    for line_number, words, _ in lines_of(path):
        if not words:
            continue
        if words[0] == "Time":
            interfaces = words[1:]
        elif words[0] == "HH:MM:SS":
            unit = next((RATES[word] for word in words if word in RATES), unit)
        elif words[0] in RATES:
            report.reject(line_number, "the log has no times: ifstat -t writes them")
        else:
            found = _ifstat_line(words, interfaces, clock, unit)
            if isinstance(found, str):
                report.reject(line_number, found)
            else:
                report.rows += 1
                yield from found


def _ifstat_line(words: list[str], interfaces: list[str], clock: DayClock, unit: float) -> list[dict[str, Any]] | str:
    if written := dates(words[0]):
        clock.set_day(written[0])
        words = words[1:]
    time = second_of_day(words)
    if time is None:
        return "it does not begin with a time"
    values = words[time[1] :]
    names = interfaces or [""]
    if len(values) != 2 * len(names):
        return "its numbers do not fit the header"
    if not all(word == "n/a" or number(word) is not None for word in values):
        return "a value is not a number"
    ts_ms = clock.ms(time[0])
    rates = [None if (value := number(word)) is None else round(value * unit, 3) for word in values]
    return [
        {"ts_ms": ts_ms, "iface": name, "rx_Bps": rates[2 * place], "tx_Bps": rates[2 * place + 1]}
        for place, name in enumerate(names)
        if name != "Total"
    ]


def number(word: str) -> float | None:
    return float(word.replace(",", ".")) if _NUMBER.fullmatch(word) and word.isascii() else None
