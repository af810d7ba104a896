"""gpulake run, as an operator uses it: real processes, a real lake, and what happens when one of them dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError
from gpulake.core.service_state import LOCK, read_state
from gpulake.flow import Flow
from pull.scripted import Scripted, scripted

pytestmark = pytest.mark.slow
COLUMNS = "timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], power.draw [W], temperature.gpu"
SNAPSHOT = (
    f"{COLUMNS}\n2026/05/04 10:0{{minute}}:00.000, 0, GPU-1, NVIDIA H100 80GB HBM3, 97 %, 70000 MiB, 650.00 W, 61\n"
)
MOST_SECONDS = 120.0


class Service:
    def __init__(self, folder: Path, more: str = "", *words: str, dashboard: str = "") -> None:
        self.folder, self.lake, self.inbox = folder, folder / "lake", folder / "inbox"
        self.inbox.mkdir(exist_ok=True)
        (folder / "gpulake.toml").write_text(
            f'lake = "lake"\nthreads = 1\n[run]\nfolders = ["{self.inbox}"]\nfolder_seconds = 0.1\n'
            f'build_seconds = 0.1\ndrain_seconds = 60\ndashboard = "{dashboard}"\n{more}'
        )
        self._log = (folder / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gpulake", "run", *words],
            cwd=folder,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def until(self, is_so: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """How it stands once that is so."""
        deadline = time.monotonic() + MOST_SECONDS
        while True:
            if list(self.lake.glob("service*.json")):
                found = read_state(self.lake)
                if is_so({part["name"]: part for part in found["parts"]}):
                    return found
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(MOST_SECONDS)
        self._log.close()
        return code

    def rows(self, table: str) -> int:
        with Flow(Config(lake=self.lake, threads=1)).lake.open().reading() as reader:
            (row,) = reader.query(f"SELECT count(*) AS n FROM {table}").to_pylist()
        return int(row["n"])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def one(more: str = "", *words: str) -> Service:
        started.append(Service(tmp_path, more, *words))
        return started[-1]

    yield one
    for service in started:
        if service.process.poll() is None:
            service.stop(signal.SIGKILL)


def drop(service: Service, minute: int) -> None:
    (service.inbox / f"gpu-001.{minute}.csv").write_text(SNAPSHOT.format(minute=minute))


def has_built(times: int) -> Callable[[dict[str, Any]], object]:
    return lambda parts: parts["build"]["runs"] >= times and parts["build"]["state"] == "waiting"


def test_what_appears_in_a_folder_lands_and_is_built_and_a_stop_is_clean(start: Callable[..., Service]) -> None:
    service = start()
    drop(service, 1)
    service.until(has_built(1))
    drop(service, 2)
    found = service.until(has_built(2))
    (land, build) = found["parts"]
    assert (land["name"], land["rows_landed"], land["error"], build["failures"]) == ("land", 2, "", 0)
    assert found["is_running"]
    assert service.stop() == 0
    ended = read_state(service.lake)
    assert [part["state"] for part in ended["parts"]] == ["stopped", "stopped"]
    assert not ended["is_running"]
    assert service.rows("silver_gpu_samples") == 2


def test_a_standby_takes_over_when_the_other_is_killed(start: Callable[..., Service]) -> None:
    leader = start()
    drop(leader, 1)
    leader.until(has_built(1))
    standby = start("", "--standby")
    while "standby: another gpulake run works on the lake" not in (standby.folder / "log").read_text():
        assert standby.process.poll() is None
        time.sleep(0.02)
    assert read_state(leader.lake)["pid"] == leader.process.pid
    leader.stop(signal.SIGKILL)
    drop(standby, 2)
    found = standby.until(lambda _: read_state(standby.lake)["pid"] == standby.process.pid)
    assert found["is_running"]
    # Its first build may begin before the new file has landed.
    standby.until(lambda _: standby.rows("silver_gpu_samples") == 2)
    assert standby.stop() == 0


def test_a_file_that_cannot_be_read_costs_only_itself(start: Callable[..., Service]) -> None:
    service = start()
    (service.inbox / "notes.csv").write_bytes(b"")
    drop(service, 1)
    found = service.until(has_built(1))
    assert found["parts"][0]["rows_landed"] == 1
    assert "notes.csv is empty" in found["parts"][0]["error"]
    runner = CliRunner().invoke(root, ["run", "status", "--lake", str(service.lake)])
    assert (runner.exit_code, "notes.csv is empty" in runner.output) == (0, True)


def test_a_source_that_fails_is_tried_again_and_the_others_go_on(start: Callable[..., Service]) -> None:
    service = start('[run.sources.gone]\npull = ["slurm", "--bin", "/nowhere"]\nevery_seconds = 0.1\n')
    drop(service, 1)
    service.until(has_built(1))
    found = service.until(lambda parts: parts["pull gone"]["failures"] >= 2)
    (part,) = [one for one in found["parts"] if one["name"] == "pull gone"]
    assert part["state"] in ("failing", "working")
    assert "scontrol" in part["error"]
    said = CliRunner().invoke(root, ["run", "status", "--lake", str(service.lake)])
    assert isinstance(said.exception, GpulakeError)
    assert said.exception.message == "failing: pull gone"


def test_a_part_that_takes_more_than_its_budget_is_ended_and_the_others_go_on(start: Callable[..., Service]) -> None:
    push = '[run.sources.push]\ningest = ["http", "--listen", "127.0.0.1:0"]\n'
    service = start(f"[run.budgets.ingest]\nmemory_mebibytes = 1\n{push}")
    found = service.until(lambda parts: "ingest push" in parts and parts["ingest push"]["failures"] >= 2)
    (part,) = [one for one in found["parts"] if one["name"] == "ingest push"]
    assert re.fullmatch(r"ended at \d+ MiB: 1 of \[run.budgets.ingest\]", part["error"])
    assert part["memory_mebibytes"] > 1
    drop(service, 1)
    service.until(has_built(1))
    assert service.stop() == 0
    assert service.rows("silver_gpu_samples") == 1


def test_killed_at_once_it_leaves_no_process_and_the_next_one_has_every_row_once(start: Callable[..., Service]) -> None:
    service = start()
    for minute in range(1, 6):
        drop(service, minute)
    service.until(lambda parts: parts["land"]["state"] == "working")
    service.stop(signal.SIGKILL)
    deadline = time.monotonic() + MOST_SECONDS
    while children_of(service.lake):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second = start()
    second.until(lambda parts: parts["build"]["runs"] >= 1 and parts["build"]["state"] == "waiting")
    second.until(lambda _: second.rows("silver_gpu_samples") == 5)
    assert second.stop() == 0
    assert second.rows("bronze_nvidia_smi") == second.rows("silver_gpu_samples") == 5


def children_of(lake: Path) -> list[str]:
    """Command lines of processes that work on this lake."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(lake) in words:
            found.append(" ".join(words))
    return found


