"""Training runs of the lake: the steps of a run or of a job, and what they say of how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, Any

from gpulake.core.packaged import queries
from gpulake.core.training import TrainingPart
from gpulake.core.words import count, label, span
from gpulake.diagnose.pace import LEAST_STALL_SECONDS, STALL_FACTOR

if TYPE_CHECKING:
    from gpulake.lake import LakeReader

TABLES = {"silver_training_runs", "silver_training_steps", "gold_run_goodput"}
SQL = queries("gpulake.diagnose", "queries.sql")
BEFORE, LEAST_BEFORE = 100, 10  # losses that a last one is compared with
SPIKE = 3.0  # times the median of those


@dataclass(frozen=True)
class TrainingRun:
    source: str
    run_id: str
    job_id: str | None
    cluster_id: str | None
    rows: tuple[dict[str, Any], ...]  # in the order of time
    parts: tuple[TrainingPart, ...]

    @property
    def steps(self) -> list[tuple[float, float]]:
        """When rows ended and how long they took, restarts left out."""
        known = [row for row in self.rows if row["took_seconds"] is not None and not row["is_restart"]]
        return [(row["at_seconds"], row["took_seconds"]) for row in known]


def find_run(
    reader: LakeReader, run_id: str | None = None, job_id: str | None = None, cluster_id: str | None = None
) -> TrainingRun | None:
    if not reader.tables() >= TABLES:
        return None
    found = reader.query(SQL["training_run"], run_id=run_id, job_id=job_id, cluster_id=cluster_id).to_pylist()
    if not found:
        return None
    (run,) = found
    rows = reader.query(SQL["training_steps"], run_key=run["run_key"]).to_pylist()
    parts = reader.query(SQL["training_parts"], run_key=run["run_key"]).to_pylist()
    told = tuple(TrainingPart(**part) for part in parts)
    return TrainingRun(run["source"], run["run_id"], run["job_id"], run["cluster_id"], tuple(rows), told)


def said(run: TrainingRun, ended_at: datetime | None = None) -> Iterator[str]:
    """What its steps say of its end, a sentence each. `ended_at` is when the job or its log ended."""
    if not run.rows:
        return
    last = run.rows[-1]
    at = "" if last["at_seconds"] is None else f" at {_clock(last['at_seconds'])}"
    loss = "" if last["loss"] is None else f", with a loss of {last['loss']:.4g}"
    yield f"Its training run {label(run.run_id, 80)} ({run.source}) logged step {last['step']:,.0f} last{at}{loss}."
    yield from _of_loss([row for row in run.rows if row["loss"] is not None])
    usual, until = last["usual_row_seconds"], ended_at.timestamp() if ended_at is not None else None
    silent = until - last["at_seconds"] if until is not None and last["at_seconds"] is not None else 0.0
    if usual is not None and silent > max(LEAST_STALL_SECONDS, STALL_FACTOR * usual):
        yield f"It logged nothing in its last {span(silent)}; until then it did so about every {span(usual)}."
    elif usual is not None and last["took_seconds"] and last["took_seconds"] > STALL_FACTOR * usual:
        yield f"Its last row took {span(last['took_seconds'])}, where {span(usual)} are usual."
    if last["restarts"]:
        yield f"It was restarted {count(last['restarts'], 'time')} and did steps again."


def _of_loss(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    if not isfinite(rows[-1]["loss"]):
        # The first of those that it ends with.
        finite = max((place for place, row in enumerate(rows) if isfinite(row["loss"])), default=-1)
        yield f"Its loss is {rows[-1]['loss']} since step {rows[finite + 1]['step']:,.0f}: it diverged."
        return
    before = [row["loss"] for row in rows[-BEFORE - 1 : -1] if isfinite(row["loss"])]
    if len(before) >= LEAST_BEFORE and rows[-1]["loss"] > SPIKE * median(before) > 0:
        yield f"Its loss rose to {rows[-1]['loss']:.4g} at the end; the median before was {median(before):.4g}."


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
