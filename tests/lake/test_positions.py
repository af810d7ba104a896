"""How far a stream is travels with its rows, and only moves on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulake.core.tables import bronze_tables
from gpulake.lake import delta
from gpulake.lake.delta import Move, MovedOnError
from gpulake.lake.types import delta_schema


def test_a_stream_moves_on_from_where_it_is_and_zero_is_a_place(tmp_path: Path) -> None:
    schema = delta_schema(bronze_tables()["bronze_prometheus_samples"])

    def move(before: int | None, after: int) -> None:
        moves = {"gpus/0": Move(before, after)}
        delta.commit(tmp_path, schema, [], "positions", {"positions": 1}, moves=moves)

    move(None, 0)
    for before, after in ((None, 1), (0, 0), (1, 2)):
        with pytest.raises(MovedOnError):
            move(before, after)
    move(0, 7)
    assert delta.positions(tmp_path, ["gpus/0", "gpus/1"]) == {"gpus/0": 7, "gpus/1": None}
