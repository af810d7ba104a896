"""Axes of time and headings, as people read them."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from gpulake.show.plots import time_axis
from gpulake.show.web.cells import cell, heading

DAYS = [str(date(1970, 1, 24) + timedelta(days=day)) for day in range(50)]


def test_days_in_a_row_are_a_line_of_time() -> None:
    assert time_axis(DAYS) == {"type": "date"}
    assert time_axis([f"2026-03-01 {hour:02d}:00" for hour in range(24)]) == {"type": "date"}


def test_years_between_two_clusters_take_no_room() -> None:
    assert time_axis([*DAYS, "2026-03-01"]) == {"type": "category", "nticks": 5, "tickangle": 0}


def test_a_day_or_two_are_names() -> None:
    assert [time_axis(DAYS[:days])["type"] for days in range(5)] == ["category"] * 4 + ["date"]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("gpus", "GPUs"),
        ("under_used_gpu_hours", "Under-used (GPU-h)"),
        ("gpu_hours_at_risk", "GPU-hours at risk"),
        ("cpu_busy_ratio", "CPU busy"),
        ("job_id", "Job"),
        ("submitted_at", "Submitted"),
    ],
)
def test_a_heading_is_written_as_people_write_it(column: str, words: str) -> None:
    assert heading(column) == words


def test_hours_have_two_decimals() -> None:
    hours = [0.0, 0.0004, 0.012, 0.5, 12.34, 1234.5]
    assert [cell("held_gpu_hours", value) for value in hours] == ["0", "< 0.01", "0.01", "0.50", "12.3", "1,234"]
    assert cell("bucket", "under_used") == "under-used"


def test_what_a_step_noted_is_read_without_brackets() -> None:
    assert cell("detail", '{"verdict": "failed", "rows": 3}') == "verdict: failed, rows: 3"
    assert [cell("detail", text) for text in ("{not json", "[1]", "words")] == ["{not json", "[1]", "words"]
