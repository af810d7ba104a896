"""gpulake fetch as a user types it, the catalogue behind it, and the check of what lies in a folder."""

from __future__ import annotations

import functools
import hashlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpulake.cli.fetch import command
from gpulake.core.errors import ConfigError, FetchError, UsageError
from gpulake.land.catalogue import DataSet, PublishedFile, load_catalogue
from gpulake.land.fetch import FileState, fetch, verify

JOBS = b"packed jobs" * 1000
TASKS = b"packed tasks" * 1000
HEADER = b"job_name,user\n"
ROWS = b"j1,u1\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gave it
        pass


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")  # the loopback, whatever proxy this machine has
    served = tmp_path / "served"
    served.mkdir()
    (served / "jobs.tar.gz").write_bytes(JOBS)
    (served / "tasks.tar.gz").write_bytes(TASKS)
    handler = functools.partial(QuietHandler, directory=str(served))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(f"""
[tiny]
title = "Two small tables"
licence = "CC0-1.0"
url = "http://localhost:1"
source = "a test"
[[tiny.files]]
table = "jobs"
name = "jobs.tar.gz"
size_bytes = {len(JOBS)}
sha256 = "{sha256(JOBS)}"
[[tiny.files]]
table = "jobs"
name = "jobs.header"
text = "job_name,user\\n"
sha256 = "{sha256(HEADER)}"
[[tiny.files]]
table = "jobs"
name = "jobs.csv"
sha256 = "{sha256(ROWS)}"
[[tiny.files]]
table = "tasks"
name = "tasks.tar.gz"
size_bytes = {len(TASKS)}
sha256 = "{sha256(TASKS)}"
""")
    return path


@pytest.fixture
def tiny(catalogue: Path) -> DataSet:
    return load_catalogue(catalogue)["tiny"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_without_a_name_the_command_lists_what_can_be_fetched() -> None:
    assert run().stdout == (
        "pai  Alibaba PAI GPU cluster trace v2020, 1,460.2 MB, CC-BY-4.0,"
        " https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2020\n"
        "  pai_group_tag_table\n  pai_instance_table\n  pai_job_table\n  pai_machine_metric\n"
        "  pai_machine_spec\n  pai_sensor_table\n  pai_task_table\n"
    )


def test_the_list_is_given_to_machines_as_json(catalogue: Path) -> None:
    assert json.loads(run("--catalogue", catalogue, "--json").stdout) == [
        {
            "name": "tiny",
            "title": "Two small tables",
            "licence": "CC0-1.0",
            "source": "a test",
            "download_bytes": len(JOBS) + len(TASKS),
            "tables": ["jobs", "tasks"],
        }
    ]


def test_the_command_says_what_lies_where_and_what_comes_next(catalogue: Path, url: str, tmp_path: Path) -> None:
    out = tmp_path / "my data"
    result = run("tiny", "--catalogue", catalogue, "--url", url, "--out", out)
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        f"fetched  {out}/jobs.tar.gz\nfetched  {out}/jobs.header\nfetched  {out}/tasks.tar.gz\n",
        f"next: gpulake land '{out}'\n",
    )
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        "jobs.tar.gz": JOBS,
        "jobs.header": HEADER,
        "tasks.tar.gz": TASKS,
    }


