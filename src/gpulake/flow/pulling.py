"""Pulling: each piece lands, then its span is noted in the journal, so that a crash in between pulls it again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.disk import make_folder
from gpulake.core.errors import LakeBusyError, PullError, UsageError
from gpulake.core.redaction import redacted
from gpulake.core.types import Landing, LandResult
from gpulake.pull import Desk, Piece, Source, Span

if TYPE_CHECKING:
    from gpulake.flow import Flow


OPEN_JOBS = """
SELECT job_id FROM silver_jobs WHERE cluster_id = getvariable('cluster') AND status IN ('running', 'waiting')
"""
FIRST_PULL = timedelta(days=1)  # where nothing says since when
BUSY_WAITS_SECONDS = (1.0, 5.0, 15.0, 60.0, 60.0, 60.0)  # a build holds the lake for minutes
NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True)
class PullResult:
    source: str
    address: str
    spans: tuple[Span, ...]  # that were missing, and are pulled
    pieces: int
    rows_landed: int
    rows_quarantined: int
    notes: tuple[str, ...] = ()  # of the last piece


def pull(
    flow: Flow, source: Source, since: datetime | None, until: datetime | None, is_again: bool = False
) -> PullResult:
    """Pulls what the lake does not have of this time; without `since`, from the watermark on."""
    now = flow.clock.now()
    lake = flow.lake.create()
    with lake.alone(f"pull-{source.name}"):
        covered = [] if is_again else covered_spans(lake.journal("pulls"), source)
        newest = covered[-1] if covered else Span(now - FIRST_PULL, now - FIRST_PULL)
        begin = since or max(newest.since, newest.until - source.overlap)
        asked = Span(begin, min(until or now, now))
        if asked.since >= asked.until:
            raise UsageError(
                f"nothing to pull between {asked.since:%Y-%m-%d %H:%M:%S} and {asked.until:%Y-%m-%d %H:%M:%S}",
                "give a --since that is before --until and before now",
            )
        spans = tuple(missing_spans(asked, covered, source.overlap))
        folder = lake.root / "pulled" / source.name / NOT_IN_NAMES.sub("_", source.address)
        shutil.rmtree(folder, ignore_errors=True)  # what a pull left that was cut off
        make_folder(folder)
        try:
            result = PullResult(source.name, source.address, spans, 0, 0, 0)
            return _pull_spans(flow, source, result, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _pull_spans(flow: Flow, source: Source, result: PullResult, folder: Path) -> PullResult:
    total = sum((span.until - span.since for span in result.spans), timedelta()).total_seconds()
    done = 0.0
    whole = flow.report
    for span in result.spans:
        desk = Desk(folder, flow.clock, flow.wait, whole, partial(_open_jobs, flow))
        at = span.since
        try:
            for piece in source.pieces(span, desk):
                whole(f"pulling {source.name} until {piece.span.until:%Y-%m-%d %H:%M}", done / total)
                flow.report = lambda _, __: None
                landed = _landed(flow, piece)
                result = replace(_counted(result, landed.landings), notes=piece.notes)
                if landed.failed:
                    # It is in a copy of what was saved, under its own name.
                    reason = landed.failed[0].reason.replace(f"{folder}{os.sep}", "")
                    raise PullError(reason, landed.failed[0].hint)
                _note(flow, source, piece, landed.landings)
                done += (piece.span.until - at).total_seconds()
                at = piece.span.until
        except PullError as error:
            until = f" until {at:%Y-%m-%d %H:%M:%S} UTC" if at > span.since else ""
            rows = f"{result.rows_landed:,} rows{until} have landed" if result.rows_landed else "nothing has landed"
            raise PullError(f"{error.message} ({rows})", error.hint) from error
        finally:
            flow.report = whole
    return result


def _landed(flow: Flow, piece: Piece) -> LandResult:
    if not piece.files:
        return LandResult()
    landed: LandResult = _patiently(flow, lambda: flow.land(piece.files, is_replacing=True))
    for file in piece.files:
        file.unlink(missing_ok=True)
    return landed


def _patiently(flow: Flow, act: Callable[[], Any]) -> Any:
    for seconds in BUSY_WAITS_SECONDS:
        try:
            return act()
        except LakeBusyError:
            flow.wait(seconds)
    return act()


def _note(flow: Flow, source: Source, piece: Piece, landings: Sequence[Landing]) -> None:
    row = {
        "source": source.name,
        "address": source.address,
        "scope": source.scope,
        "since_at": piece.span.since,
        "until_at": piece.span.until,
        "rows_landed": sum(landing.rows_landed for landing in landings),
        "rows_quarantined": sum(landing.rows_quarantined for landing in landings),
        "pulled_at": flow.clock.now(),
        "run_id": flow.run_id,
    }
    flow.lake.append("pulls", [row])


def _counted(result: PullResult, landings: Sequence[Landing]) -> PullResult:
    return replace(
        result,
        pieces=result.pieces + 1,
        rows_landed=result.rows_landed + sum(landing.rows_landed for landing in landings if landing.is_new),
        rows_quarantined=result.rows_quarantined + sum(one.rows_quarantined for one in landings if one.is_new),
    )


def _open_jobs(flow: Flow, cluster: str) -> list[str]:
    """None, before the first build."""
    with flow.lake.reading() as reader:
        if "silver_jobs" not in reader.tables():
            return []
        return [row["job_id"] for row in reader.rows(OPEN_JOBS, cluster=cluster)]


def covered_spans(rows: Sequence[dict[str, Any]], source: Source) -> list[Span]:
    """The spans that were pulled of this source, in order and joined where they touch."""
    key = (source.name, redacted(source.address), redacted(source.scope))
    found = sorted(
        (datetime.fromisoformat(row["since_at"]), datetime.fromisoformat(row["until_at"]))
        for row in rows
        if (row["source"], row["address"], row["scope"]) == key
    )
    joined: list[Span] = []
    for since, until in found:
        if joined and since <= joined[-1].until:
            joined[-1] = Span(joined[-1].since, max(joined[-1].until, until))
        else:
            joined.append(Span(since, until))
    return joined


def missing_spans(asked: Span, covered: Sequence[Span], overlap: timedelta) -> Iterator[Span]:
    """What of the asked time is not covered; the end of the newest covered span may have changed since."""
    at = asked.since
    *older, newest = covered or [Span(at, at)]
    for span in (*older, Span(newest.since, newest.until - overlap)):
        if span.since < span.until:
            if at < min(span.since, asked.until):
                yield Span(at, min(span.since, asked.until))
            at = max(at, span.until)
    if at < asked.until:
        yield Span(at, asked.until)
