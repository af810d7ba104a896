"""One damaged file costs only its own rows, is found by a deep look, and is mended where it can be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conftest import count_of, rows_of
from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, LakeError
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.lake.deep import inspect
from gpulake.show.health import check_all
from show.web.asking import client_of

SPEC = "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nm1,T4,96,512,2\n"
JOBS = "".join(
    f"j{number},i{number},u,Terminated,{number * 600}.0,{number * 600 + 300}.0\n" for number in range(1, 400)
)
TASKS = "".join(f"j{n},worker,1,Terminated,{n * 600}.0,{n * 600 + 300}.0,600,29,100,T4\n" for n in range(1, 400))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a whole build, and beside it what it was made of."""
    folder = tmp_path_factory.mktemp("damage")
    raw = folder / "raw"
    raw.mkdir()
    (raw / "pai_machine_spec.csv").write_text(SPEC)
    (raw / "pai_job_table.csv").write_text(JOBS + "too,few\n")
    (raw / "pai_task_table.csv").write_text(TASKS)
    Flow(Config(lake=folder / "lake", threads=1)).refresh([raw], folder / "lake" / "report.html")
    return folder


@pytest.fixture
def lake(small: Path, tmp_path: Path) -> Lake:
    shutil.copytree(small / "lake", tmp_path / "lake")
    return Lake(Config(lake=tmp_path / "lake", threads=1))


def data_file(lake: Lake, table: str) -> Path:
    (file,) = lake.bronze.files(table)
    return file


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def run(lake: Lake, *arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "--lake", str(lake.root)])


def faults(lake: Lake) -> list[tuple[str, str, str]]:
    return [(one.kind, one.layer, one.table) for one in inspect(lake)]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": flip_a_byte,
    "truncated": truncate,
    "deleted": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_bronze_file_costs_only_its_own_rows(lake: Lake, damage: str) -> None:
    path = data_file(lake, "bronze_job_events")
    DAMAGES[damage](path)
    assert count_of(lake, "silver_jobs") == 399
    assert count_of(lake, "gold_jobs_daily") > 0
    assert count_of(lake, "bronze_machine_spec") == 1
    for verb in (["tables"], ["report", "overview", "--out", str(lake.root / "r.html")], ["sql", "from silver_jobs"]):
        answer = run(lake, *verb)
        assert (answer.exit_code, answer.exception) == (0, None), verb
    assert [check.status for check in check_all(lake.config) if check.name in ("build", "tests", "lake")] == ["ok"] * 3
    assert faults(lake) == [("file", "bronze", "bronze_job_events")]
    deep = [check for check in check_all(lake.config, is_deep=True) if check.status == "fail"]
    assert any(str(path) in check.detail for check in deep)
    if damage == "flipped":  # it may read as another value: only the hash tells
        return
    with pytest.raises(LakeError) as raised:
        rows_of(lake, 'SELECT max(job_name || inst_id || "user" || status), sum(start_time) FROM bronze_job_events')
    assert path.name in raised.value.message
    assert raised.value.hint == "see what is damaged with: gpulake doctor --deep; repair it with: gpulake repair"
    with pytest.raises(GpulakeError):
        Flow(lake.config).build(is_forced=True)
    assert count_of(lake, "silver_jobs") == 399


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_lands_again_if_its_original_says_the_same(lake: Lake, damage: str) -> None:
    DAMAGES[damage](data_file(lake, "bronze_job_events"))
    dry = run(lake, "repair", "--dry-run", "--json")
    assert dry.exit_code == 1
    assert [one["status"] for one in json.loads(dry.stdout)["repairs"]] == ["planned"]
    answer = run(lake, "repair", "--json")
    assert answer.exit_code == 0, answer.output
    (repaired,) = json.loads(answer.stdout)["repairs"]
    assert (repaired["status"], repaired["action"].endswith("pai_job_table.csv again")) == ("done", True)
    assert (count_of(lake, "bronze_job_events"), count_of(lake, "quarantine")) == (399, 1)
    assert count_of(lake, "silver_jobs") == 399
    assert faults(lake) == []
    assert run(lake, "repair").exit_code == 0


