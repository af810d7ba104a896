"""What holds for the explanation of whatever a watch finds: the alarm is in it, and it can be told and drawn."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta

import pytest

from detect.scenes import SCENES, lake_of
from gpulake.core.explanation import Explanation
from gpulake.detect.evidence import evidence_of
from gpulake.detect.watchlist import run_watches
from gpulake.show.explain_page import series_figure
from gpulake.show.explain_text import explanation_text

HOSTILE = "x'; DROP TABLE silver_jobs; --\" {0} %s \x1b[31m<b>"


def explained(name: str, who: str) -> Explanation:
    with lake_of(SCENES[name](who)) as read:
        (found,) = run_watches(read)
        return Explanation(found.finding_id, asdict(found), found.severity, evidence_of(read, asdict(found)), None)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENES))
def test_the_alarm_lies_in_the_evidence(name: str) -> None:
    found = explained(name, "thing")
    shown = found.evidence
    assert shown is not None
    assert shown.is_flagged[shown.peak]
    step = timedelta(seconds=shown.interval_seconds)
    assert found.finding["began_at"] - step <= shown.times[shown.peak] <= found.finding["ended_at"]
    assert shown.times[0] <= shown.began_at <= shown.times[shown.peak] <= shown.ended_at <= shown.times[-1]
    assert shown.threshold is None or shown.scores[shown.peak] >= shown.threshold
    assert shown.tracks[0].values[shown.peak] is not None
    assert shown.tracks[0].share == max(track.share for track in shown.tracks) > 0
    assert shown.detector in explanation_text(found, 80)
    json.dumps(asdict(shown), default=str, allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENES))
def test_a_hostile_name_is_printed_and_drawn_as_text(name: str) -> None:
    found = explained(name, HOSTILE)
    assert found.evidence is not None
    text = explanation_text(found, 60)
    assert "\x1b" not in text
    assert "◆" in text
    figure = series_figure(found.evidence, found.evidence.tracks[0])
    json.dumps(figure, allow_nan=False)
    assert "<b>" not in str(figure)
