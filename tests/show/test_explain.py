"""Why something was found, as text and as a page: on any terminal, with whatever the data says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.core.errors import UsageError
from gpulake.core.explanation import Evidence, Explanation, Maybe, Ran, RanJob, Track
from gpulake.core.words import quantity
from gpulake.show.chart_text import FLAGGED, POINT, chart
from gpulake.show.explain_page import jobs_figure, series_figure, write_explanation
from gpulake.show.explain_text import explanation_text, jobs_text

AT = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOSTILE = '\x1b[2J</script><img src=x onerror=alert(1)>"'
Values = tuple[Maybe, ...]


def track(values: Values, low: float = 20.0, high: float = 40.0, share: float = 1.0, metric: str = "heat") -> Track:
    count = len(values)
    return Track(metric, share, values, (30.0,) * count, (low,) * count, (high,) * count)


def evidence(own: Track, flagged: tuple[int, ...] = (), unit: str = "celsius") -> Evidence:
    count = len(own.values)
    peak = flagged[0] if flagged else 0
    return Evidence(
        subject="n1",
        unit=unit,
        interval_seconds=3600.0,
        times=tuple(AT + place * HOUR for place in range(count)),
        tracks=(own,),
        is_flagged=tuple(place in flagged for place in range(count)),
        scores=tuple(0.9 if place in flagged else 0.1 for place in range(count)),
        began_at=AT + peak * HOUR,
        ended_at=AT + (flagged[-1] if flagged else 0) * HOUR,
        peak=peak,
        threshold=0.5,
        detector="spike",
        history_points=peak,
        history_since=AT,
        least_points=100,
    )


JOB = RanJob("c", HOSTILE, HOSTILE, 8.0, 16.0, AT, AT + 2 * HOUR, "failed")
FINDING: dict[str, Any] = {
    "rank": 1,
    "kind": "hot",
    "subject": "n1",
    "headline": f"n1 is hot {HOSTILE}",
    "detail": HOSTILE,
    "remedy": HOSTILE,
    "node": HOSTILE,
    "watch": "heat",
    "began_at": AT,
    "ended_at": AT + HOUR,
}
SHOWN = evidence(track((30.0, 31.0, 90.0, 30.0), metric=HOSTILE), flagged=(2,))
FOUND = Explanation("f-1", FINDING, "critical", SHOWN, Ran("machine n1", AT, AT + HOUR, (JOB,), 3), (HOSTILE,))


def test_a_chart_shows_what_was_seen_what_was_flagged_and_what_was_expected() -> None:
    shown = evidence(track((32.0, 32.0, None, 110.0, 32.0, 20.0)), flagged=(3,))
    assert chart(shown, shown.tracks[0], 40) == [
        "110 │   ◆",
        "    │",
        "    │",
        "    │",
        "    │",
        "    │",
        "    │",
        "    │••░░•░",
        " 20 │░░░░░•",
        "    └──────",
        "     01-05 00:00 to 01-05 05:00",
    ]


def test_seconds_are_shown_where_they_matter() -> None:
    shown = replace(evidence(track((30.0, 31.0)), (1,)), interval_seconds=2.0, times=(AT, AT + timedelta(seconds=2)))
    assert chart(shown, shown.tracks[0], 40)[-1].strip() == "01-05 00:00:00 to 01-05 00:00:02"
    assert "At its peak, 2026-01-05 00:00:02 UTC" in explanation_text(replace(FOUND, evidence=shown), 80)


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6, allow_subnormal=False)), min_size=1, max_size=300),
    st.integers(40, 120),
    st.sets(st.integers(0, 299), max_size=5),
)
def test_a_chart_fits_and_no_flagged_value_is_lost(values: list[Maybe], columns: int, flagged: set[int]) -> None:
    places = tuple(sorted(place for place in flagged if place < len(values)))
    shown = evidence(track(tuple(values)), places)
    lines = chart(shown, shown.tracks[0], columns)
    assert max(map(len, lines[:-1])) <= columns
    body = "".join(lines[:-2])
    if any(values[place] is not None for place in places):
        assert FLAGGED in body
    assert (POINT in body or FLAGGED in body) == any(value is not None for value in values)


def test_a_series_without_values_says_so() -> None:
    unknown = evidence(Track("heat", 1.0, (None,), (None,), (None,), (None,)))
    assert chart(unknown, unknown.tracks[0], 80) == ["no values"]


def test_the_text_says_what_was_expected_seen_and_how_it_was_judged() -> None:
    plain = replace(FOUND, finding={**FINDING, "headline": "n1 is hot", "detail": "", "remedy": "", "node": "n1"})
    text = explanation_text(replace(plain, evidence=evidence(track((30.0, 31.0, 90.0)), (2,)), others=()), 80)
    head, _, peak = text.split("\n\n")
    assert head.splitlines() == [
        "n1 is hot",
        "  id        f-1, critical, hot",
        "  about     machine n1",
        "  when      2026-01-05 00:00 to 2026-01-05 01:00 UTC, 1 h",
    ]
    assert peak.splitlines() == [
        "At its peak, 2026-01-05 02:00 UTC",
        "  heat  90 celsius seen, 30 expected (20 to 40); 100% of the score",
        "  score     0.90 of 1, threshold 0.50, by detector spike",
        "  history   2 points before it, since 2026-01-05 00:00; 100 are needed",
    ]


def test_metrics_that_carry_little_are_left_out() -> None:
    tracks = (track((90.0,), share=0.6, metric="a"), track((50.0,), share=0.35, metric="b"), track((30.0,), share=0.05))
    text = explanation_text(replace(FOUND, evidence=replace(evidence(tracks[0]), tracks=tracks)), 80)
    assert re.findall(r"(\d+)% of the score", text) == ["60", "35"]


def test_what_no_single_point_shows_is_said_to_last() -> None:
    text = explanation_text(replace(FOUND, evidence=evidence(track((30.0, 31.0)), (1,))), 80)
    assert "each point is within its band" in text
    assert "single point" not in explanation_text(FOUND, 80)


def test_jobs_have_a_line_each_or_two_where_there_is_no_room() -> None:
    other = replace(JOB, job_id="ü語", user_id=None, status="running", gpus=0.5, gpu_hours=0.04)
    ran = Ran("machine n1", AT, AT + HOUR, (replace(JOB, job_id="j", user_id="ann"), other), 1)
    assert jobs_text(ran, 120).splitlines() == [
        "Jobs of machine n1, 2026-01-05 00:00 to 2026-01-05 01:00 UTC, most GPU-hours first",
        "  job  user       GPUs  GPU-hours then  began (UTC)       ended (UTC)       status",
        "  j    ann         8.0            16.0  2026-01-05 00:00  2026-01-05 02:00  failed",
        "  ü語  (unknown)   0.5            <0.1  2026-01-05 00:00  running           running",
        "  and 1 more job",
    ]
    assert jobs_text(ran, 60).splitlines()[1:3] == [
        "  j, user ann",
        "    2026-01-05 00:00 to 2026-01-05 02:00, failed; 8.0 GPUs, 16.0 GPU-hours then",
    ]
    assert jobs_text(replace(ran, jobs=(), more=0), 80) == (
        "No job of machine n1 held GPUs from 2026-01-05 00:00 to 2026-01-05 01:00 UTC\n"
    )
    assert jobs_text(None, 80) == "Jobs: the time or the jobs are not known\n"


def test_hostile_words_cannot_steer_a_terminal() -> None:
    shown = explanation_text(FOUND, 80) + jobs_text(FOUND.ran, 80) + jobs_text(FOUND.ran, 500)
    assert "\x1b" not in shown
    assert "<img src=x" in shown


def test_a_page_has_series_band_flags_and_jobs_and_nothing_of_the_data_runs(tmp_path: Path) -> None:
    write_explanation(FOUND, tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text()
    assert "<img src=x" not in page
    assert page.count("</script>") == page.count("<script>") == 2
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", body)
    assert [name for name in ("track0", "jobs") if f'id="{name}"' not in body] == []
    assert "And 3 more jobs." in body
    figures = json.loads(re.findall(r"const figures = (.*);", page)[-1])
    assert set(figures) == {"track0", "jobs"}


def test_the_figures_hold_the_series_and_the_bars_of_the_jobs() -> None:
    low, high, seen, marks = series_figure(SHOWN, SHOWN.tracks[0])["data"]
    assert (low["y"], high["y"], high["fill"]) == ([20.0] * 4, [40.0] * 4, "tonexty")
    assert (seen["y"], marks["x"], marks["y"]) == ([30.0, 31.0, 90.0, 30.0], ["2026-01-05 02:00:00"], [90.0])
    other = replace(JOB, job_id="x", status="succeeded", began_at=AT + HOUR)
    jobs = Ran("machine n1", AT, AT + HOUR, (JOB, other, other))
    figure = jobs_figure(jobs, SHOWN)
    failed, succeeded = figure["data"]
    assert (failed["base"], failed["x"]) == (["2026-01-05 00:00:00"], [7_200_000.0])
    assert (succeeded["y"], succeeded["x"]) == (["x #0", "x #1"], [3_600_000.0] * 2)
    assert figure["layout"]["xaxis"] == series_figure(SHOWN, SHOWN.tracks[0])["layout"]["xaxis"]
    assert not [text for text in (*failed["text"], *failed["y"]) if "</script" in text or "<img" in text]


def test_without_a_series_there_is_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="f-1 has no series to draw"):
        write_explanation(replace(FOUND, evidence=None), tmp_path / "why.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (None, "ratio", "–"),
        (0.3149, "ratio", "31.5%"),
        (0.0, "watts", "0 watts"),
        (1234.5, "watts", "1,234 watts"),
        (0.012345, "", "0.0123"),
    ],
)
def test_a_value_has_its_unit(value: Maybe, unit: str, said: str) -> None:
    assert quantity(value, unit) == said
