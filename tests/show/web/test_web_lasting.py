"""The filter of days, for what lasts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpulake.show.web.questions import Question

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
WITHIN = Question(
    "q", "q", "SELECT true FROM (SELECT $began AS began, $ended AS ended) WHERE {days:began,ended}", "ALL"
)
HOURS = st.integers(0, 16).map(lambda halves: 12 * halves)  # midnights are where it may go wrong


@pytest.mark.slow
@given(HOURS, HOURS, st.none() | st.integers(0, 8), st.none() | st.integers(0, 8))
def test_what_lasts_is_there_on_every_day_that_it_touches(
    began: int, lasts: int, first: int | None, last: int | None
) -> None:
    assume(first is None or last is None or first <= last)
    begin, end = FIRST + timedelta(hours=began), FIRST + timedelta(hours=began + lasts)
    days = {begin.date()} | {(begin + timedelta(hours=hour)).date() for hour in range(lasts)}
    asked = [FIRST.date() + timedelta(days=day) for day in range(first or 0, 40 if last is None else last + 1)]
    named = {"from": first, "to": last}
    values = {name: None if day is None else str(FIRST.date() + timedelta(days=day)) for name, day in named.items()}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, value in values.items():
            if value is not None:
                connection.execute(f"SET VARIABLE \"{name}\" = '{value}'")
        rows = connection.execute(WITHIN.query(values), {"began": begin, "ended": end}).fetchall()
    assert bool(rows) == any(day in days for day in asked)
