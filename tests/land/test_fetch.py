"""Fetching against a real server on the loopback that cuts, corrupts, refuses and forgets."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest

from gpulake.core.errors import FetchError, GpulakeError
from gpulake.land.catalogue import DataSet, PublishedFile
from gpulake.land.fetch import FileState, fetch

JOBS = bytes(range(256)) * 1000
TASKS = bytes(reversed(range(256))) * 900


@dataclass(frozen=True)
class Asked:
    path: str
    range: str | None = None
    if_range: str | None = None


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one answer."""

    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cut_after: int | None = None
    hold_after: int | None = None
    is_corrupt: bool = False


@dataclass
class Mirror:
    files: dict[str, bytes]
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    etags: dict[str, str] = field(default_factory=dict)
    has_ranges: bool = True
    has_lengths: bool = True
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)
    together: threading.Barrier | None = None

    def fault(self, path: str) -> Fault:
        left = self.faults.get(path, [])
        return left.pop(0) if left else Fault()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        mirror = cast("Server", self.server).mirror
        name = self.path.removeprefix("/")
        asked = Asked(name, self.headers.get("Range"), self.headers.get("If-Range"))
        mirror.asked.append(asked)
        if mirror.together is not None:
            mirror.together.wait(timeout=60)
        fault = mirror.fault(name)
        body = mirror.files.get(name)
        if fault.status is not None or body is None:
            self._send(fault.status or 404, dict(fault.headers), b"")
            return
        etag = mirror.etags.get(name)
        headers = {} if etag is None else {"ETag": etag}
        begin, total = 0, len(body)
        if mirror.has_ranges and asked.range and asked.if_range in (None, etag):
            begin = int(asked.range.removeprefix("bytes=").removesuffix("-"))
            if begin >= total:
                self._send(416, headers | {"Content-Range": f"bytes */{total}"}, b"")
                return
            headers["Content-Range"] = f"bytes {begin}-{total - 1}/{total}"
        if mirror.has_lengths:
            headers["Content-Length"] = str(total - begin)
        content = body[begin:]
        if fault.is_corrupt:
            content = content[:-1] + bytes([content[-1] ^ 1])
        stop = fault.hold_after if fault.hold_after is not None else fault.cut_after
        self._send(206 if begin else 200, headers, content[:stop])
        if fault.hold_after is not None:
            mirror.released.wait(timeout=60)

    def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gave it
        pass


class Server(ThreadingHTTPServer):
    mirror: Mirror


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("no_proxy", "*")  # the loopback, whatever proxy this machine has
    with Server(("127.0.0.1", 0), Handler) as server:
        server.mirror = Mirror({"jobs.tar.gz": JOBS, "tasks.tar.gz": TASKS})
        server.mirror.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.mirror
        server.mirror.released.set()
        server.shutdown()
        thread.join()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


HEADER = PublishedFile("jobs", "jobs.header", sha256(b"job_name,user\n"), text="job_name,user\n")
JOBS_FILE = PublishedFile("jobs", "jobs.tar.gz", sha256(JOBS), size_bytes=len(JOBS))
TASKS_FILE = PublishedFile("tasks", "tasks.tar.gz", sha256(TASKS), size_bytes=len(TASKS))


def published(*files: PublishedFile) -> DataSet:
    return DataSet("tiny", "Two small tables", "CC0-1.0", "http://localhost:1", "a test", files or (JOBS_FILE,))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


Fetch = Callable[..., list[FileState]]


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def fetch_jobs(mirror: Mirror, tmp_path: Path, waits: list[float]) -> Fetch:
    def run(**options: object) -> list[FileState]:
        return fetch(published(), tmp_path, url=mirror.url, wait=waits.append, **options)  # type: ignore[arg-type]

    return run


def test_a_cut_download_is_resumed_and_no_byte_comes_twice(
    mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path, waits: list[float]
) -> None:
    mirror.etags["jobs.tar.gz"] = '"v1"'
    mirror.faults["jobs.tar.gz"] = [Fault(cut_after=100_000), Fault(cut_after=50_000)]
    assert fetch_jobs() == [FileState("jobs.tar.gz", "jobs", "fetched")]
    assert mirror.asked == [
        Asked("jobs.tar.gz"),
        Asked("jobs.tar.gz", "bytes=100000-", '"v1"'),
        Asked("jobs.tar.gz", "bytes=150000-", '"v1"'),
    ]
    assert (names(tmp_path), (tmp_path / "jobs.tar.gz").read_bytes(), waits) == (["jobs.tar.gz"], JOBS, [1.0, 1.0])


