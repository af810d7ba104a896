"""The files of an export as OpenDC has them: the exact Parquet schemas, and both dialects of its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import opendc_loader
from gpulake.core.config import GpuType
from gpulake.core.errors import UsageError
from gpulake.replay.exports.opendc import OpendcExport
from gpulake.replay.exports.opendc_experiment import Checkpoints
from gpulake.replay.exports.opendc_tables import Failure, failures
from gpulake.replay.workload import (
    Clockwork,
    Fragment,
    Host,
    Notes,
    Outage,
    Task,
    Workload,
    part_of,
    pool_hosts,
    powered,
)

SCHEMA = """
required int32 id;
optional binary name (String);
required int64 submission_time (Timestamp(isAdjustedToUTC=true, timeUnit=milliseconds));
required int64 duration;
required int32 cpu_count;
required double cpu_capacity;
required int64 mem_capacity;
optional int32 gpu_count;
optional double gpu_capacity;
optional group parents (List) {
repeated group list {
optional int32 element;
}
}
optional group children (List) {
repeated group list {
optional int32 element;
}
}
optional boolean deferrable;
optional int64 deadline;
"""
TASK = Task(0, "job", 5, 10, 2, 4800.0, 1_000_000, 2, 1500.0, (1, 2), (), True, -1)
FRAGMENTS = [Fragment(0, 10, 4800.0, 1500.0)]
HOST = Host("h", 3, 96, 2400.0, 2**39, 8, "V100", 38.0, 300.0)


def write(folder: Path, hosts: Sequence[Host] = (HOST,), outages: Sequence[Outage] = (), **options: Any) -> Path:
    clock = options.pop("clock", Clockwork())
    plain = Workload("w", {}, iter([part_of([TASK], FRAGMENTS)]), Notes(), hosts, outages, len(hosts), clock)
    return OpendcExport(**options).write(plain, folder / "out").folder


def schema(path: Path) -> str:
    """Parquet's own words, less what is the same everywhere."""
    lines = str(pq.ParquetFile(path).schema).splitlines()[2:-1]
    noise = (" field_id=-1", ", is_from_converted_type=false, force_set_converted_type=false")
    for word in noise:
        lines = [line.replace(word, "").strip() for line in lines]
    return "\n".join(lines)


def test_tasks_have_exactly_the_columns_of_version_3(tmp_path: Path) -> None:
    out = write(tmp_path)
    assert schema(out / "tasks.parquet") == SCHEMA.strip()
    assert schema(out / "fragments.parquet") == (
        "required int32 id;\nrequired int64 duration;\nrequired double cpu_usage;\noptional double gpu_usage;"
    )
    (row,) = pq.read_table(out / "tasks.parquet").to_pylist()
    assert (row["parents"], row["children"], row["deferrable"], row["deadline"]) == ([1, 2], [], True, -1)


def test_times_may_be_plain_and_the_schema_that_of_version_2(tmp_path: Path) -> None:
    out = write(tmp_path, has_plain_times=True, schema_version=2)
    plain = SCHEMA.replace(" (Timestamp(isAdjustedToUTC=true, timeUnit=milliseconds))", "")
    assert (
        schema(out / "tasks.parquet")
        == plain.replace("optional boolean deferrable", "optional binary nature (String)").strip()
    )
    (row,) = pq.read_table(out / "tasks.parquet").to_pylist()
    assert (row["submission_time"], row["nature"]) == (5, "deferrable")


