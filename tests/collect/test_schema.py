"""The JSON Schemas of a run's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from gpulake.cli import root
from gpulake.collect.cctf.merge import merge
from gpulake.collect.cctf.parse import parse
from gpulake.collect.cctf.schema import schema_of, schemas
from gpulake.collect.rows import Cost, GpuProcess, NodeEvent, Row
from gpulake.core.errors import UsageError
from gpulake.core.tables import cctf_tables
from recorded_runs import block_of, gpu_of, host_of, nic_of, process_of, sample_of, write_lines, write_session


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with every file."""
    rows: list[Row] = [
        host_of(1, 1, core_ticks=((1, 2),), disks={"sda": [1, 2, 3]}),
        nic_of(1, 1, is_up=True),
        process_of(5, 50),
        sample_of(5, 1),
        gpu_of(1000, "GPU-a", has_remap_pending=False, power_watts=71.5),
        GpuProcess(1000, "GPU-a", 5, None, None, None, None, "slurm", "4"),
        NodeEvent(900, "xid", "0000:3b", 79, None, "Xid 79", "kernel"),
        Cost(0.5, 4096, 0.01, 3, 99, 0, 0, 0),
    ]
    folder = tmp_path / "night1" / "n1"
    write_session(folder, block_of(400, []), block_of(1000, rows), block_of(2000, rows))
    write_lines(folder / "events.exec.1.jsonl", [{"ts_end": 5, "pid": 5, "module_id": "m"}])
    write_lines(folder / "placement_events.jsonl", [{"ts": 5, "event": "start"}])
    parse(folder)
    return folder


def invalid(folder: Path) -> list[Any]:
    found = []
    for table in cctf_tables().values():
        validator = Draft202012Validator(schema_of(table.file))
        text = (folder / table.file).read_text(encoding="utf-8")
        documents = [text] if table.file.endswith(".json") else text.splitlines()
        found += [(table.file, str(error)) for part in documents for error in validator.iter_errors(json.loads(part))]
    return found


def test_every_row_of_every_file_is_as_its_schema_says(run: Path, tmp_path: Path) -> None:
    assert invalid(run / "cctf") == []
    merge([run], tmp_path / "merged")
    assert invalid(tmp_path / "merged") == []


@pytest.mark.parametrize("name", list(cctf_tables()))
def test_a_schema_is_one_and_says_what_a_row_needs(name: str) -> None:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    row = schema["items"] if schema["type"] == "array" else schema
    table = cctf_tables()[name]
    assert (row["required"], list(row["properties"])) == (list(table.required), list(table.column_names))
    assert not Draft202012Validator(row).is_valid({})


def test_a_value_of_another_type_is_not_valid_and_null_is_only_where_it_may_be() -> None:
    validator = Draft202012Validator(schema_of("host_metrics.jsonl"))
    row = {"ts_ms": 1, "node": "n"}
    assert [
        validator.is_valid(changed)
        for changed in (
            row,
            row | {"cpu_util": None},
            row | {"more": 1},
            row | {"ts_ms": None},
            row | {"cpu_util": "1"},
        )
    ] == [True, True, True, False, False]


def test_the_command_prints_one_schema_or_all() -> None:
    one = CliRunner().invoke(root, ["collect", "schema", "proc_cpu.jsonl"])
    assert json.loads(one.stdout) == schema_of("proc_cpu")
    every = CliRunner().invoke(root, ["collect", "schema"])
    assert json.loads(every.stdout) == schemas()
    with pytest.raises(UsageError, match="no file named 'proc_cpo'"):
        schema_of("proc_cpo")
