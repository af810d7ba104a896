"""Saved views and annotations in the lake's journal."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from gpulake.core.annotations import ANNOTATIONS, Annotation, SavedView
from gpulake.core.clock import Clock
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.rows import from_row
from gpulake.flow.runs import recorded
from gpulake.lake import Lake

VIEWS, NOTES = "saved_view_events", "annotation_events"
MOST_VIEWS = 500
Kept = TypeVar("Kept", SavedView, Annotation)


def save_view(lake: Lake, clock: Clock, by: str, *, title: str, address: str) -> SavedView:
    with recorded(lake, clock, "views"):
        if sum(not one.is_removed for one in _standing(lake, VIEWS, SavedView).values()) >= MOST_VIEWS:
            raise UsageError(f"{MOST_VIEWS} views are saved already", "remove one at /views")
        view = SavedView(f"v-{uuid.uuid4().hex[:8]}", clock.now(), by, title=title, address=address)
        lake.append(VIEWS, [view.row()])
    return view


def annotate(
    lake: Lake,
    clock: Clock,
    by: str,
    *,
    text: str,
    kind: str = "note",
    cluster_id: str = "",
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
) -> Annotation:
    """Without a begin it is of now."""
    begin = starts_at or clock.now()
    if kind not in ANNOTATIONS:
        raise UsageError(f"no kind of annotation {kind!r}", choice_hint(kind, ANNOTATIONS))
    if ends_at is not None and ends_at <= begin:
        raise UsageError(f"the annotation ends at {ends_at:%Y-%m-%d %H:%M} UTC", "let it end later than it begins")
    with recorded(lake, clock, "annotations"):
        name = f"n-{uuid.uuid4().hex[:8]}"
        added = Annotation(name, clock.now(), by, False, kind, text, cluster_id, begin, ends_at)
        lake.append(NOTES, [added.row()])
    return added


def remove_view(lake: Lake, clock: Clock, by: str, given: str, is_operator: bool) -> SavedView:
    """Its author removes it, or an operator."""
    with recorded(lake, clock, "views"):
        view = _known(_standing(lake, VIEWS, SavedView), given, "saved view")
        if view.changed_by != by and not is_operator:
            raise UsageError(f"view {given} was saved by somebody else", "ask its author, or an operator")
        gone = replace(view, is_removed=True, changed_by=by, changed_at=max(clock.now(), view.changed_at))
        lake.append(VIEWS, [gone.row()])
    return gone


def remove_annotation(lake: Lake, clock: Clock, by: str, given: str) -> Annotation:
    with recorded(lake, clock, "annotations"):
        found = _known(_standing(lake, NOTES, Annotation), given, "annotation")
        gone = replace(found, is_removed=True, changed_by=by, changed_at=max(clock.now(), found.changed_at))
        lake.append(NOTES, [gone.row()])
    return gone


def _standing(lake: Lake, table: str, kind: type[Kept]) -> dict[str, Kept]:
    """As they stand, by their id: the first column. Rows that are none are skipped."""
    read = (from_row(kind, row) for row in lake.journal(table))
    return {next(iter(one.row().values())): one for one in read if one is not None}


def _known(standing: dict[str, Kept], given: str, noun: str) -> Kept:
    found = standing.get(given)
    if found is None or found.is_removed:
        raise UsageError(f"no {noun} {given!r}", "they are listed at /views")
    return found
