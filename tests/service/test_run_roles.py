"""Roles of the service as processes of their own on one lake: they meet in the lake, and nowhere else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from bench.scoring.servers import free_port
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.core.errors import GpulakeError, LakeBusyError
from gpulake.core.service_state import read_state, the_only_one
from service.test_run import MOST_SECONDS, Service, children_of, drop, has_built

pytestmark = pytest.mark.slow
Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Service] = []

    def one(*words: str, dashboard: str = "") -> Service:
        started.append(Service(tmp_path, "", *words, dashboard=dashboard))
        return started[-1]

    yield one
    for service in started:
        if service.process.poll() is None:
            service.stop(signal.SIGKILL)


def status(service: Service) -> GpulakeError | None:
    error = CliRunner().invoke(root, ["run", "status", "--lake", str(service.lake)]).exception
    assert error is None or isinstance(error, GpulakeError)
    return error


def test_what_one_process_lands_another_one_builds_and_a_third_one_serves(start: Start) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    ingest, build, serve = (start(role, dashboard=address) for role in ("ingest", "build", "serve"))
    drop(ingest, 1)
    build.until(lambda parts: "build" in parts and has_built(1)(parts))
    drop(ingest, 2)
    deadline = time.monotonic() + MOST_SECONDS
    while ingest.rows("silver_gpu_samples") != 2:
        assert time.monotonic() < deadline, (read_state(ingest.lake), (ingest.folder / "log").read_text())
        time.sleep(0.1)
    found = read_state(ingest.lake)
    assert [one["role"] for one in found["roles"]] == ["ingest", "build", "serve"]
    assert [part["name"] for part in found["parts"]] == ["land", "build", "dashboard"]
    assert len({one["pid"] for one in found["roles"]}) == 3
    assert status(ingest) is None
    while True:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
            assert page.status == 200
            break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # Nothing lands: nothing is built again and again.
    build.until(has_built(1))
    time.sleep(3)
    runs = {part["name"]: part["runs"] for part in read_state(build.lake)["parts"]}["build"]
    time.sleep(5)
    assert {part["name"]: part["runs"] for part in read_state(build.lake)["parts"]}["build"] == runs
    assert build.stop() == 0
    error = status(ingest)
    assert error is not None
    assert error.message.startswith("gpulake run build is not running; it last wrote at ")
    assert error.hint == "start it: gpulake run build"
    assert (ingest.stop(), serve.stop()) == (0, 0)


def test_a_standby_of_a_role_takes_over_when_the_other_is_killed_and_no_row_is_lost_or_twice(start: Start) -> None:
    leader = start("ingest")
    drop(leader, 1)
    leader.until(lambda parts: parts["land"]["rows_landed"] == 1)
    standby = start("ingest", "--standby")
    while "standby: another gpulake run ingest works on the lake" not in (standby.folder / "log").read_text():
        assert standby.process.poll() is None
        time.sleep(0.02)
    for minute in range(2, 6):
        drop(leader, minute)
    leader.until(lambda parts: parts["land"]["state"] == "working" or parts["land"]["rows_landed"] > 1)
    leader.stop(signal.SIGKILL)
    standby.until(lambda _: read_state(standby.lake)["roles"][0]["pid"] == standby.process.pid)
    deadline = time.monotonic() + MOST_SECONDS
    while standby.rows("bronze_nvidia_smi") < 5:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert standby.stop() == 0
    assert standby.rows("bronze_nvidia_smi") == 5
    assert not children_of(standby.lake)


def test_the_whole_service_and_one_of_its_roles_exclude_each_other(start: Start, tmp_path: Path) -> None:
    service = start("ingest")
    service.until(lambda parts: "land" in parts)
    words = [sys.executable, "-P", "-m", "gpulake", "run"]
    second = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (second.returncode, second.stderr.splitlines()[-2]) == (
        4,
        "error: another gpulake run ingest works on lake",
    )
    assert service.stop() == 0


def test_a_role_leaves_nothing_of_a_service_that_it_cannot_run_beside(tmp_path: Path) -> None:
    (tmp_path / "service.json").write_text(json.dumps({"parts": []}))
    with the_only_one(tmp_path, "build"):
        assert not (tmp_path / "service.json").exists()
        (tmp_path / "service-build.json").write_text(json.dumps({"parts": []}))
        with the_only_one(tmp_path, "ingest"), pytest.raises(LakeBusyError), the_only_one(tmp_path):
            pass
    with the_only_one(tmp_path), pytest.raises(LakeBusyError), the_only_one(tmp_path, "build"):
        pass
    assert not (tmp_path / "service-build.json").exists()


def test_a_role_needs_what_it_works_on_and_its_unit_names_it(start: Start, tmp_path: Path) -> None:
    service = start("serve")
    assert service.process.wait(MOST_SECONDS) == service.stop() == 2
    assert "error: run.dashboard is empty" in (tmp_path / "log").read_text()
    words = ["run", "unit", "--lake", str(tmp_path / "lake"), "--user", "gpulake", "--role", "build"]
    unit = CliRunner().invoke(root, [*words, "--config", str(tmp_path / "gpulake.toml")])
    assert f"gpulake run build --lake {tmp_path / 'lake'}" in unit.output
