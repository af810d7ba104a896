"""GPU-hours that a failure cost: those held since the last checkpoint, or since the run began where there was none.

From the job tables, where they know the job: GPUs that it held, from the checkpoint (or from when they were given to
it) until they were free again, so that the time a hang kept them counts. A log that holds several runs of one job
shares them out: a run ends when its log does, and only the last one holds them to the end. Else from the log alone:
ranks times the time that it covers. Else it is unknown, as it is for a run with an unknown outcome. A healthy run lost
nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gpulake.core.diagnosis import Diagnosis
from gpulake.core.packaged import queries
from gpulake.diagnose.story.events import Story

if TYPE_CHECKING:
    from gpulake.lake import LakeReader

NEEDED = {"silver_holdings", "silver_jobs"}
SQL = queries("gpulake.diagnose", "queries.sql")


def gpu_hours_lost(diagnosis: Diagnosis, story: Story, reader: LakeReader | None = None) -> float | None:
    if diagnosis.verdict != "failed":
        return 0.0 if diagnosis.verdict == "healthy" else None
    hours = from_jobs(diagnosis, story, reader) if reader is not None else None
    return hours if hours is not None else from_log(story)


def from_log(story: Story) -> float | None:
    if story.ranks is None or story.began_at is None or story.ended_at is None:
        return None
    since = max(story.began_at, story.checkpoint_at or story.began_at)
    return story.ranks * max((story.ended_at - since).total_seconds(), 0.0) / 3600


def from_jobs(diagnosis: Diagnosis, story: Story, reader: LakeReader) -> float | None:
    job_id = diagnosis.job_id or story.job_id
    if job_id is None or not reader.tables() >= NEEDED:
        return None
    is_timed = story.began_at is not None and story.ended_at is not None
    since = story.checkpoint_at
    if story.run > 1 and story.began_at is not None:
        since = max(story.began_at, story.checkpoint_at or story.began_at)
    row = reader.query(
        SQL["held"],
        job_id=job_id,
        cluster_id=diagnosis.cluster_id,
        began_at=_text(story.began_at) if is_timed else None,
        ended_at=_text(story.ended_at) if is_timed else None,
        since=_text(since),
        until=_text(story.ended_at) if story.run < story.runs else None,
    ).to_pylist()[0]
    if row["clusters"] != 1 or row["gpu_hours"] is None:
        return None
    return float(row["gpu_hours"])


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
