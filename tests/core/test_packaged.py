"""Files of data in the package: queries by their names, with parts filled in, and patterns made of parts."""

from __future__ import annotations

import pytest

from gpulake.core.packaged import built_tables, queries, spelled_out
from gpulake.show.efficiency import SQL


def test_a_query_is_found_by_its_name_without_its_neighbours() -> None:
    found = queries("gpulake.show.pai", "study.sql")["build"]
    assert found.strip() == "SELECT build_id, built_at, gpulake_version FROM build_info"


def test_every_part_is_filled_in() -> None:
    assert not [name for name, text in SQL.items() if "$" in text]


def test_a_part_that_is_not_given_is_an_error() -> None:
    with pytest.raises(KeyError):
        queries("gpulake.show", "efficiency.sql", whose="true")


def test_only_tables_of_a_build_count_as_read() -> None:
    text = "WITH held AS (FROM silver_holdings) SELECT * FROM held INNER JOIN gold_energy_daily USING (dt)"
    assert built_tables({"query": text}) == {"silver_holdings", "gold_energy_daily"}


def test_parts_of_a_pattern_are_spelled_out() -> None:
    assert spelled_out(r"\[(?&time)\] (?P<level>[A-Z]+)", {"time": r"\d\d:\d\d"}) == r"\[\d\d:\d\d\] (?P<level>[A-Z]+)"
