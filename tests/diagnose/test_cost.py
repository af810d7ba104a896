from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import built_from
from gpulake.core.diagnosis import Diagnosis
from gpulake.diagnose.cost import from_log, gpu_hours_lost
from gpulake.diagnose.story.events import Story
from gpulake.lake import Lake

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAILED = Diagnosis("failed", "framework", "RuntimeError", "It broke.")
FIELDS = "JobID|JobName|User|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList"


def _story(**reported: object) -> Story:
    return Story(**{"events": (), "run": 1, "runs": 1, "lines_read": 1, "lines_kept": 1, **reported})  # type: ignore[arg-type]


def _at(hours: float) -> datetime:
    return BEGAN + timedelta(hours=hours)


@pytest.fixture
def held(tmp_path: Path) -> Lake:
    """Job 7 holds 2 nodes of 8 GPUs from 12:00 to 16:00; another cluster has a job 9 of the same id as ours."""
    rows = [
        "7|train|ann|tiger|FAILED|2026-03-01T11:00:00|2026-03-01T12:00:00|2026-03-01T16:00:00|2|gres/gpu=16|gpu[01-02]",
        "9|train|ann|tiger|FAILED|2026-03-01T11:00:00|2026-03-01T12:00:00|2026-03-01T13:00:00|1|gres/gpu=4|gpu03",
        "9|train|bob|lion|FAILED|2026-04-01T11:00:00|2026-04-01T12:00:00|2026-04-01T14:00:00|1|gres/gpu=1|gpu09",
    ]
    return built_from(tmp_path / "held", {"sacct.txt": "\n".join([FIELDS, *rows, ""])})


@given(
    ranks=st.integers(1, 4096),
    seconds=st.integers(0, 10**6),
    checkpoint=st.none() | st.integers(-(10**6), 2 * 10**6),
)
def test_the_log_alone_counts_ranks_since_the_checkpoint(ranks: int, seconds: int, checkpoint: int | None) -> None:
    reported = BEGAN + timedelta(seconds=checkpoint) if checkpoint is not None else None
    story = _story(ranks=ranks, began_at=BEGAN, ended_at=BEGAN + timedelta(seconds=seconds), checkpoint_at=reported)
    lost_seconds = seconds if checkpoint is None or checkpoint <= 0 else max(seconds - checkpoint, 0)
    assert from_log(story) == pytest.approx(ranks * lost_seconds / 3600)


def test_what_the_log_does_not_tell_is_not_guessed() -> None:
    whole = {"ranks": 8, "began_at": BEGAN, "ended_at": _at(1)}
    assert [from_log(_story(**{**whole, name: None})) for name in whole] == [None, None, None]
    assert from_log(_story(**whole)) == 8.0


def test_a_healthy_run_lost_nothing_and_an_unknown_one_is_unknown() -> None:
    story = _story(ranks=8, began_at=BEGAN, ended_at=_at(1))
    healthy = Diagnosis("healthy", "none", "NotAFailure", "It ended well.")
    unknown = Diagnosis("unknown", "unknown", "unknown", "Nobody knows.")
    assert (gpu_hours_lost(healthy, story), gpu_hours_lost(unknown, story)) == (0.0, None)


@pytest.mark.parametrize(
    ("reported", "hours"),
    [
        ({}, 64.0),  # no times: the whole of its last attempt
        ({"began_at": _at(0.1), "ended_at": _at(3)}, 64.0),  # held until 16:00, though the log fell silent at 15:00
        ({"began_at": _at(0.1), "ended_at": _at(3), "checkpoint_at": _at(2.5)}, 24.0),
        ({"began_at": _at(0.1), "ended_at": _at(1), "run": 1, "runs": 2}, 16.0),
        ({"began_at": _at(1), "ended_at": _at(3), "run": 2, "runs": 2}, 48.0),
        ({"began_at": _at(1), "ended_at": _at(3), "run": 2, "runs": 2, "checkpoint_at": _at(3.5)}, 8.0),
    ],
)
def test_the_job_tables_know_what_was_held_and_until_when(
    held: Lake, reported: dict[str, object], hours: float
) -> None:
    with held.reading() as reader:
        assert gpu_hours_lost(FAILED, _story(job_id="7", **reported), reader) == pytest.approx(hours)


def test_a_job_id_of_two_clusters_needs_a_time_or_a_cluster(held: Lake) -> None:
    named = Diagnosis("failed", "framework", "RuntimeError", "It broke.", cluster_id="lion", job_id="9")
    with held.reading() as reader:
        assert gpu_hours_lost(FAILED, _story(job_id="9"), reader) is None
        timed = _story(job_id="9", began_at=_at(0.5), ended_at=_at(0.9))
        assert gpu_hours_lost(FAILED, timed, reader) == pytest.approx(4.0)
        assert gpu_hours_lost(named, _story(), reader) == pytest.approx(2.0)


def test_a_job_that_the_tables_do_not_know_costs_what_its_log_tells(held: Lake, lake: Lake) -> None:
    story = _story(job_id="8", ranks=2, began_at=BEGAN, ended_at=_at(2))
    for each in (held, lake):  # the second has no build at all
        with each.reading() as reader:
            assert gpu_hours_lost(FAILED, story, reader) == 4.0
