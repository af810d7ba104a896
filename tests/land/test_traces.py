"""The published traces of other clusters: their words, their types, and what the readers add."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError
from gpulake.core.progress import silent
from gpulake.core.types import LandResult
from gpulake.lake import Lake
from gpulake.land.landing import land

SEREN = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
    "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,"
    "117,32,936.0\n"
)
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
)


def land_in(lake: Lake, clock: FrozenClock, *paths: Path) -> LandResult:
    with lake.writing():
        return land(lake, paths, clock, silent)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_time_with_an_offset_is_an_instant(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    land_in(lake, clock, write(tmp_path / "trace_seren.csv", SEREN))
    (row,) = rows_of(lake, "FROM bronze_acme_seren_jobs")
    assert row["submit_time"] == datetime(2023, 2, 28, 16, 18, 22, tzinfo=UTC)
    assert (row["job_id"], row["gpu_num"], row["gpu_time"]) == ("5778432", 8.0, 936.0)


def test_a_time_without_one_stays_as_the_clock_showed_it(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    land_in(lake, clock, write(tmp_path / "cluster_log.csv", HELIOS))
    (row,) = rows_of(lake, "FROM bronze_helios_jobs")
    assert row["end_time"] == datetime(2020, 6, 9, 18, 45, 36)  # noqa: DTZ001
    assert rows_of(lake, "SELECT typeof(end_time) AS t FROM bronze_helios_jobs") == [{"t": "TIMESTAMP"}]
    # So do other engines read it, and a second landing into the same table.
    land_in(lake, clock, write(tmp_path / "Venus" / "cluster_log.csv", HELIOS.replace("1425512", "2")))
    table = DeltaTable(str(lake.bronze.folder / "bronze_helios_jobs")).to_pyarrow_table()
    assert table.column("end_time").to_pylist() == [row["end_time"]] * 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2023-03-01 00:18:22", "end_time is '2023-03-01 00:18:22', which is not a time with its offset"),
        ("2023-02-30 00:18:22+08:00", "end_time is '2023-02-30 00:18:22+08:00', which is not a time with its offset"),
        ("9023-02-20 00:18:22+08:00", "end_time is '9023-02-20 00:18:22+08:00', which is not a time with its offset"),
        ("noon", "end_time is 'noon', which is not a time with its offset"),
        ("1677630051", "end_time is '1677630051', which is not a time with its offset"),
    ],
)
def test_a_time_that_does_not_parse_costs_its_row(
    lake: Lake, clock: FrozenClock, tmp_path: Path, value: str, reason: str
) -> None:
    bad = SEREN.splitlines()[1].replace("2023-03-01 00:20:51+08:00", value)
    (landing,) = land_in(lake, clock, write(tmp_path / "trace_seren.csv", f"{SEREN}{bad}\n")).landings
    assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (2, 1, 1)
    assert rows_of(lake, "SELECT line_number, reason, row_text FROM quarantine") == [
        {"line_number": 3, "reason": reason, "row_text": bad}
    ]


def test_an_offset_in_a_local_time_is_not_dropped_silently(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    bad = HELIOS.splitlines()[1].replace("18:45:36", "18:45:36+08:00")
    (landing,) = land_in(lake, clock, write(tmp_path / "cluster_log.csv", f"{HELIOS}{bad}\n")).landings
    assert (landing.rows_landed, landing.rows_quarantined) == (1, 1)


@pytest.mark.parametrize("word", ["", "None", "Unknown", "NaT", "N/A"])
def test_words_for_no_time_are_no_time(lake: Lake, clock: FrozenClock, tmp_path: Path, word: str) -> None:
    land_in(lake, clock, write(tmp_path / "cluster_log.csv", HELIOS.replace("2020-06-09 18:45:36", word)))
    assert rows_of(lake, "SELECT end_time FROM bronze_helios_jobs") == [{"end_time": None}]


def test_the_helios_cluster_is_the_name_of_the_folder(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    for place, job in (("Venus", "1"), ("saturn", "2"), ("elsewhere", "3")):
        write(tmp_path / "raw" / place / "cluster_log.csv", HELIOS.replace("1425512", job))
    with tarfile.open(tmp_path / "raw" / "all.tar.gz", "w:gz") as archive:
        content = HELIOS.replace("1425512", "4").encode()
        info = tarfile.TarInfo("data/Uranus/cluster_log.csv")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    land_in(lake, clock, tmp_path / "raw")
    assert rows_of(lake, "SELECT job_id, cluster FROM bronze_helios_jobs ORDER BY 1") == [
        {"job_id": "1", "cluster": "Venus"},
        {"job_id": "2", "cluster": "Saturn"},
        {"job_id": "3", "cluster": "helios"},
        {"job_id": "4", "cluster": "Uranus"},
    ]


def test_the_gpu_numbers_of_helios_become_a_row_a_day_and_virtual_cluster(
    lake: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    text = "date,vcEwI,vcWoR,total\n2020-04-01,72,0,72\n2020-04-02,72\n\n2020-04-31,1,1,2\n2020-04-03,80,8,many\n"
    (landing,) = land_in(lake, clock, write(tmp_path / "Venus" / "cluster_gpu_number.csv", text)).landings
    assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (10, 5, 5)
    assert rows_of(lake, "FROM bronze_helios_gpu_numbers ORDER BY date, vc LIMIT 3") == [
        {"cluster": "Venus", "date": date(2020, 4, 1), "vc": "total", "gpus": 72.0},
        {"cluster": "Venus", "date": date(2020, 4, 1), "vc": "vcEwI", "gpus": 72.0},
        {"cluster": "Venus", "date": date(2020, 4, 1), "vc": "vcWoR", "gpus": 0.0},
    ]
    assert rows_of(lake, "SELECT DISTINCT line_number, reason FROM quarantine ORDER BY ALL") == [
        {"line_number": 3, "reason": "2 columns where 4 are expected"},
        {"line_number": 5, "reason": "date is '2020-04-31', which is not a date"},
        {"line_number": 6, "reason": "gpus is 'many', which is not a number"},
    ]


JOB = {
    "status": "Killed",
    "vc": "ee9e8c",
    "jobid": "application_1",
    "attempts": [
        {
            "start_time": "2017-10-07 01:12:09",
            "end_time": "2017-10-07 01:13:23",
            "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}, {"ip": "m48", "gpus": []}],
        },
        {"start_time": "2017-10-07 01:13:30", "end_time": "None", "detail": []},
    ],
    "submitted_time": "2017-10-07 01:11:39",
    "user": "ce2f4c",
}


@pytest.mark.parametrize("is_archive", [False, True])
def test_philly_lands_under_its_published_names(
    lake: Lake, clock: FrozenClock, tmp_path: Path, is_archive: bool
) -> None:
    folder = tmp_path / "trace-data"
    folder.mkdir()
    write(folder / "cluster_job_log", json.dumps([JOB]))
    write(folder / "cluster_machine_list", "machineId, number of GPUs, single GPU mem\nm31,8, 24GB\n")
    for name, text in {
        "cluster_gpu_util": "time,machineId,gpu0_util,gpu1_util\n2017-10-03 00:00:00 PDT,m31,0.0,99.0\n",
        "cluster_cpu_util": "time,machine_id,cpu_util\n2017-10-03 00:00:00 PDT,m31,6.0\n",
        "cluster_mem_util": "time,machine_id,mem_total,mem_free\n2017-10-03 00:00:00 PDT,m31,528272,397588\n",
    }.items():
        write(folder / name, text)
    path = folder
    if is_archive:
        path = tmp_path / "trace-data.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, "trace-data")
    landings = land_in(lake, clock, path).landings
    assert {landing.table: landing.rows_landed for landing in landings} == {
        "bronze_philly_attempts": 3,
        "bronze_philly_machines": 1,
    }


@pytest.mark.parametrize("indent", [None, 4])
def test_no_machine_attempt_or_job_of_philly_is_lost(
    lake: Lake, clock: FrozenClock, tmp_path: Path, indent: int | None
) -> None:
    waiting = {**JOB, "jobid": "application_2", "attempts": []}
    path = write(tmp_path / "cluster_job_log", json.dumps([JOB, waiting], indent=indent))
    (landing,) = land_in(lake, clock, path).landings
    assert (landing.rows_read, landing.rows_landed, landing.size_bytes) == (4, 4, path.stat().st_size)
    rows = rows_of(lake, "SELECT jobid, attempt, start_time, end_time, ip, gpus, gpu_count FROM bronze_philly_attempts")
    assert sorted(tuple(map(str, row.values())) for row in rows) == [
        ("application_1", "1.0", "2017-10-07 01:12:09", "2017-10-07 01:13:23", "m47", "gpu0,gpu1", "2.0"),
        ("application_1", "1.0", "2017-10-07 01:12:09", "2017-10-07 01:13:23", "m48", "None", "0.0"),
        ("application_1", "2.0", "2017-10-07 01:13:30", "None", "None", "None", "None"),
        ("application_2", "None", "None", "None", "None", "None", "None"),
    ]
    with path.open("rb") as file:
        assert landing.sha256 == hashlib.file_digest(file, "sha256").hexdigest()


def test_a_job_of_philly_that_is_not_one_costs_only_itself(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    strange = [{**JOB, "attempts": [{"detail": 1}]}, "hello", {**JOB, "jobid": 1.5}, {**JOB, "user": "\ud800"}, 7]
    late = {**JOB, "submitted_time": "noon", "attempts": []}
    path = write(tmp_path / "cluster_job_log", json.dumps([JOB, *strange, late]))
    (landing,) = land_in(lake, clock, path).landings
    assert (landing.rows_landed, landing.rows_quarantined) == (3, 8)
    not_a_job = "not a job: a key is missing or not of its kind"
    assert rows_of(lake, "SELECT DISTINCT line_number AS job, reason FROM quarantine ORDER BY 1") == [
        {"job": 2, "reason": not_a_job},
        {"job": 3, "reason": not_a_job},
        {"job": 4, "reason": not_a_job},
        {"job": 5, "reason": "not UTF-8"},
        {"job": 6, "reason": not_a_job},
        {"job": 7, "reason": "submitted_time is 'noon', which is not a local time"},
    ]


def test_a_cut_job_log_lands_nothing(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = write(tmp_path / "cluster_job_log", json.dumps([JOB] * 3000)[:-20])
    with pytest.raises(InputError, match=r"cannot read .*cluster_job_log: job 3000 is cut short or no JSON"):
        land_in(lake, clock, path)
    assert rows_of(lake, "SELECT count(*) AS n FROM bronze_philly_attempts") == [{"n": 0}]


@pytest.mark.slow
def test_a_job_log_of_many_chunks_is_read_whole(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    jobs = [{**JOB, "jobid": f"application_{number}"} for number in range(8000)]
    path = write(tmp_path / "cluster_job_log", json.dumps(jobs, indent=1))
    assert path.stat().st_size > 3 << 20
    (landing,) = land_in(lake, clock, path).landings
    assert (landing.rows_landed, landing.rows_quarantined) == (24_000, 0)
    assert rows_of(lake, "SELECT count(DISTINCT jobid) AS n FROM bronze_philly_attempts") == [{"n": 8000}]


def test_the_machines_of_philly_lose_their_blanks(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = write(tmp_path / "cluster_machine_list", "machineId, number of GPUs, single GPU mem\nm31,8, 24GB\n")
    land_in(lake, clock, path)
    row = {"machineId": "m31", "number_of_GPUs": 8.0, "single_GPU_mem": "24GB"}
    assert rows_of(lake, "FROM bronze_philly_machines") == [row]


def test_quotes_commas_and_blanks_of_an_outage_are_kept_in_order(
    lake: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "outages.csv",
        "cluster,machine,started_at,ended_at,reason\n"
        'c,m1,2024-05-01T10:00:00Z,2024-05-01 12:30:00+02:00,"fan, then ""disk"""\n'
        "c,m2, 2024-05-01T10:00:00Z ,,\n"
        "c,m3,2024-05-01T10:00:00,,no offset\n"
        "c,,2024-05-01T10:00:00Z,,no machine\n"
        "c,m4,None,,no begin\n",
    )
    (landing,) = land_in(lake, clock, path).landings
    assert (landing.rows_landed, landing.rows_quarantined) == (2, 3)
    assert rows_of(lake, "SELECT machine, ended_at, reason FROM bronze_outages ORDER BY 1") == [
        {"machine": "m1", "ended_at": datetime(2024, 5, 1, 10, 30, tzinfo=UTC), "reason": 'fan, then "disk"'},
        {"machine": "m2", "ended_at": None, "reason": None},
    ]