@pytest.mark.slow
def test_a_damaged_file_whose_original_changed_is_only_dropped_on_request(lake: Lake, small: Path) -> None:
    original = small / "raw" / "pai_machine_spec.csv"
    flip_a_byte(data_file(lake, "bronze_machine_spec"))
    original.write_text(SPEC.replace("m1", "m9"))
    try:
        answer = run(lake, "repair", "--json")
        assert answer.exit_code == 1
        assert [one["status"] for one in json.loads(answer.stdout)["repairs"]] == ["needs --drop"]
        assert faults(lake) == [("file", "bronze", "bronze_machine_spec")]
        assert run(lake, "repair", "--drop").exit_code == 0
    finally:
        original.write_text(SPEC)
    assert faults(lake) == []
    assert count_of(lake, "bronze_machine_spec") == 0
    (found,) = rows_of(lake, "SELECT subject, headline FROM findings WHERE kind = 'fewer_rows'")
    assert found["headline"] == "bronze_machine_spec has 0 rows; the build before was made of 1"


@pytest.mark.slow
def test_a_server_goes_on_showing_the_build(lake: Lake) -> None:
    truncate(data_file(lake, "bronze_job_events"))
    with client_of(lake.config) as client:
        assert client.get("/explore").status_code == 200
        assert client.get("/api/v1/observed").json()["total"] == 1


@pytest.mark.slow
def test_a_deleted_commit_is_found_and_its_rows_come_back(lake: Lake) -> None:
    (commit,) = (lake.bronze.folder / "bronze_job_events" / "_delta_log").glob("*.json")
    commit.unlink()
    assert count_of(lake, "bronze_job_events") == 0
    assert faults(lake) == [("log", "bronze", "bronze_job_events")]
    assert [c.status for c in check_all(lake.config, is_deep=True) if c.name == "bronze" and c.status == "fail"]
    assert run(lake, "repair").exit_code == 0
    assert (count_of(lake, "bronze_job_events"), count_of(lake, "silver_jobs")) == (399, 399)
    assert faults(lake) == []


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_commit_that_is_missing_anywhere_is_found_and_mended(lake: Lake, tmp_path: Path, which: int) -> None:
    for number in (1, 2):
        path = tmp_path / f"day{number}" / "pai_job_table.csv"
        path.parent.mkdir()
        path.write_text(JOBS.replace("j", f"d{number}-"))
        Flow(lake.config).land([path])
    assert count_of(lake, "bronze_job_events") == 3 * 399
    commits = sorted((lake.bronze.folder / "bronze_job_events" / "_delta_log").glob("*.json"))
    commits[which].unlink()
    kind = "orphan" if which == 2 else "log"
    assert (kind, "bronze", "bronze_job_events") in faults(lake)
    assert count_of(lake, "silver_jobs") == 399
    answer = run(lake, "repair")
    assert answer.exit_code == 0, answer.output
    assert count_of(lake, "bronze_job_events") == 3 * 399
    assert count_of(lake, "silver_jobs") == 3 * 399
    assert faults(lake) == []


@pytest.mark.slow
def test_a_flipped_byte_in_a_journal_is_found_and_its_line_set_aside(lake: Lake) -> None:
    journal = lake.root / "runs.jsonl"
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([lines[0].replace(b'"', b"\x22\x00", 1), *lines[1:], b""]))
    assert faults(lake) == [("journal", "journal", "runs")]
    assert run(lake, "repair").exit_code == 1
    assert run(lake, "repair", "--drop").exit_code == 0
    assert faults(lake) == []
    assert len((lake.root / "runs.jsonl.damaged").read_bytes().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["flipped", "truncated", "deleted"])
def test_a_damaged_build_is_reported_and_rebuilt(lake: Lake, damage: str) -> None:
    current = lake.builds.current()
    assert current is not None
    DAMAGES[damage](current)
    assert "build" in {kind for kind, _, _ in faults(lake)}
    assert run(lake, "doctor").exit_code in (0, 1)
    answer = run(lake, "repair")
    assert answer.exit_code == 0, answer.output
    assert faults(lake) == []
    assert count_of(lake, "silver_jobs") == 399


@pytest.mark.slow
def test_a_damaged_gold_file_is_exported_again(lake: Lake) -> None:
    (path,) = (lake.gold / "gold_jobs_daily").glob("*.parquet")
    flip_a_byte(path)
    assert faults(lake) == [("file", "gold", "gold_jobs_daily")]
    assert run(lake, "repair").exit_code == 0
    assert faults(lake) == []
