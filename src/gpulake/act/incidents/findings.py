"""Findings of a build as sightings: what was seen, from when to when, and how severe it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from gpulake.core.alert_settings import Incidents
from gpulake.core.clock import midnight
from gpulake.core.kinds import severity_of
from gpulake.core.rows import text_or_none
from gpulake.core.sightings import Sighting
from gpulake.lake import LakeReader

MOST_TEXT = 2_000
DAY = timedelta(days=1)
FINDINGS = "SELECT * FROM findings ORDER BY rank"
CLUSTERS = "SELECT cluster_id, observed_until FROM silver_clusters"
SAMPLED = "SELECT cluster_id, max(sampled_at) AS observed_until FROM silver_gpu_samples GROUP BY cluster_id"

AsOf = Callable[[str | None], datetime]  # the time up to which a cluster was observed; None: all clusters


def read_findings(reader: LakeReader, now: datetime) -> tuple[list[Mapping[str, Any]], AsOf]:
    """The findings of the current build, and the time up to which it observed each cluster."""
    built = reader.tables()
    rows = reader.query(FINDINGS).to_pylist() if "findings" in built else []
    clusters = reader.query(CLUSTERS).to_pylist() if "silver_clusters" in built else []
    sampled = reader.query(SAMPLED).to_pylist() if "silver_gpu_samples" in built else []
    observed: dict[str, datetime | None] = {}
    for row in sorted(
        [*clusters, *sampled], key=lambda row: (row["observed_until"] is not None, row["observed_until"])
    ):
        observed[row["cluster_id"]] = row["observed_until"]  # the latest comes last
    return rows, as_of(observed, now)


def as_of(observed_until: Mapping[str, datetime | None], now: datetime) -> AsOf:
    """A cluster is observed up to its last event: silence after it resolves nothing, whatever the clock shows."""
    known = {name: min(until, now) for name, until in observed_until.items() if until is not None}
    newest = max(known.values(), default=now)
    return lambda cluster: known.get(cluster, newest) if cluster is not None else newest


def sightings(rows: Iterable[Mapping[str, Any]], settings: Incidents, until: AsOf) -> Iterator[Sighting]:
    for row in rows:
        kind = str(row.get("kind") or "")
        if not kind or kind in settings.ignored_kinds:
            continue
        cluster = text_or_none(row.get("cluster_id"))
        began, ended = _window(row, until(cluster))
        yield Sighting(
            kind=kind,
            subject=str(row.get("subject") or ""),
            began_at=began,
            ended_at=max(began, ended),
            severity=severity_of(row, kind, settings),
            headline=str(row.get("headline") or "")[:MOST_TEXT],
            detail=str(row.get("detail") or "")[:MOST_TEXT],
            remedy=str(row.get("remedy") or "")[:MOST_TEXT],
            cluster_id=cluster,
            node=text_or_none(row.get("node")),
            job_id=text_or_none(row.get("job_id")),
        )


def _window(row: Mapping[str, Any], seen_until: datetime) -> tuple[datetime, datetime]:
    """Its begin and end, or its day; without an end it lasts until the end of observation."""
    began, ended = _time(row.get("began_at")), _time(row.get("ended_at"))
    day = midnight(row.get("day"))
    if began is not None:
        return began, ended if ended is not None else max(began, seen_until)
    if day is None:
        return seen_until, seen_until
    is_about_day = str(row.get("subject")) == str(row.get("day"))
    return day, min(day + DAY, max(seen_until, day)) if is_about_day else max(day, seen_until)


def _time(value: object) -> datetime | None:
    if isinstance(value, str) and value:
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None