def test_the_new_dialect_has_units_in_words_and_a_filter_for_gpus(tmp_path: Path) -> None:
    out = write(tmp_path, outages=[Outage("m", 5, 10)], clock=Clockwork(gpu_cores=4))
    host = {
        "name": "h",
        "count": 3,
        "cpu": {"coreCount": 96, "coreSpeed": "2400 MHz"},
        "memory": {"size": "549755813888 Bytes"},
        "cpuPowerModel": {"type": "linear", "idlePower": "200 Watts", "maxPower": "400 Watts"},
        "gpu": {
            "count": 8,
            "coreCount": 4,
            "coreSpeed": "250 MHz",
            "modelName": "V100",
        },
        "gpuPowerModel": {"type": "linear", "idlePower": "38 Watts", "maxPower": "300 Watts"},
    }
    topology = {"clusters": [{"name": "w", "hosts": [host]}]}
    assert opendc_loader.read_json(out / "sdk" / "topology.json") == topology
    assert opendc_loader.read_json(out / "sdk" / "experiment.json") == {
        "name": "w",
        "topologies": [topology],
        "workloads": [{"type": "trace", "source": {"type": "named", "name": ".."}}],
        "allocationPolicies": [
            {
                "type": "filter",
                "filters": [
                    {"type": "compute"},
                    {"type": "vcpu", "allocationRatio": 1.0},
                    {"type": "vgpu", "allocationRatio": 1.0},
                    {"type": "ram", "allocationRatio": 1.0},
                ],
                "weighers": [{"type": "vcpu", "multiplier": 1.0}, {"type": "vgpu", "multiplier": 1.0}],
            }
        ],
        "failureModels": [
            {"type": "none"},
            {"type": "traceBased", "source": {"type": "named", "name": "../failures.parquet"}, "repeat": False},
        ],
        "exportModels": [{"exportInterval": "3600 seconds", "printFrequency": 24}],
        "runs": 1,
    }
    assert opendc_loader.measure("3600 seconds") == 3_600_000
    assert (out / "sdk" / ".." / "failures.parquet").is_file()


def test_the_old_dialect_has_its_own_words_and_a_policy_with_a_gpu_filter(tmp_path: Path) -> None:
    out = write(tmp_path, outages=[Outage("m", 5, 10)])
    (host,) = opendc_loader.read_json(out / "legacy" / "topology.json")["clusters"][0]["hosts"]
    assert host == {
        "name": "h",
        "count": 3,
        "cpu": {"coreCount": 96, "coreSpeed": 2400},
        "memory": {"memorySize": "549755813888 Bytes"},
        "cpuPowerModel": {"modelType": "linear", "power": 400.0, "idlePower": 200.0, "maxPower": 400.0},
        "gpu": {
            "count": 8,
            "coreCount": 1,
            "coreSpeed": 1000,
            "modelName": "V100",
        },
        "gpuPowerModel": {"modelType": "linear", "power": 300.0, "idlePower": 38.0, "maxPower": 300.0},
    }
    experiment = opendc_loader.read_json(out / "legacy" / "experiment.json")
    assert experiment == {
        "name": "w",
        "topologies": [{"pathToFile": "legacy/topology.json"}],
        "workloads": [{"pathToFile": ".", "type": "ComputeWorkload"}],
        "allocationPolicies": [{"type": "prefab", "policyName": "ProvisionedCpuGpuCores"}],
        "failureModels": [
            {"type": "no"},
            {"type": "trace-based", "pathToFile": "failures.parquet", "startPoint": 0.0, "repeat": False},
        ],
        "exportModels": [{"exportInterval": 3600, "printFrequency": 24}],
        "runs": 1,
    }


def test_checkpoints_are_a_second_scenario_in_the_words_of_each_dialect(tmp_path: Path) -> None:
    outages = [Outage("m", 1000 * place, 1000 * place + 5) for place in range(1, 13)]
    out = write(tmp_path, outages=outages, checkpoints=Checkpoints(1800.0, 60.0))
    new, old = (opendc_loader.read_json(out / dialect / "experiment.json") for dialect in ("sdk", "legacy"))
    # OpenDC gives a task up after ten failures, unless it is told otherwise.
    assert new["maxNumFailures"] == old["maxNumFailures"] == [12]
    assert new["checkpointModels"] == [
        None,
        {"interval": "1800 seconds", "duration": "60 seconds", "intervalScaling": 1.0},
    ]
    assert old["checkpointModels"] == [
        None,
        {"checkpointInterval": 1_800_000, "checkpointDuration": 60_000, "checkpointIntervalScaling": 1.0},
    ]


def test_one_dialect_may_be_enough_and_a_policy_is_opendcs(tmp_path: Path) -> None:
    out = write(tmp_path, dialects=("sdk",), policy="Mem")
    assert sorted(path.name for path in out.iterdir()) == [
        "export.json",
        "fragments.parquet",
        "sdk",
        "tasks.parquet",
    ]
    experiment = opendc_loader.read_json(out / "sdk" / "experiment.json")
    assert experiment["allocationPolicies"] == [{"type": "prefab", "prefabName": "Mem"}]
    reported = json.loads((out / "export.json").read_text())["remarks"]
    assert reported == {"policy Mem has no GPU filter: GPUs will be given away many times over": 1}
    with pytest.raises(UsageError, match="no policy named 'CoreMen'") as caught:
        OpendcExport(policy="CoreMen")
    assert caught.value.hint == "did you mean 'CoreMem'?"


