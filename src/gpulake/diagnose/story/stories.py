"""From digests to stories: the events of each run of a log, with their writers and times."""

from __future__ import annotations

import builtins
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpulake.core.diagnosis import Quote
from gpulake.diagnose.logs.digest import Digest, Line
from gpulake.diagnose.rulebook.book import Rulebook, compiled
from gpulake.diagnose.rulebook.rule import Hit
from gpulake.diagnose.story.events import Ending, Event, Story
from gpulake.diagnose.story.lines import ParsedLine, parse_line
from gpulake.diagnose.story.runs import cut_into_runs, has_end
from gpulake.diagnose.story.tracebacks import Raised, lines_of_code, read_tracebacks

LAST_LINES = 5
BAR = "progress_bar"  # the rule of a progress bar
OTHER_EXCEPTION = "python_other_exception"  # the rule for exceptions without a rule of their own
_YEAR = re.compile(r"\b(20[1-4]\d)[-/_](?:0[1-9]|1[0-2])[-/_](?:0[1-9]|[12]\d|3[01])")
_JOB = re.compile(
    r"SLURM_JOB(?:_?ID)?[=: ]+['\"]?(\d+)|slurmstepd: error: \*\*\* (?:JOB|STEP) (\d+)|StepId=(\d+)|"
    r"Submitted batch job (\d+)|\b(raysubmit_\w+)"
)
_WORLD = re.compile(
    r"\bworld[ _-]?size['\"]?\s*[:=]?\s*(\d{1,6})\b|\bnranks (\d{1,6})\b|WORLD_SIZE=(\d{1,6})", re.IGNORECASE
)
_BUILT_IN = re.compile("|".join(sorted((name for name in dir(builtins) if name.endswith("Error")), key=len)[::-1]))
# torchrun's report of the worker that failed first, with its exit code.
LONGEST_REPORT = 12
_FIRST_FAILURE = re.compile(r"Root Cause \(first observed failure\)")
_RANK = re.compile(r"rank\s+: (\d{1,9}) \(local_rank")
_HOST = re.compile(r"host\s+: (\S+)")
_EXIT = re.compile(r"exitcode\s+: (-?\d{1,9}) +\(pid: (\d{1,10})\)")
# Lines that only speak of a message: the statement that prints it, as in a script that a job shows, and advice.
_SPEAKS_OF_ONE = re.compile(
    r"\s*(?:\w+\.)*(?:print|echo|log|info|warning)\w*\s*\(?\s*f?[\"']"
    r"|.*\b[Ii]f you (?:see|get|hit|encounter|run into)\b"
)
_PROGRAM = re.compile(r"^(?P<program>[\w.-]+): error: ")


@dataclass(frozen=True)
class ParsedFile:
    """The parsed lines and events of a file."""

    digest: Digest
    lines: tuple[tuple[Line, ParsedLine], ...]
    events: tuple[Event, ...]
    endings: tuple[Ending, ...]


def read_stories(digests: Sequence[Digest], rulebook: Rulebook, time_zone: str = "UTC") -> list[Story]:
    """The runs of a log, oldest first; files of a folder are one run. Times without a zone are of time_zone."""
    files = [_parse(digest, rulebook, time_zone) for digest in digests]
    events = _in_order(files)
    runs = cut_into_runs(events) if len(digests) == 1 else [events]
    return [_story(index, run, runs, files) for index, run in enumerate(runs, 1)]


def _parse(digest: Digest, rulebook: Rulebook, time_zone: str) -> ParsedFile:
    year = next((int(found[1]) for line in digest.lines if (found := _YEAR.search(line.text))), None)
    lines = tuple((line, parse_line(line.text, time_zone, year)) for line in digest.lines)
    file = digest.name
    raised = {one.line: one for one in read_tracebacks(lines)}
    texts = {line.number: line.text for line, _ in lines}
    code = lines_of_code(lines)
    events = []
    for line, parsed in lines:
        if line.number in code and line.number not in raised:
            continue
        hits = _hits(line, parsed, rulebook) if line.is_hit or line.number in raised else []
        start = next((hit for hit in hits if hit.rule.role == "start"), None)
        if start is not None:
            events.append(_event(start, line, parsed, None, texts, file))
        if line.number in raised and all(hit.rule.name == OTHER_EXCEPTION or hit.rule.needs_frames for hit in hits):
            hits += rulebook.hits(_disentangled(raised[line.number]), line.number)
        hit = _of_last_bar(_best(hits, raised.get(line.number), rulebook), line, rulebook)
        if hit is not None and line.number not in raised and _SPEAKS_OF_ONE.match(parsed.body):
            continue
        if hit is not None and hit is not start:
            events.append(_event(hit, line, parsed, raised.get(line.number), texts, file))
    return ParsedFile(digest, lines, tuple(events), _endings(lines, file))


