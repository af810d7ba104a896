"""Which time a pull asks for: what is missing, and the newest part again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpulake.flow.pulling import missing_spans
from gpulake.pull import Span


def span(since: int, until: int) -> Span:
    """Minutes of an hour."""
    at = datetime(2026, 5, 1, 8, tzinfo=UTC)
    return Span(at + timedelta(minutes=since), at + timedelta(minutes=until))


def missing(asked: Span, *covered: Span, overlap: int = 0) -> list[Span]:
    return list(missing_spans(asked, covered, timedelta(minutes=overlap)))


def test_all_is_missing_of_a_source_that_was_never_pulled() -> None:
    assert missing(span(0, 60)) == [span(0, 60)]


def test_a_pull_goes_on_at_the_watermark_less_the_overlap() -> None:
    assert missing(span(0, 60), span(0, 40), overlap=5) == [span(35, 60)]


def test_holes_are_filled_without_an_overlap_and_what_is_earlier_is_pulled_first() -> None:
    assert missing(span(0, 60), span(10, 20), span(30, 50), overlap=5) == [span(0, 10), span(20, 30), span(45, 60)]


def test_a_covered_span_that_is_shorter_than_the_overlap_is_pulled_again_in_one_go() -> None:
    assert missing(span(0, 60), span(58, 60), overlap=5) == [span(0, 60)]


def test_nothing_is_missing_where_all_was_pulled_and_settled() -> None:
    assert missing(span(0, 30), span(0, 60), overlap=5) == []