def test_a_quote_that_is_never_closed_is_a_clear_error(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    header = "cluster,machine,started_at,ended_at,reason\n"
    path = write(tmp_path / "outages.csv", header + 'c,m,2024-05-01T10:00:00Z,,"' + "x,\n" * 90_000)
    with pytest.raises(InputError, match=r"cannot read .*outages\.csv: line 2: field larger than field limit"):
        land_in(lake, clock, path)


def test_notes_beside_the_tables_are_left_alone(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    write(folder / "trace_seren.csv", SEREN)
    write(folder / "notes.txt", "hello\n")
    write(folder / "settings.json", "{}\n")
    write(folder / "empty.txt", "")
    with tarfile.open(folder / "more.tar", "w") as archive:
        archive.add(folder / "notes.txt", "notes.txt")
        archive.add(write(tmp_path / "cluster_log.csv", HELIOS), "Venus/cluster_log.csv")
    result = land_in(lake, clock, folder)
    assert sorted(landing.table for landing in result.landings) == ["bronze_acme_seren_jobs", "bronze_helios_jobs"]
    assert result.unknown == tuple(f"{folder}/{name}" for name in ("more.tar!notes.txt", "notes.txt", "settings.json"))
    assert land_in(lake, clock, folder / "more.tar").unknown == (f"{folder}/more.tar!notes.txt",)


def test_a_lake_inside_the_folder_is_not_landed_from(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    write(tmp_path / "trace_seren.csv", SEREN)
    for _ in range(2):
        assert land_in(lake, clock, tmp_path).unknown == ()


@pytest.mark.real
def test_the_real_lists_of_2023_land_whole(lake: Lake, clock: FrozenClock, real_data: Path) -> None:
    landings = land_in(lake, clock, real_data / "alibaba_openb_v2023").landings
    assert {Path(landing.source).stem: (landing.rows_landed, landing.rows_quarantined) for landing in landings} == {
        "openb_node_list_all_node": (1523, 0),
        "openb_node_list_gpu_node": (1213, 0),
        "openb_pod_list_default": (8152, 0),
    }
    nodes = "SELECT list, count(*) AS nodes, sum(gpu) AS gpus FROM bronze_openb_nodes GROUP BY list ORDER BY list"
    assert rows_of(lake, nodes) == [
        {"list": "openb_node_list_all_node", "nodes": 1523, "gpus": 6212.0},
        {"list": "openb_node_list_gpu_node", "nodes": 1213, "gpus": 6212.0},
    ]
    phases = rows_of(lake, "SELECT pod_phase AS phase, count(*) AS n FROM bronze_openb_pods GROUP BY ALL ORDER BY n")
    assert [(row["phase"], row["n"]) for row in phases] == [
        ("Succeeded", 192),
        ("Pending", 897),
        ("Failed", 1870),
        ("Running", 5193),
    ]
