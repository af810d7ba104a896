"""Rows of a query as series: every value in its place, null as NaN."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gpulake.detect.table_series import floats, grouped, integers


def test_a_column_is_read_as_it_is_with_null_as_nan_wherever_a_slice_begins() -> None:
    numbers = [None if place % 3 == 0 else place / 2 for place in range(40)]
    table = pa.table({"x": pa.chunked_array([numbers[:5], numbers[5:]]), "whole": list(range(40))})
    for begin in (0, 1, 7, 9, 39):
        expected = [np.nan if number is None else number for number in numbers[begin:]]
        np.testing.assert_array_equal(floats(table.slice(begin), "x"), expected)
        np.testing.assert_array_equal(integers(table.slice(begin), "whole"), range(begin, 40))
    assert floats(table.slice(40), "x").tolist() == []


def test_integers_of_which_one_is_missing_are_refused() -> None:
    with pytest.raises(ValueError, match="null"):
        integers(pa.table({"x": pa.array([1, None], pa.int64())}), "x")


def test_rows_are_grouped_by_their_keys_and_a_missing_last_key_is_a_key() -> None:
    table = pa.table(
        {
            "at_ms": [1, 2, 3, None, 4, 5],
            "cluster_id": ["a", "a", "a", "a", "b", None],
            "machine_id": ["m", "m", "n", "n", "n", "n"],
            "gpu": ["0", None, None, None, "0", "0"],
        }
    )
    found = [(key, part["at_ms"].to_pylist()) for key, part in grouped(table, ("cluster_id", "machine_id", "gpu"))]
    assert found == [(("a", "m", "0"), [1]), (("a", "m", None), [2]), (("a", "n", None), [3]), (("b", "n", "0"), [4])]