def _hits(line: Line, parsed: ParsedLine, rulebook: Rulebook) -> list[Hit]:
    """Of the whole line, and of its message without prefixes."""
    hits = rulebook.hits(line.text, line.number)
    if parsed.body != line.text and parsed.body.strip():
        hits += rulebook.hits(parsed.body, line.number, [hit.rule for hit in hits])
    return hits


def _of_last_bar(hit: Hit | None, line: Line, rulebook: Rulebook) -> Hit | None:
    """Of a progress bar without carriage returns, which fills one line, the last state counts."""
    if hit is None or hit.rule.name != BAR:
        return hit
    rest = line.text[max(0, line.text.rfind("%|") - 3) :]
    return next((last for last in rulebook.hits(rest, line.number) if last.rule.name == BAR), hit)


def _disentangled(raised: Raised) -> str:
    """The exception in a line that several ranks wrote at once."""
    found = _BUILT_IN.search(raised.name)
    return f"{found[0]}: {raised.message.lstrip(': ')}" if found else ""


def _best(hits: Sequence[Hit], raised: Raised | None, rulebook: Rulebook) -> Hit | None:
    """The strongest matching rule; of equal ones the first in the book."""
    stack, places = (("\n".join(raised.texts),), raised.places) if raised is not None else ((), ())
    fitting = [hit for hit in hits if _is_met(hit.rule.traceback, stack) and _is_met(hit.rule.raised_in, places)]
    if not fitting and raised is not None:
        return next((Hit(rule, raised.line) for rule in rulebook.rules if rule.name == OTHER_EXCEPTION), None)
    best = max(fitting, key=lambda hit: hit.rule.strength, default=None)
    if best is not None and best.rule.role == "noise":
        # A progress line stays one although it also matches a rule of noise.
        return next((hit for hit in fitting if hit.rule.role == "progress"), best)
    return best


def _is_met(condition: str, texts: Sequence[str]) -> bool:
    return not condition or any(compiled(condition).search(text) for text in texts)


def _event(hit: Hit, line: Line, parsed: ParsedLine, raised: Raised | None, texts: dict[int, str], file: str) -> Event:
    event = Event(
        hit=hit,
        quote=Quote(line.number, line.text, file),
        order=line.number,
        at=parsed.at,
        rank=parsed.rank,
        host=parsed.host,
        pid=parsed.pid,
        severity=parsed.severity,
        speaker=parsed.name,
    )
    if raised is None:
        program = _PROGRAM.match(parsed.body) if hit.rule.family == "arguments" else None
        return replace(event, script=program["program"]) if program else event
    statement = raised.raised_at if raised.raised_at in texts else None
    return replace(
        event,
        traceback=raised.texts,
        is_uncaught=raised.is_uncaught,
        is_ignored=raised.is_ignored,
        chain=raised.chain,
        link=raised.link,
        script=raised.script,
        first_line=raised.first_line,
        rest=tuple(Quote(number, text, file) for number, text in raised.rest.items()),
        raised_by=Quote(statement, texts[statement].strip(), file) if statement is not None else None,
    )


def _in_order(files: Sequence[ParsedFile]) -> list[Event]:
    """By line within a file, by time across files; a line without a time has that of the line before it."""
    if len(files) == 1:
        return list(files[0].events)
    timed = [pair for file, one in enumerate(files) for pair in _timed(one, file)]
    timed.sort(key=lambda pair: pair[0])
    return [replace(event, order=order) for order, (_, event) in enumerate(timed)]