@pytest.mark.parametrize("etags", [{}, {"jobs.tar.gz": 'W/"v1"'}])
def test_without_a_strong_validator_the_rest_is_asked_for_all_the_same(
    etags: dict[str, str], mirror: Mirror, fetch_jobs: Fetch
) -> None:
    mirror.etags = etags
    mirror.faults["jobs.tar.gz"] = [Fault(cut_after=7)]
    fetch_jobs()
    assert mirror.asked == [Asked("jobs.tar.gz"), Asked("jobs.tar.gz", "bytes=7-")]


def test_a_file_that_changed_between_two_tries_starts_again_from_zero(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["jobs.tar.gz"] = bytes(len(JOBS))
    mirror.etags["jobs.tar.gz"] = '"old"'
    mirror.faults["jobs.tar.gz"] = [Fault(cut_after=100_000)]

    def change(_seconds: float) -> None:
        mirror.files["jobs.tar.gz"] = JOBS
        mirror.etags["jobs.tar.gz"] = '"new"'

    fetch(published(), tmp_path, url=mirror.url, wait=change)
    assert mirror.asked == [Asked("jobs.tar.gz"), Asked("jobs.tar.gz", "bytes=100000-", '"old"')]
    assert (tmp_path / "jobs.tar.gz").read_bytes() == JOBS


def test_a_server_that_ignores_ranges_restarts_the_file_cleanly(
    mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path
) -> None:
    mirror.has_ranges = False
    mirror.faults["jobs.tar.gz"] = [Fault(cut_after=100_000)]
    fetch_jobs()
    assert mirror.asked == [Asked("jobs.tar.gz"), Asked("jobs.tar.gz", "bytes=100000-")]
    assert (tmp_path / "jobs.tar.gz").read_bytes() == JOBS


def test_a_server_that_gives_no_length_is_held_to_the_published_size(mirror: Mirror, fetch_jobs: Fetch) -> None:
    mirror.has_lengths = False
    mirror.faults["jobs.tar.gz"] = [Fault(cut_after=100_000)]
    fetch_jobs()
    assert mirror.asked == [Asked("jobs.tar.gz"), Asked("jobs.tar.gz", "bytes=100000-")]


def test_bytes_that_were_corrupted_once_are_fetched_again(mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path) -> None:
    mirror.faults["jobs.tar.gz"] = [Fault(is_corrupt=True)]
    fetch_jobs()
    assert mirror.asked == [Asked("jobs.tar.gz"), Asked("jobs.tar.gz")]
    assert (tmp_path / "jobs.tar.gz").read_bytes() == JOBS


def test_bytes_that_are_always_corrupted_end_in_an_error_and_no_file(
    mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path
) -> None:
    bad = mirror.files["jobs.tar.gz"] = JOBS[:-1] + b"?"
    with pytest.raises(FetchError) as caught:
        fetch_jobs()
    assert caught.value.message == (
        f"jobs.tar.gz has the wrong SHA-256: expected {sha256(JOBS)}, got {sha256(bad)}"
        " (256,000 bytes where 256,000 were published)"
    )
    assert caught.value.hint == f"{mirror.url} does not serve the published file; try a mirror with --url"
    assert (len(mirror.asked), names(tmp_path)) == (2, [])


def test_a_server_that_fails_and_recovers_costs_only_patience(
    mirror: Mirror, fetch_jobs: Fetch, waits: list[float]
) -> None:
    mirror.faults["jobs.tar.gz"] = [
        Fault(status=500),
        Fault(status=502),
        Fault(status=503, headers=(("Retry-After", "9"),)),
        Fault(status=429, headers=(("Retry-After", "86400"),)),
    ]
    assert fetch_jobs() == [FileState("jobs.tar.gz", "jobs", "fetched")]
    assert waits == [1.0, 2.0, 9.0, 60.0]


def test_a_server_that_stays_broken_is_given_up_and_the_part_kept(
    mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path, waits: list[float]
) -> None:
    mirror.faults["jobs.tar.gz"] = [Fault(cut_after=1000), *[Fault(status=500)] * 4]
    with pytest.raises(FetchError) as caught:
        fetch_jobs()
    assert caught.value.message == (
        f"cannot fetch {mirror.url}/jobs.tar.gz: the server answered 500 Internal Server Error (5 tries)"
    )
    assert (waits, (tmp_path / "jobs.tar.gz.part").read_bytes()) == ([1.0, 2.0, 4.0, 8.0], JOBS[:1000])
    fetch_jobs()
    assert mirror.asked[-1] == Asked("jobs.tar.gz", "bytes=1000-")


def test_pieces_are_joined_in_order_up_to_the_published_size(mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path) -> None:
    mirror.files = {"jobs.tar.gz.partaa": JOBS[:90_000], "jobs.tar.gz.partab": JOBS[90_000:180_000]}
    mirror.files["jobs.tar.gz.partac"] = JOBS[180_000:]
    mirror.faults["jobs.tar.gz.partab"] = [Fault(cut_after=10_000)]
    fetch_jobs()
    assert mirror.asked == [
        Asked("jobs.tar.gz"),
        Asked("jobs.tar.gz.partaa"),
        Asked("jobs.tar.gz.partab"),
        Asked("jobs.tar.gz.partab", "bytes=10000-"),
        Asked("jobs.tar.gz.partac"),
    ]
    assert (names(tmp_path), (tmp_path / "jobs.tar.gz").read_bytes()) == (["jobs.tar.gz"], JOBS)


def test_a_second_run_goes_on_with_the_piece_where_the_first_stopped(
    mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path
) -> None:
    mirror.files = {"jobs.tar.gz.partaa": JOBS[:90_000]}
    with pytest.raises(FetchError) as caught:
        fetch_jobs()
    assert caught.value.message == (
        f"404: nothing at {mirror.url}/jobs.tar.gz.partab, the next piece after 90,000 of 256,000 bytes"
    )
    mirror.asked.clear()
    mirror.files["jobs.tar.gz.partab"] = JOBS[90_000:]
    fetch_jobs()
    # The server refuses the range behind the end of the first piece: so that piece is whole.
    assert mirror.asked == [
        Asked("jobs.tar.gz", "bytes=90000-"),
        Asked("jobs.tar.gz.partaa", "bytes=90000-"),
        Asked("jobs.tar.gz.partab"),
    ]
    assert (tmp_path / "jobs.tar.gz").read_bytes() == JOBS


def test_a_part_from_one_mirror_is_finished_from_another(mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path) -> None:
    note = {"url": "http://elsewhere.invalid/jobs.tar.gz", "validator": '"theirs"', "start": 0}
    (tmp_path / "jobs.tar.gz.part").write_bytes(JOBS[:5000])
    (tmp_path / "jobs.tar.gz.part.json").write_text(json.dumps(note))
    fetch_jobs()
    assert mirror.asked == [Asked("jobs.tar.gz", "bytes=5000-")]
    assert names(tmp_path) == ["jobs.tar.gz"]


@pytest.mark.parametrize("note", ["", "{", "[]", '{"start": 9}', '{"url": 1, "start": -1}', '{"surprise": 1}'])
def test_a_damaged_note_costs_nothing_but_the_note(
    note: str, mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path
) -> None:
    (tmp_path / "jobs.tar.gz.part").write_bytes(JOBS[:5])
    (tmp_path / "jobs.tar.gz.part.json").write_text(note)
    fetch_jobs()
    assert mirror.asked == [Asked("jobs.tar.gz", "bytes=5-")]
    assert names(tmp_path) == ["jobs.tar.gz"]


@pytest.mark.parametrize(("name", "status"), [("jobs.tar.gz", "kept"), ("jobs.tar.gz.part", "fetched")])
def test_bytes_that_are_all_there_and_right_cost_no_request(
    name: str, status: str, mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(JOBS)
    assert fetch_jobs() == [FileState("jobs.tar.gz", "jobs", status)]
    assert (mirror.asked, names(tmp_path)) == ([], ["jobs.tar.gz"])


def test_a_file_that_is_there_and_wrong_is_replaced(mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path) -> None:
    (tmp_path / "jobs.tar.gz").write_bytes(JOBS[:-1] + b"?")
    fetch_jobs()
    assert (mirror.asked, (tmp_path / "jobs.tar.gz").read_bytes()) == ([Asked("jobs.tar.gz")], JOBS)


def test_files_come_at_the_same_time_and_a_broken_one_costs_only_itself(mirror: Mirror, tmp_path: Path) -> None:
    # Neither request is answered before both have come.
    mirror.together = threading.Barrier(2)
    mirror.faults["jobs.tar.gz"] = [Fault(status=403)]
    with pytest.raises(FetchError) as caught:
        fetch(published(JOBS_FILE, HEADER, TASKS_FILE), tmp_path, url=mirror.url, parallel=2)
    assert caught.value.message == f"cannot fetch {mirror.url}/jobs.tar.gz: the server answered 403 Forbidden"
    assert (tmp_path / "tasks.tar.gz").read_bytes() == TASKS
    assert (tmp_path / "jobs.header").read_text() == "job_name,user\n"


def test_several_failures_are_reported_together(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files.clear()
    with pytest.raises(FetchError) as caught:
        fetch(published(JOBS_FILE, HEADER, TASKS_FILE), tmp_path, url=f"{mirror.url}/")
    assert caught.value.message == (
        "2 of 3 files were not fetched:\n"
        f"  404: nothing at {mirror.url}/jobs.tar.gz\n"
        f"  404: nothing at {mirror.url}/tasks.tar.gz"
    )


def test_a_killed_fetch_is_completed_by_the_next(mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path) -> None:
    mirror.etags["jobs.tar.gz"] = '"v1"'
    mirror.faults["jobs.tar.gz"] = [Fault(hold_after=128_000)]
    program = (
        "import sys; from pathlib import Path\n"
        "from gpulake.land.catalogue import DataSet, PublishedFile; from gpulake.land.fetch import fetch\n"
        f"fetch({published()!r}, Path(sys.argv[1]), url=sys.argv[2], report=lambda _, share: print(share, flush=True))"
    )
    arguments = [str(tmp_path), mirror.url]
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "0.5\n" in process.stdout
        process.kill()
    assert names(tmp_path) == ["jobs.tar.gz.part", "jobs.tar.gz.part.json"]
    fetch_jobs()
    assert mirror.asked == [Asked("jobs.tar.gz"), Asked("jobs.tar.gz", "bytes=128000-", '"v1"')]
    assert (names(tmp_path), (tmp_path / "jobs.tar.gz").read_bytes()) == (["jobs.tar.gz"], JOBS)


def test_two_fetches_into_one_folder_do_not_meet(mirror: Mirror, fetch_jobs: Fetch, tmp_path: Path) -> None:
    mirror.faults["jobs.tar.gz"] = [Fault(cut_after=10)]
    errors: list[GpulakeError] = []

    def second(_seconds: float) -> None:
        with pytest.raises(FetchError) as caught:
            fetch_jobs()
        errors.append(caught.value)

    fetch(published(), tmp_path, url=mirror.url, wait=second)
    assert [error.message for error in errors] == [f"another fetch is writing to {tmp_path}"]


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/jobs.tar.gz", "file:///etc/hostname"])
def test_a_redirect_leads_to_http_only(target: str, mirror: Mirror, fetch_jobs: Fetch) -> None:
    mirror.faults["jobs.tar.gz"] = [Fault(status=302, headers=(("Location", target),))]
    with pytest.raises(FetchError) as caught:
        fetch_jobs()
    assert caught.value.message == (
        f"cannot fetch {mirror.url}/jobs.tar.gz: the server answered 302 Found"
        f" - Redirection to url '{target}' is not allowed"
    )


def test_a_redirect_keeps_the_range(mirror: Mirror, fetch_jobs: Fetch) -> None:
    mirror.files["moved"] = JOBS
    away = Fault(status=302, headers=(("Location", f"{mirror.url}/moved"),))
    mirror.faults = {"jobs.tar.gz": [away, away], "moved": [Fault(cut_after=9)]}
    fetch_jobs()
    assert [asked for asked in mirror.asked if asked.path == "moved"] == [Asked("moved"), Asked("moved", "bytes=9-")]
