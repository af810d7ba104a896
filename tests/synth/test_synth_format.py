from __future__ import annotations

import csv
import gzip
import io
import re
import tarfile
from pathlib import Path

import pytest

from gpulake.synth import write_trace
from gpulake.synth.facts import HEADERS

PUBLISHED_HEADERS = {
    "pai_job_table": b"job_name,inst_id,user,status,start_time,end_time\n",
    "pai_task_table": b"job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n",
    "pai_instance_table": (b"job_name,task_name,inst_name,worker_name,inst_id,status,start_time,end_time,machine\n"),
    "pai_sensor_table": (
        b"job_name,task_name,worker_name,inst_id,machine,gpu_name,cpu_usage,gpu_wrk_util,avg_mem,max_mem,"
        b"avg_gpu_wrk_mem,max_gpu_wrk_mem,read,write,read_count,write_count\n"
    ),
    "pai_group_tag_table": b"inst_id,user,gpu_type_spec,group,workload\n",
    "pai_machine_spec": b"machine,gpu_type,cap_cpu,cap_mem,cap_gpu\n",
    "pai_machine_metric": (
        b"worker_name,machine,start_time,end_time,machine_cpu_iowait,machine_cpu_kernel,machine_cpu_usr,machine_gpu,"
        b"machine_load_1,machine_net_receive,machine_num_worker,machine_cpu\n"
    ),
}

FIELDS = {
    "job_name": "synth-[0-9a-f]{18}",
    "inst_id": "synth-[0-9a-f]{54}",
    "inst_name": "synth-[0-9a-f]{54}",
    "worker_name": "(synth-[0-9a-f]{54})?",
    "machine": "(synth-[0-9a-f]{18})?",
    "user": "synth-[0-9a-f]{12}",
    "group": "synth-[0-9a-f]{26}",
    "start_time": r"(\d{7}\.0)?",
    "end_time": r"(\d{7}\.0)?",
    "inst_num": r"\d+\.0",
    "plan_cpu": r"\d+\.0",
    "plan_mem": r"\d+\.\d+",
    "plan_gpu": r"(\d+\.0)?",
    "gpu_type": "(MISC|T4|P100|V100|V100M32|CPU)?",
    "gpu_type_spec": "(MISC|T4|P100|V100|V100M32)?",
    "gpu_name": "/dev/nvidia[0-7]",
    "status": "Terminated|Running|Failed|Interrupted|Waiting",
    "cap_gpu": "0|2|8",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("small")
    write_trace(directory, jobs=1_000, seed=3)
    return directory


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("packed")
    write_trace(directory, jobs=1_000, seed=3, is_tar=True)
    return directory


@pytest.mark.parametrize("name", PUBLISHED_HEADERS)
def test_a_header_file_is_byte_for_byte_the_published_one(small: Path, name: str) -> None:
    assert (small / f"{name}.header").read_bytes() == PUBLISHED_HEADERS[name]


@pytest.mark.parametrize("name", PUBLISHED_HEADERS)
def test_a_table_has_no_header_row_and_every_field_is_written_as_published(small: Path, name: str) -> None:
    names = HEADERS[name].split(",")
    with (small / f"{name}.csv").open(newline="") as file:
        for row in csv.reader(file):
            for column, field in zip(names, row, strict=True):
                assert re.fullmatch(FIELDS.get(column, r".*"), field), (column, field)
                assert field != column


def test_memory_is_asked_for_in_round_megabytes(small: Path) -> None:
    asked = [row.split(",")[7] for row in (small / "pai_task_table.csv").read_text().splitlines()]
    assert max(set(asked), key=asked.count) == "29.296875"


def test_the_table_of_gpu_models_has_a_header_and_quoted_fields(small: Path) -> None:
    text = (small / "tpu_gpus.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert '"16 GB, HBM2, 4096 bit"' in text
    assert list(rows[0]) == (
        ["Product_Name", "GPU_Chip", "Released", "Bus", "Memory", "GPU_clock", "Memory_clock", "Shaders_TMUs_ROPs"]
    )
    models = " ".join(row["Product_Name"] for row in rows)
    for model in ("T4", "P100", "V100", "K40m", "K80", "M60", "A100", "H100", "H200", "B200", "L40S", "A10"):
        assert model in models
    assert len({row["Product_Name"] for row in rows}) == len(rows) >= 19


@pytest.mark.parametrize("name", PUBLISHED_HEADERS)
def test_an_archive_holds_the_same_table(small: Path, packed: Path, name: str) -> None:
    with tarfile.open(packed / f"{name}.tar.gz") as archive:
        assert archive.getnames() == [f"{name}.csv"]
        member = archive.extractfile(f"{name}.csv")
        assert member is not None
        assert member.read() == (small / f"{name}.csv").read_bytes()
    assert not (packed / f"{name}.csv").exists()


def test_an_archive_does_not_tell_when_it_was_written(packed: Path) -> None:
    content = (packed / "pai_machine_spec.tar.gz").read_bytes()
    assert content[4:8] == bytes(4)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as archive:
        assert [member.mtime for member in archive.getmembers()] == [0]
