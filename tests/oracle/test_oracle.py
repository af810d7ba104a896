"""The product against an oracle: plain Python written from docs/ledger.md that shares neither code nor SQL with it.

A lake holds two random traces of PAI and fourteen of Slurm. 13 lakes make 208 traces, told with duplicates, overlapping
dumps, missing and wrong times, clocks that change, machines that no inventory lists, parts of GPUs and overcommitment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.comparing import Product, rows_by_table
from oracle.lakes import landed_lake
from oracle.ledger import make_book
from oracle.tables import TABLES, all_differences

LAKES = 13
MOST_SHOWN = 12


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(LAKES))
def test_every_row_and_column_of_the_ledger_is_what_its_document_says(seed: int, tmp_path: Path) -> None:
    flow, every = landed_lake(seed, tmp_path)
    rows = rows_by_table(flow, TABLES)
    found = [one for facts in every for one in all_differences(Product(rows, facts), make_book(facts))]
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:MOST_SHOWN])
