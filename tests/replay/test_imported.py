"""Workloads of OpenDC, in and out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import opendc_loader
from conftest import rows_of
from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import InputError, UsageError
from gpulake.flow import Flow
from gpulake.flow.workloads import export_lake, import_opendc
from gpulake.replay.exports.opendc import OpendcExport
from gpulake.replay.workload import Clockwork

IDS = pa.list_(pa.field("element", pa.int32()))
V1_TASKS = pa.table(
    {
        "id": ["a", "b"],
        "submission_time": pa.array([1_000, 2_000], pa.timestamp("ms", "UTC")),
        "duration": [10, 20],
        "cpu_count": pa.array([1, 2], pa.int32()),
        "cpu_capacity": [1.5, 2.5],
        "mem_capacity": [1, 2],
        "nature": ["deferrable", None],
        "deadline": [-1, 5_000],
    }
)
V1_FRAGMENTS = pa.table(
    {
        "id": ["b", "a", "b"],
        "timestamp": pa.array([1, 2, 3], pa.timestamp("ms", "UTC")),
        "duration": [5, 10, 15],
        "cpu_count": pa.array([1, 1, 2], pa.int32()),
        "cpu_usage": [0.1, 1 / 3, 1e-12],
    }
)
V3_TASKS = pa.table(
    {
        "id": pa.array([7, 3], pa.int32()),
        "name": [None, "a, \"b\" 'c' ü"],
        "submission_time": [2_000, 1_000],
        "duration": [10, 20],
        "cpu_count": pa.array([1, 2], pa.int32()),
        "cpu_capacity": [1.5, 2.5],
        "mem_capacity": [1, 2],
        "gpu_count": pa.array([None, 1], pa.int32()),
        "gpu_capacity": [None, 0.1],
        "parents": pa.array([None, [7]], IDS),
        "children": pa.array([[], None], IDS),
        "deferrable": [None, False],
        "deadline": pa.array([None, -1], pa.int64()),
    }
)
V2_FRAGMENTS = pa.table(
    {
        "id": pa.array([3, 7], pa.int32()),
        "duration": [20, 10],
        "cpu_usage": [0.0, 1.5],
        "gpu_usage": [0.1, None],
    }
)


def write(folder: Path, tasks: pa.Table, fragments: pa.Table) -> Path:
    folder.mkdir(parents=True)
    pq.write_table(tasks, folder / "tasks.parquet")
    pq.write_table(fragments, folder / "fragments.parquet")
    return folder


def round_trip(config: Config, folder: Path, out: Path, name: str | None = None) -> dict[str, Any]:
    flow = Flow(config)
    landed = import_opendc(flow, [folder], name)
    assert list(landed) == [name or folder.name]
    export = OpendcExport()
    return export_lake(flow, name or folder.name, None, (None, None), export, Clockwork(), out).summary


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("workload", ["bitbrains-small", "single_task", "small_gpu", "workflow_example"])
def test_a_published_workload_goes_out_as_it_came_in(
    config: Config, real_data: Path, tmp_path: Path, workload: str
) -> None:
    folder = real_data / "opendc" / workload
    summary = round_trip(config, folder, tmp_path / "out")
    for table in ("tasks", "fragments"):
        ours, theirs = tmp_path / "out" / f"{table}.parquet", folder / f"{table}.parquet"
        assert pq.read_table(ours).equals(pq.read_table(theirs))
        assert pq.ParquetFile(ours).schema.equals(pq.ParquetFile(theirs).schema)
        assert summary[table] == pq.ParquetFile(theirs).metadata.num_rows
    assert opendc_loader.load(tmp_path / "out") == opendc_loader.load(folder)


@pytest.mark.parametrize(
    ("tasks", "fragments"),
    [(V1_TASKS, V1_FRAGMENTS), (V3_TASKS, V2_FRAGMENTS), (V3_TASKS.drop_columns(["name"]), V2_FRAGMENTS)],
    ids=["version 1", "version 3", "fewer columns"],
)
def test_every_version_goes_out_as_it_came_in(
    config: Config, tmp_path: Path, tasks: pa.Table, fragments: pa.Table
) -> None:
    folder = write(tmp_path / "w", tasks, fragments)
    round_trip(config, folder, tmp_path / "out", "mine")
    for table in ("tasks", "fragments"):
        ours, theirs = tmp_path / "out" / f"{table}.parquet", folder / f"{table}.parquet"
        assert pq.read_table(ours).equals(pq.read_table(theirs))
        assert pq.ParquetFile(ours).schema.equals(pq.ParquetFile(theirs).schema)


def test_oddities_of_a_workload_are_reported_and_not_corrected(config: Config, tmp_path: Path) -> None:
    fragments = pa.table({"id": pa.array([7], pa.int32()), "duration": [11], "cpu_usage": [1.6], "gpu_usage": [0.2]})
    summary = round_trip(config, write(tmp_path / "w", V3_TASKS, fragments), tmp_path / "out")
    assert summary["remarks"] == {
        "tasks without fragments: OpenDC skips them": 1,
        "tasks whose fragments are longer or shorter than they are": 1,
        "tasks that use more CPU than they have": 1,
        "tasks that were submitted before the one above them": 1,
    }


@pytest.mark.slow
def test_what_was_exported_can_be_imported_and_exported_again(
    shared_lake: Config, config: Config, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    export_lake(Flow(shared_lake), "synth", None, (None, None), OpendcExport(), Clockwork(), first)
    round_trip(config, first, second)
    for table in ("tasks.parquet", "fragments.parquet"):
        assert pq.read_table(first / table).equals(pq.read_table(second / table))
        assert pq.ParquetFile(first / table).schema.equals(pq.ParquetFile(second / table).schema)


@pytest.mark.slow
def test_gpus_that_were_cut_into_parts_come_back_as_gpus(shared_lake: Config, config: Config, tmp_path: Path) -> None:
    clock = Clockwork(gpu_mhz=1500.0, gpu_cores=20)
    summary = export_lake(
        Flow(shared_lake), "synth", None, (None, None), OpendcExport(), clock, tmp_path / "week"
    ).summary
    round_trip(config, tmp_path / "week", tmp_path / "again")
    counted = "SELECT cluster_id, sum(gpus * held_seconds) / 3600 AS gpu_hours FROM silver_holdings GROUP BY ALL"
    for folder in ("week", "again"):
        flow = Flow(Config(lake=tmp_path / f"{folder}-lake", threads=1))
        import_opendc(flow, [tmp_path / folder])
        flow.build(["silver_holdings"])
        assert rows_of(flow.lake, counted) == [
            {"cluster_id": folder, "gpu_hours": pytest.approx(summary["gpu_hours"], rel=1e-9)}
        ]


@pytest.mark.slow
def test_imported_tasks_are_jobs_of_a_cluster_of_their_own(config: Config, tmp_path: Path) -> None:
    flow = Flow(config)
    import_opendc(flow, [write(tmp_path / "W", V3_TASKS, V2_FRAGMENTS)])
    flow.build(["silver_holdings"])
    assert rows_of(
        flow.lake,
        "SELECT cluster_id, job_id, status, epoch_ms(submitted_at) AS submitted_ms, epoch_ms(ended_at) AS ended_ms"
        " FROM silver_jobs ORDER BY ALL",
    ) == [
        {"cluster_id": "w", "job_id": "7", "status": "succeeded", "submitted_ms": 2000, "ended_ms": 2010},
        {
            "cluster_id": "w",
            "job_id": "a, \"b\" 'c' ü",
            "status": "succeeded",
            "submitted_ms": 1000,
            "ended_ms": 1020,
        },
    ]
    assert rows_of(flow.lake, "SELECT gpus FROM silver_holdings") == [{"gpus": 1.0}]


@pytest.mark.slow
def test_bad_rows_are_set_aside_and_the_same_content_lands_once(config: Config, tmp_path: Path) -> None:
    usage = V2_FRAGMENTS.set_column(2, "cpu_usage", pa.array([float("nan"), 1.5]))
    folder = write(tmp_path / "w", V3_TASKS, usage)
    for is_new in (True, False):
        landings = import_opendc(Flow(config), [folder])["w"]
        assert {landing.is_new for landing in landings} == {is_new}
        counts = {landing.table: (landing.rows_landed, landing.rows_quarantined) for landing in landings}
        assert counts == {"bronze_opendc_tasks": (2, 0), "bronze_opendc_fragments": (1, 1)}
    (row,) = rows_of(Flow(config).lake, "FROM quarantine")
    assert (row["line_number"], row["reason"], row["row_text"]) == (
        1,
        "cpu_usage is 'nan', which is not a number",
        "id=3, duration=20, cpu_usage=nan, gpu_usage=0.1",
    )


@pytest.mark.slow
def test_two_workloads_do_not_mix(config: Config, tmp_path: Path) -> None:
    flow = Flow(config)
    import_opendc(flow, [write(tmp_path / "a" / "w", V3_TASKS, V2_FRAGMENTS)])
    other = write(tmp_path / "b" / "w", V1_TASKS, V1_FRAGMENTS)
    with pytest.raises(UsageError, match="another workload is named 'w'"):
        import_opendc(flow, [other])
    import_opendc(flow, [other], "v")
    same = write(tmp_path / "c" / "u", V1_TASKS.slice(1), V1_FRAGMENTS)
    with pytest.raises(InputError, match="had landed before, as a part of another workload"):
        import_opendc(flow, [same])
    with pytest.raises(UsageError, match="two of the folders have the same name"):
        import_opendc(flow, [tmp_path / "a" / "w", other])
    with pytest.raises(UsageError, match="one name was given for 2 folders"):
        import_opendc(flow, [tmp_path / "a" / "w", other], "x")


def test_a_column_that_has_no_place_is_an_error_rather_than_lost(config: Config, tmp_path: Path) -> None:
    folder = write(tmp_path / "w", V3_TASKS.append_column("color", pa.array(["red", "blue"])), V2_FRAGMENTS)
    with pytest.raises(InputError, match="unknown column 'color'"):
        import_opendc(Flow(config), [folder])


def test_a_folder_that_is_no_workload_is_an_error(config: Config, tmp_path: Path) -> None:
    folder = write(tmp_path / "w", V3_TASKS, V2_FRAGMENTS)
    (folder / "fragments.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="not a Parquet file that can be read"):
        import_opendc(Flow(config), [folder])
    (folder / "fragments.parquet").unlink()
    with pytest.raises(InputError, match=r"no fragments\.parquet in"):
        import_opendc(Flow(config), [folder])


def test_an_import_that_fails_leaves_nothing_that_keeps_the_next_one_out(config: Config, tmp_path: Path) -> None:
    good = write(tmp_path / "good", V3_TASKS, V2_FRAGMENTS)
    broken = write(tmp_path / "broken", V3_TASKS, V2_FRAGMENTS)
    (broken / "tasks.parquet").write_bytes(b"no Parquet")
    strange = write(tmp_path / "strange", V3_TASKS, V2_FRAGMENTS.append_column("color", pa.array(["red", "blue"])))
    shared = write(tmp_path / "shared", V1_TASKS, V2_FRAGMENTS)
    flow = Flow(config)
    for folder in (broken, strange):
        with pytest.raises(InputError):
            import_opendc(flow, [folder])
    assert {landing.is_new for landing in import_opendc(flow, [good])["good"]} == {True}
    with pytest.raises(InputError, match="had landed before, as a part of another workload"):
        import_opendc(flow, [shared])
    names = rows_of(flow.lake, "SELECT DISTINCT workload FROM bronze_opendc_tasks")
    assert names == [{"workload": "good"}]


def gpulake(*arguments: object) -> Result:
    return CliRunner().invoke(root, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_the_commands_import_and_export(config: Config, tmp_path: Path) -> None:
    folder = write(tmp_path / "w", V3_TASKS, V2_FRAGMENTS)
    answer = gpulake("import", "opendc", folder, "--lake", config.lake, "--json")
    assert answer.exit_code == 0, answer.output
    assert [landing["rows_landed"] for landing in json.loads(answer.stdout)["w"]] == [2, 2]
    answer = gpulake("export", "opendc", "--lake", config.lake, "--out", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == f"2 tasks and 2 fragments in {tmp_path / 'out'}\n"
    assert "1  tasks that were submitted before the one above them" in answer.stderr
    assert gpulake("import", "opendc", folder, "--lake", config.lake).exit_code == 0
    answer = gpulake("export", "opendc", "--lake", config.lake, "--out", tmp_path / "json", "--json")
    assert json.loads(answer.stdout)["tasks"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--run", ".", "--cluster", "c"), "--run was given with what chooses jobs of the lake"),
        (("--cluster", "w", "--from", "soon"), "'soon' is no day"),
        (("--cluster", "w", "--user", "ann"), "w was imported: it goes out whole"),
        (("--cluster", "w", "--gpu-cores", "4"), "w was imported: it goes out as it came in"),
        (("--cluster", "w", "--schema-version", "2"), "w was imported: it goes out as it came in"),
        (("--cluster", "w", "--compat-int64-times"), "w was imported: it goes out as it came in"),
        (("--policy", "Fifo"), "OpenDC has no policy named 'Fifo'"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    config: Config, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    import_opendc(Flow(config), [write(tmp_path / "w", V3_TASKS, V2_FRAGMENTS)])
    answer = gpulake("export", "opendc", "--lake", config.lake, "--out", tmp_path / "out", *arguments)
    assert isinstance(answer.exception, UsageError)
    assert message in answer.exception.message
    assert not (tmp_path / "out").exists()
