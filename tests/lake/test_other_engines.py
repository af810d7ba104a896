"""Other engines read the lake as it lies on the disk, while a build is published."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake, delta

SQL = "SELECT count(*) AS n, sum(capacity_gpu_hours) AS hours FROM {}gold_ledger_daily"
# Another process: it opens the build, says so, waits to be told, and asks.
READER = """
import duckdb, json, pathlib, sys
builds = pathlib.Path(sys.argv[1])
db = duckdb.connect(str(builds / (builds / "CURRENT").read_text().strip()), read_only=True)
print("open", flush=True)
sys.stdin.readline()
print(json.dumps(db.execute(sys.argv[2]).fetchall()), flush=True)
"""


def _expected(config: Config) -> tuple[object, object]:
    (row,) = rows_of(Lake(config), SQL.format(""))
    return row["n"], row["hours"]


@pytest.mark.slow
def test_a_process_that_has_a_build_open_reads_on_while_another_is_published(built_lake: Config) -> None:
    builds = Lake(built_lake).builds
    before = _expected(built_lake)
    command = [sys.executable, "-c", READER, str(builds.folder), SQL.format("")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        old = builds.current()
        for _ in range(2):  # so that the build that it reads is pruned
            Flow(built_lake).build(is_forced=True)
        assert old is not None
        assert not old.exists()
        found, _ = reader.communicate("go\n", timeout=60)
    assert [tuple(row) for row in json.loads(found)] == [before]


def test_a_build_can_be_attached_read_only(shared_lake: Config) -> None:
    current = Lake(shared_lake).builds.current()
    with duckdb.connect() as db:
        db.execute(f"ATTACH '{current}' AS lake (READ_ONLY)")
        assert db.execute(SQL.format("lake.")).fetchall() == [_expected(shared_lake)]


@pytest.mark.slow
def test_gold_is_read_as_delta_and_as_the_files_that_its_log_names(built_lake: Config) -> None:
    Flow(built_lake).build(is_forced=True)  # the file of the build before lies beside the new one
    folder = Lake(built_lake).gold / "gold_ledger_daily"
    table = DeltaTable(folder)
    rows, hours = _expected(built_lake)
    assert table.to_pyarrow_table().num_rows == rows
    named = ds.dataset([path.removeprefix("file://") for path in table.file_uris()], format="parquet").to_table()
    assert named.num_rows == rows
    assert sum(named["capacity_gpu_hours"].to_pylist()) == pytest.approx(hours)


def test_a_file_that_was_replaced_more_than_a_week_ago_is_removed(tmp_path: Path) -> None:
    def replace_by(name: str) -> None:
        pq.write_table(pa.table({"n": [1]}), tmp_path / name)
        delta.replace(tmp_path, tmp_path / name, {"build_id": name})

    replace_by("first.parquet")
    replace_by("second.parquet")
    long_ago = time.time() - 8 * 86_400
    os.utime(tmp_path / "first.parquet", (long_ago, long_ago))
    replacing = tmp_path / "_delta_log" / f"{1:020}.json"
    said = re.sub(r'"deletionTimestamp":\d+', f'"deletionTimestamp":{int(long_ago * 1000)}', replacing.read_text())
    replacing.write_text(said)
    replace_by("third.parquet")
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == ["second.parquet", "third.parquet"]
