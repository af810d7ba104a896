"""A value that no machine can have is set aside when it lands: it never stops a build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import rows_of
from extreme_rows import land_extremes
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.model.plan import shipped_plan

SPEC = ["machine,gpu_type,cap_cpu,cap_mem,cap_gpu", "m1,T4,96,512,2"]


def test_a_machine_with_negative_memory_is_set_aside_and_the_build_goes_on(
    config: Config, write_csv: Callable[..., Path]
) -> None:
    path = write_csv("pai_machine_spec", [*SPEC, "m2,T4,96,-1,2", "m3,T4,96,512,99999"])
    flow = Flow(config)
    (landing,) = flow.land([path]).landings
    assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (3, 1, 2)
    assert rows_of(flow.lake, "SELECT line_number, reason, row_text FROM quarantine ORDER BY ALL") == [
        {"line_number": 3, "reason": "cap_mem is -1, which is out of range", "row_text": "m2,T4,96,-1,2"},
        {"line_number": 4, "reason": "cap_gpu is 99999, which is out of range", "row_text": "m3,T4,96,512,99999"},
    ]
    assert flow.build(["silver_machines"]).is_new
    assert rows_of(flow.lake, "SELECT machine_id, memory_bytes FROM silver_machines") == [
        {"machine_id": "m1", "memory_bytes": 512 << 30}
    ]


@pytest.mark.slow
def test_no_value_that_may_land_stops_a_build(config: Config) -> None:
    flow = Flow(config)
    flow.lake.create()
    with flow.lake.writing():
        assert land_extremes(flow.lake) > 5_000
    result = flow.build([model.name for model in shipped_plan().models])
    assert {test.name: test.failures for test in result.tests if test.status == "fail"} == {}
