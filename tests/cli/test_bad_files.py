"""One bad file costs only itself: the others land and are built, and the last line says which failed and why."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

from click.testing import CliRunner, Result

from conftest import count_of
from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.lake import Lake

GOOD = "j{number},i,u,Failed,1.0,2.0\n"
SACCT = "JobID|User|State|Submit|Start|End|AllocTRES|NodeList\nhalf a line\n"


def run(config: Config, *words: str) -> Result:
    return CliRunner().invoke(root, [words[0], "--lake", str(config.lake), *words[1:]])


def good_files(folder: Path, count: int) -> list[str]:
    paths = [folder / f"{number:02}" / "pai_job_table.csv" for number in range(count)]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True)
        path.write_text(GOOD.format(number=number))
    return [str(path) for path in paths]


def truncated(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(GOOD.encode() * 1000)[:-20])
    return path


def reason_of(result: Result) -> str:
    assert result.exception
    return str(getattr(result.exception, "message", result.exception))


def test_a_truncated_file_among_thirty_costs_only_itself(config: Config, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    good_files(folder, 29)
    bad = truncated(folder / "05" / "pai_task_table.csv.gz")
    result = run(config, "land", str(folder))
    assert count_of(Lake(config), "bronze_job_events") == 29
    reason = f"{bad} is truncated or damaged: Compressed file ended before the end-of-stream marker was reached"
    assert reason_of(result) == f"1 of 30 files failed: {reason}"
    assert getattr(result.exception, "exit_code", None) == 3
    assert f"failed: {reason} (fetch it again; nothing was landed)" in result.stderr
    assert "files: 29 landed, 1 failed; rows in quarantine: 0 of 29" in result.stderr


def test_every_kind_of_bad_file_is_a_failure_of_its_own(config: Config, tmp_path: Path) -> None:
    good = good_files(tmp_path / "good", 1)
    (tmp_path / "foo.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "sacct.txt").write_text(SACCT)
    names = ["foo.csv", "empty.csv", "sacct.txt", "nowhere.csv"]
    result = run(config, "land", "--json", *(str(tmp_path / name) for name in names), *good)
    said = json.loads(result.stdout)
    assert [(Path(one["source"]).name, one["reason"].replace(f"{tmp_path}/", "")) for one in said["failed"]] == [
        ("nowhere.csv", "no file or folder at nowhere.csv"),
        ("empty.csv", "empty.csv is empty"),
        ("foo.csv", "no reader recognises foo.csv"),
        ("sacct.txt", "no row of sacct.txt can be read as slurm jobs: 1 fields where 8 are expected"),
    ]
    assert (
        said["failed"][3]["hint"]
        == "check that the file is whole, and as its program wrote it: docs/telemetry.md, docs/slurm.md"
    )
    assert [landing["source"] for landing in said["landings"]] == good
    assert (said["unknown"], said["rows_quarantined"]) == ([], 0)
    assert reason_of(result).endswith("; and 1 more")
    assert getattr(result.exception, "exit_code", None) == 3


def test_a_bad_member_of_an_archive_costs_only_itself(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "trace.tar"
    with tarfile.open(path, "w") as archive:
        for name, text in {"pai_job_table.csv": GOOD, "inventory.csv": "a,b\n"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    result = run(config, "land", str(path))
    assert reason_of(result) == f"1 of 2 files failed: no reader recognises {path}!inventory.csv"
    assert count_of(Lake(config), "bronze_job_events") == 1


def test_a_refresh_builds_the_rest_and_fails_at_its_end(config: Config, tmp_path: Path) -> None:
    good_files(tmp_path / "in", 2)
    (tmp_path / "in" / "00" / "pai_job_table.csv").write_text(GOOD.format(number=0) + "too,few\n")
    (tmp_path / "in" / "notes.csv").write_text("a,b\n1,2\n")
    truncated(tmp_path / "in" / "03" / "pai_job_table.csv.gz")
    result = run(config, "refresh", "--select", "silver_jobs", str(tmp_path / "in"))
    assert count_of(Lake(config), "silver_jobs") == 2
    assert f"not recognised, skipped: {tmp_path}/in/notes.csv" in result.stderr
    assert "files: 2 landed, 1 not recognised, 1 failed; rows in quarantine: 1 of 3" in result.stderr
    assert reason_of(result).startswith(f"1 of 4 files failed: {tmp_path}/in/03/pai_job_table.csv.gz is truncated")
    assert getattr(result.exception, "exit_code", None) == 3


def test_if_all_fail_nothing_is_built(config: Config, tmp_path: Path) -> None:
    for name in ("a", "b"):
        truncated(tmp_path / name / "pai_job_table.csv.gz")
    result = run(config, "refresh", str(tmp_path / "a"), str(tmp_path / "b"))
    assert reason_of(result).startswith(f"step land failed: 2 of 2 files failed: {tmp_path}/a/pai_job_table.csv.gz")
    assert Lake(config).builds.current() is None


def test_quarantine_is_said_also_when_it_is_empty(config: Config, tmp_path: Path) -> None:
    good = good_files(tmp_path, 1)
    assert "files: 1 landed; rows in quarantine: 0 of 1" in run(config, "land", *good).stderr
    assert "files: 1 had landed; rows in quarantine: 0 of 1" in run(config, "land", *good).stderr


def test_quiet_prints_nothing_of_a_healthy_run_and_all_that_is_wrong(config: Config, tmp_path: Path) -> None:
    good = good_files(tmp_path / "good", 2)
    (tmp_path / "pai_machine_spec.csv").write_text("m1,T4,96,512,8\nm2,T4,96,512,not a number\n")
    quiet = [run(config, *words, "--quiet") for words in (("land", *good), ("build",), ("build",), ("refresh",))]
    assert [(one.exit_code, one.output) for one in quiet] == [(0, "")] * 4
    result = run(config, "refresh", "-q", str(truncated(tmp_path / "pai_task_table.csv.gz")), str(tmp_path))
    assert result.stdout == ""
    assert "failed: " in result.stderr
    assert "1 failed; rows in quarantine: 1 of 4" in result.stderr
    assert getattr(result.exception, "exit_code", None) == 3


def test_quiet_reports_quarantined_rows_only_in_the_run_that_landed_them(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "pai_machine_spec.csv"
    path.write_text("m1,T4,96,512,8\nm2,T4,96,512,not a number\n")
    first, second, third = (run(config, "land", *quiet, str(path)) for quiet in (["-q"], ["-q"], []))
    assert "rows in quarantine: 1 of 2\nSee them" in first.stderr
    assert second.output == ""
    assert "files: 1 had landed; rows in quarantine: 1 of 2\nSee them" in third.stderr


def test_a_hint_of_several_files_is_printed_once(config: Config, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("nothing that a reader knows\n")
    good = good_files(tmp_path / "good", 1)
    result = run(config, "land", *good, str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert result.stderr.count("failed: no reader recognises") == 2
    assert result.stderr.count("(readers: ") == 1
