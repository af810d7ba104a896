"""A build in the making: what the engine keeps of large tables is given back between two of them."""

from __future__ import annotations

from pathlib import Path

from gpulake.core.config import Config
from gpulake.lake import Lake, Staging

ROWS = 6_000_000
MOST_BYTES = 40_000_000


def kept_bytes(staging: Staging) -> int:
    (row,) = staging.connection.execute("SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()").fetchall()
    return int(row[0])


def limit(staging: Staging) -> str:
    (row,) = staging.connection.execute("SELECT current_setting('memory_limit')").fetchall()
    return str(row[0])


def test_released_memory_leaves_the_rows_and_the_limit_as_they_were(tmp_path: Path) -> None:
    lake = Lake(Config(lake=tmp_path / "lake", memory_limit="700MB")).create()
    with lake.writing(), lake.stage("one") as staging:
        before = limit(staging)
        staging.connection.execute(f"CREATE TABLE lake.main.large AS SELECT hash(i) AS i FROM range({ROWS}) t(i)")
        staging.connection.execute("CREATE TEMP TABLE checked AS SELECT sum(i) AS total FROM lake.main.large")
        assert kept_bytes(staging) > MOST_BYTES
        staging.release_memory()
        assert kept_bytes(staging) < MOST_BYTES
        assert limit(staging) == before
        query = "SELECT sum(i), (SELECT total FROM checked) FROM lake.main.large"
        ((now, then),) = staging.connection.execute(query).fetchall()
        assert now == then
