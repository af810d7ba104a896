"""The fast reader of text: it takes a file only if every number is in range."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulake.core.tables import Column, Table
from gpulake.core.types import CsvLayout
from gpulake.lake.blocks import copy_blocks

TABLE = Table(
    "bronze_readings",
    "one row per reading",
    tuple(Column(name, kind, "") for name, kind in (("id", "text"), ("load", "number"), ("count", "integer"))),
    ranges={"load": (1, 5), "count": (-3, 3)},
)


@pytest.mark.parametrize(
    ("lines", "is_sound"),
    [
        ("a,1,3\nb,5,-3\n", True),
        ("a,,\nb,2,\n", True),  # no value is neither zero nor out of range
        ("a,,\n", True),
        ("a,0,1\nb,2,1\n", False),
        ("a,2,1\nb,5.1,1\n", False),
        ("a,2,4\n", False),
        ("a,nan,1\nb,2,1\n", False),
        ("a,,1\nb,inf,1\n", False),
    ],
)
def test_a_number_out_of_range_leaves_the_file_to_the_careful_reader(
    tmp_path: Path, lines: str, is_sound: bool
) -> None:
    file = tmp_path / "readings.csv"
    file.write_text(lines, encoding="utf-8")
    layout = CsvLayout(TABLE, TABLE.column_names, has_header=False)
    copied, _ = copy_blocks(file, layout, tmp_path / "readings.parquet", "readings.csv")
    assert (copied.is_sound, copied.rows) == (is_sound, lines.count("\n"))