def test_what_is_not_known_of_a_host_is_what_the_largest_task_needs_and_said(tmp_path: Path) -> None:
    out = write(tmp_path, hosts=())
    summary = json.loads((out / "export.json").read_text())
    assert summary["guessed"] == {
        "a host of the size of the largest task: no machine is known": 1,
        "cores of a host: those of the largest task": 1,
        "memory of a host: that of the largest task": 1,
        "power of a host's CPUs: OpenDC's default": 1,
        "power of a host's GPUs: OpenDC's default": 1,
    }
    (task,) = opendc_loader.load(out)
    (host,) = opendc_loader.hosts(opendc_loader.read_json(out / "sdk" / "topology.json"))
    assert host == opendc_loader.SimHost(2, 2400.0, 1000, 2, 1000.0)
    assert opendc_loader.fits(task, host)


@pytest.mark.parametrize(
    "host",
    [
        Host("few cores", 1, 1, 2400.0, 2**40, 8),
        Host("few GPUs", 1, 96, 2400.0, 2**40, 1),
        Host("MB are taken for MiB", 1, 96, 2400.0, 999 * 2**20, 8),
    ],
    ids=lambda host: host.name,
)
def test_a_task_that_no_host_can_run_is_said(tmp_path: Path, host: Host) -> None:
    summary = json.loads((write(tmp_path, hosts=[host]) / "export.json").read_text())
    assert summary["remarks"] == {"tasks that fit no host of the topology": 1}
    assert not write_fits(tmp_path / "out")


def write_fits(out: Path) -> bool:
    (task,) = opendc_loader.load(out)
    return any(
        opendc_loader.fits(task, host)
        for host in opendc_loader.hosts(opendc_loader.read_json(out / "sdk" / "topology.json"))
    )


def test_failures_follow_each_other_and_cost_as_much_machine_time() -> None:
    outages = [
        Outage("a", 100, 200),
        Outage("b", 150, 300),  # while a was down
        Outage("a", 500, 600),
        Outage("c", 900, 1000),
        Outage("d", 0, 10),  # before the begin
    ]
    found = failures(outages, machines=10, began_ms=50)
    assert found == [Failure(50, 200, 250 / 2000), Failure(200, 100, 0.1), Failure(300, 100, 0.1)]
    lost = sum(failure.duration_ms * failure.intensity * 10 for failure in found)
    assert lost == pytest.approx(100 + 150 + 100 + 100)


def test_failures_are_written_as_opendc_reads_them(tmp_path: Path) -> None:
    out = write(tmp_path, outages=[Outage("m", 7, 10)])
    assert schema(out / "failures.parquet") == (
        "optional int64 failure_interval;\noptional int64 failure_duration;\noptional double failure_intensity;"
    )
    assert pq.read_table(out / "failures.parquet").to_pylist() == [
        {"failure_interval": 2, "failure_duration": 3, "failure_intensity": 1.0}
    ]


def test_a_pool_is_hosts_of_eight_or_of_what_a_task_needs() -> None:
    assert pool_hosts("c", 20, 4, "A100", 2400.0) == [
        Host("c", 2, None, 2400.0, None, 8, "A100"),
        Host("c-rest", 1, None, 2400.0, None, 4, "A100"),
    ]
    assert pool_hosts("c", 32, 16, None, 2400.0) == [Host("c", 2, None, 2400.0, None, 16)]


def test_a_gpu_draws_what_its_type_is_known_to_draw() -> None:
    known = {"H200": GpuType(busy_watts=700, idle_watts=75), "MISC": GpuType()}
    host = Host("h", 1, 1, 1.0, 1, 1, "NVIDIA H200")
    assert (powered(host, known).gpu_idle_watts, powered(host, known).gpu_busy_watts) == (75, 700)
    assert powered(Host("h", 1, 1, 1.0, 1, 1, "MISC"), known) == Host("h", 1, 1, 1.0, 1, 1, "MISC")