def test_a_second_service_on_the_same_lake_is_refused(start: Callable[..., Service], tmp_path: Path) -> None:
    service = start()
    service.until(lambda parts: "build" in parts)
    second = subprocess.run(
        [sys.executable, "-P", "-m", "gpulake", "run"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert second.returncode == 4
    assert second.stderr.splitlines()[-2:] == [
        "error: another gpulake run works on lake",
        "hint: see it with: gpulake run status",
    ]


def test_a_pull_from_a_live_source_is_built_and_its_time_is_told(start: Callable[..., Service]) -> None:
    labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": "GPU-1", "instance": "gpu-001:9400"}
    now = datetime.now(UTC)
    with scripted(Scripted([(labels, lambda _: "97")], now=now)) as server:
        words = json.dumps(["prometheus", "--url", server.url, "--since", "10m", "--step", "60s"])
        service = start(f"[run.sources.site]\npull = {words}\nevery_seconds = 3600\n")
        found = service.until(has_built(1))
    (pull,) = [part for part in found["parts"] if part["name"] == "pull site"]
    assert (pull["error"], pull["failures"], pull["rows_landed"]) == ("", 0, service.rows("silver_gpu_samples"))
    assert pull["rows_landed"] in (10, 11)  # a minute may have begun since
    assert now.isoformat() <= pull["covered_until"].replace(" ", "T") <= datetime.now(UTC).isoformat()


def test_the_lock_is_no_part_of_what_a_reader_needs(tmp_path: Path) -> None:
    (tmp_path / "service.json").write_text('{"parts": [], "changed_at": "2026-01-01T00:00:00"}')
    assert read_state(tmp_path)["is_running"] is False
    assert not (tmp_path / LOCK).exists()
