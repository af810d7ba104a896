"""What is printed of the simulator: a table a part, and how many waits are as near as they must be."""

from __future__ import annotations

from typing import Any

from bench.scoring.whatif import is_close, table


def test_rows_are_a_markdown_table_and_what_a_row_lacks_is_empty() -> None:
    rows: list[dict[str, Any]] = [
        {"records": "openb", "off_ratio": 0.015, "waits": (3.0, 1200.0)},
        {"records": "slurm"},
    ]
    assert table(rows).splitlines() == [
        "| records | off_ratio | waits |",
        "| --- | --- | --- |",
        "| openb | 1.5% | 3, 1,200 |",
        "| slurm |  |  |",
    ]


def test_both_quantiles_of_the_wait_must_be_within_two_percent() -> None:
    assert is_close({"p50_off_ratio": 0.02, "p90_off_ratio": 0.0})
    assert not is_close({"p50_off_ratio": 0.0, "p90_off_ratio": 0.021})
