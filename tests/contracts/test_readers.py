"""What holds for every reader, whatever its format. A new reader adds an example here and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.progress import silent
from gpulake.lake import Lake
from gpulake.land.landing import land
from gpulake.land.readers import READERS


class Example(NamedTuple):
    name: str
    good: str  # two rows
    bad: str  # one row


HEADER = "Product_Name,GPU_Chip,Released,Bus,Memory,GPU_clock,Memory_clock,Shaders_TMUs_ROPs\n"
EXAMPLES = {
    "pai": [
        Example("pai_job_table.csv", "a,i,u,Failed,1.0,2.0\nb,i,u,Failed,,\n", "c,i,u,Failed,noon,\n"),
        Example("pai_task_table.csv", "a,ps,1,Failed,1,2,600,29,,T4\nb,ps,1,,,,,,,\n", "c,ps,one,,,,,,,\n"),
        Example("pai_instance_table.csv", "a,ps,n,w,i,Failed,1.0,,m\nb,ps,,,,Waiting,,,\n", "a,,n,w,i,Failed,,,m\n"),
        Example("pai_sensor_table.csv", "j,t,w,i,m,g,1,2,3,4,5,6,7,8,9,0\n" * 2, "j,t,,i,m,g,1,2,3,4,5,6,7,8,9,0\n"),
        Example("pai_group_tag_table.csv", "i,u,T4,g,bert\nk,u,,g,\n", ",u,,g,\n"),
        Example("pai_machine_spec.csv", "m,T4,96,512,2\nn,CPU,96,512,0\n", "o,T4,many,512,2\n"),
        Example("pai_machine_metric.csv", "w,m,1,2,0,0,0,0,0,0,0,0\n" * 2, "w,m,1,2,0,0,0,0,0,0,0\n"),
    ],
    "gpu_specs": [Example("tpu_gpus.csv", HEADER + "T4,,,,,,,\nV100,,,,,,,\n", "short,row\n")],
}


@pytest.fixture(
    params=[(reader, example) for reader in READERS for example in EXAMPLES[reader]],
    ids=lambda pair: f"{pair[0]}-{pair[1].name}",
)
def example(request: pytest.FixtureRequest) -> Example:
    found: Example = request.param[1]
    return found


def test_bad_rows_are_quarantined_counts_add_up_and_twice_is_once(
    lake: Lake, clock: FrozenClock, tmp_path: Path, example: Example
) -> None:
    path = tmp_path / example.name
    path.write_text(example.good + example.bad)
    for is_new in (True, False):
        with lake.writing():
            (landing,) = land(lake, [path], clock, silent).landings
        assert landing.is_new is is_new
        assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (3, 2, 1)
        assert rows_of(lake, f"SELECT count(*) AS n FROM {landing.table}") == [{"n": 2}]
        (kept,) = rows_of(lake, "FROM quarantine")
        assert kept["row_text"] == example.bad.strip()
        assert kept["reason"]
        assert kept["line_number"] == (example.good + example.bad).count("\n")


def test_every_reader_has_an_example() -> None:
    assert sorted(EXAMPLES) == list(READERS)