def _timed(files: ParsedFile, file: int) -> Iterator[tuple[tuple[float, int, int], Event]]:
    """Times never decrease within a file. Without times, lines are ordered by their number."""
    latest: float | None = next((parsed.at.timestamp() for _, parsed in files.lines if parsed.at is not None), None)
    times: dict[int, float] = {}
    for line, parsed in files.lines:
        if parsed.at is not None:
            latest = max(latest or 0.0, parsed.at.timestamp())
        times[line.number] = latest if latest is not None else 0.0
    for event in files.events:
        yield (times[event.quote.line], event.quote.line, file), event


def _story(index: int, run: list[Event], runs: Sequence[list[Event]], files: Sequence[ParsedFile]) -> Story:
    first, last = _span(index, runs, files)
    lines = [pair for one in files for pair in _between(one.lines, first, last)]
    times = [parsed.at for _, parsed in lines if parsed.at is not None]
    hosts = dict.fromkeys(parsed.host for _, parsed in lines if parsed.host)
    lines_read = sum(one.digest.lines_read for one in files) if len(runs) == 1 else len(lines)
    lines_kept = sum(one.digest.lines_kept for one in files) if len(runs) == 1 else len(lines)
    quotes = [Quote(line.number, line.text) for line, parsed in lines if parsed.body.strip()]
    return Story(
        events=tuple(run),
        run=index,
        runs=len(runs),
        lines_read=lines_read,
        lines_kept=lines_kept,
        began_at=min(times, default=None),
        ended_at=max(times, default=None),
        last_progress_at=_last_at(run, "progress"),
        is_log=bool(run) or any(parsed.body != line.text for line, parsed in lines),
        is_whole=has_end(run),
        ranks=_world(lines),
        hosts=tuple(hosts),
        job_id=_job(lines),
        last_lines=tuple(quotes[-LAST_LINES:]),
        checkpoint_at=_checkpoint_at(run),
        endings=tuple(end for one in files for end in one.endings if first <= end.quote.line <= last),
    )


def _between(lines: Sequence[tuple[Line, ParsedLine]], first: int, last: int) -> Sequence[tuple[Line, ParsedLine]]:
    def number(pair: tuple[Line, ParsedLine]) -> int:
        return pair[0].number

    return lines[bisect_left(lines, first, key=number) : bisect_right(lines, last, key=number)]


def _span(index: int, runs: Sequence[list[Event]], files: Sequence[ParsedFile]) -> tuple[int, int]:
    """Numbers of the first and the last line of a run."""
    last_line = max((one.lines[-1][0].number for one in files if one.lines), default=0)
    if len(runs) == 1:
        return 1, last_line
    first = 1 if index == 1 else runs[index - 1][0].quote.line
    return first, last_line if index == len(runs) else runs[index][0].quote.line - 1


def _last_at(run: Sequence[Event], role: str) -> datetime | None:
    return max((event.at for event in run if event.hit.rule.role == role and event.at is not None), default=None)


def _checkpoint_at(run: Sequence[Event]) -> datetime | None:
    saved = [event for event in run if event.hit.rule.name.startswith("checkpoint_saved")]
    return _last_at(saved, "progress")


def _job(lines: Sequence[tuple[Line, ParsedLine]]) -> str | None:
    for line, _ in lines:
        if found := _JOB.search(line.text):
            return next(group for group in found.groups() if group)
    return None


def _world(lines: Sequence[tuple[Line, ParsedLine]]) -> int | None:
    sizes = [
        int(next(group for group in found.groups() if group))
        for line, _ in lines
        if (found := _WORLD.search(line.text))
    ]
    return max(sizes, default=None)


def _endings(lines: Sequence[tuple[Line, ParsedLine]], file: str) -> tuple[Ending, ...]:
    """Reports of the first observed failure, in the order of the file. Lines of other writers may lie between."""
    found = []
    for index, (line, _) in enumerate(lines):
        if _FIRST_FAILURE.search(line.text):
            found.append(_ending(line, lines[index + 1 : index + 1 + LONGEST_REPORT], file))
    return tuple(found)


def _ending(begin: Line, block: Sequence[tuple[Line, ParsedLine]], file: str) -> Ending:
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