def test_a_second_fetch_keeps_what_is_there(catalogue: Path, url: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run("tiny", "--catalogue", catalogue, "--url", url, "--out", out, "--table", "tasks", "--json")
    second = run("tiny", "--catalogue", catalogue, "--url", url, "--out", out, "--json")
    files = [
        {"name": "jobs.tar.gz", "table": "jobs", "path": f"{out}/jobs.tar.gz", "status": "fetched"},
        {"name": "jobs.header", "table": "jobs", "path": f"{out}/jobs.header", "status": "fetched"},
        {"name": "tasks.tar.gz", "table": "tasks", "path": f"{out}/tasks.tar.gz", "status": "kept"},
    ]
    whole = {"data_set": "tiny", "folder": str(out), "files": files, "next": f"gpulake land {out}"}
    assert json.loads(second.stdout) == whole
    assert json.loads(first.stdout) == {**whole, "files": [{**files[2], "status": "fetched"}]}


def test_a_name_that_is_not_known_is_met_with_the_nearest(catalogue: Path, tmp_path: Path) -> None:
    problems = [
        run("pia").exception,
        run("tiny", "--catalogue", catalogue, "--table", "job", "--out", tmp_path / "out").exception,
    ]
    assert [(type(problem), problem.message, problem.hint) for problem in problems] == [  # type: ignore[union-attr]
        (UsageError, "no data set named 'pia'", "did you mean 'pai'?"),
        (UsageError, "tiny has no table named 'job'", "did you mean 'jobs'?"),
    ]


@pytest.mark.parametrize(
    "address",
    ["ftp://host/x", "file:///tmp", "host/x", "", "http://", "http://[", "http://h:x/", "http://h/a b", "http://hé/"],
)
def test_only_http_urls_are_fetched_from(address: str, tiny: DataSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        fetch(tiny, tmp_path / "out", url=address)
    assert caught.value.message == f"cannot fetch from {address!r}"
    assert not (tmp_path / "out").exists()


def test_a_password_in_a_url_is_refused_and_not_repeated(tiny: DataSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        fetch(tiny, tmp_path, url="https://me:secret@host/x")
    assert caught.value.message == "the URL of host carries a password, a query or a fragment"


def test_nobody_listening_is_an_error_that_names_the_url(tiny: DataSet, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    waits: list[float] = []
    with pytest.raises(FetchError) as caught:
        fetch(tiny, tmp_path / "out", tables=["tasks"], url=address, wait=waits.append)
    assert caught.value.message == f"cannot fetch {address}/tasks.tar.gz: [Errno 111] Connection refused (5 tries)"
    assert waits == [1.0, 2.0, 4.0, 8.0]


def test_too_little_disk_space_is_reported_before_the_first_byte(url: str, tmp_path: Path) -> None:
    huge = PublishedFile("jobs", "jobs.tar.gz", sha256(JOBS), size_bytes=10**18)
    data_set = DataSet("huge", "", "", url, "", (huge,))
    with pytest.raises(FetchError, match=r"needs 1,000,000,000,000\.0 MB more and has [0-9,.]+ MB free"):
        fetch(data_set, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_disk_that_fills_up_ends_in_an_error_and_keeps_the_part(catalogue: Path, url: str, tmp_path: Path) -> None:
    # A limit on the size of files stands for the full disk: the same error of the same write.
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\nfrom gpulake.cli import main; main()"
    )
    out = tmp_path / "out"
    options = ["--catalogue", str(catalogue), "--url", url, "--out", str(out), "--table", "tasks"]
    result = subprocess.run(
        [sys.executable, "-c", program, "fetch", "tiny", *options], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (
        6,
        "",
        f"error: no space left for {out}: File too large\n"
        "hint: free some space; the same command resumes where this one stopped\n",
    )
    assert (out / "tasks.tar.gz.part").read_bytes() == TASKS[:5000]
    assert not (out / "tasks.tar.gz").exists()


def test_a_folder_that_cannot_be_made_is_an_error_with_a_way_out(tiny: DataSet, catalogue: Path) -> None:
    with pytest.raises(FetchError) as caught:
        fetch(tiny, catalogue / "out")
    assert caught.value.message == f"cannot use {catalogue / 'out'}: Not a directory"
    assert caught.value.hint == "choose a folder that can be written with --out"


def test_verify_tells_right_wrong_and_missing_files_apart(tiny: DataSet, tmp_path: Path) -> None:
    (tmp_path / "jobs.header").write_bytes(HEADER)
    (tmp_path / "jobs.csv").write_bytes(HEADER + ROWS)
    (tmp_path / "tasks.tar.gz.partab").write_bytes(TASKS[7:])
    (tmp_path / "tasks.tar.gz.partaa").write_bytes(TASKS[:7])
    assert verify(tiny, tmp_path) == [
        FileState("jobs.tar.gz", "jobs", "missing"),
        FileState("jobs.header", "jobs", "ok"),
        FileState("jobs.csv", "jobs", "wrong", sha256(HEADER + ROWS)),
        FileState("tasks.tar.gz", "tasks", "ok"),
    ]


def test_verify_only_passes_on_extracted_files_alone(catalogue: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_bytes(ROWS)
    result = run("tiny", "--catalogue", catalogue, "--out", tmp_path, "--table", "jobs", "--verify-only")
    assert (result.exit_code, result.stdout) == (
        0,
        f"missing  {tmp_path}/jobs.tar.gz\nmissing  {tmp_path}/jobs.header\nok       {tmp_path}/jobs.csv\n",
    )


def test_verify_only_fails_on_a_wrong_file_and_on_an_absent_table(catalogue: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_bytes(b"x")
    options = ["tiny", "--catalogue", catalogue, "--out", tmp_path, "--verify-only"]
    problems = [run(*options).exception, run(*options, "--table", "tasks").exception]
    assert [(type(problem), problem.message) for problem in problems] == [  # type: ignore[union-attr]
        (
            FetchError,
            f"1 of 4 files are not as published: jobs.csv (expected {sha256(ROWS)}, got {sha256(b'x')})",
        ),
        (FetchError, "no data of tasks"),
    ]


def test_the_packaged_catalogue_has_an_archive_a_header_and_a_csv_for_each_table() -> None:
    pai = load_catalogue()["pai"]
    assert [(file.table, file.name.removeprefix(file.table)) for file in pai.files] == [
        (table, suffix) for table in pai.tables for suffix in (".tar.gz", ".header", ".csv")
    ]
    assert pai.download_bytes == 1_460_230_040


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('name = "../jobs"\nsha256 = ""', "'../jobs' is not a plain file name"),
        ('name = "jobs"\nsha256 = "12"', "jobs has the SHA-256 '12'"),
        (f'name = "jobs"\ntext = "a"\nsha256 = "{sha256(b"b")}"', "the text of jobs does not have its SHA-256"),
    ],
)
def test_a_catalogue_that_cannot_be_right_is_refused(entry: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f'[x]\n[[x.files]]\ntable = "jobs"\n{entry}\n')
    with pytest.raises(ConfigError) as caught:
        load_catalogue(path)
    assert caught.value.message == problem


@pytest.mark.parametrize("text", ["x = 1", "[x]", "[x]\nfiles = []\ncolour = 1", "[x]\nfiles = [1]", "["])
def test_a_catalogue_of_another_shape_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        load_catalogue(path)
