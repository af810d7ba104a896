"""The flow on a real Prefect server of this run alone: what it does, and what one sees there."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from gpulake.core.config import Config
from gpulake.lake import Lake
from gpulake.synth import write_trace

# Prefect and the dashboard pin different versions of FastAPI, so Prefect has an environment of its own.
PROGRAMS = Path(__file__).parents[2] / ".venv-prefect" / "bin"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PROGRAMS / "prefect").exists(), reason="Prefect's environment is not here: scripts/install prefect"
    ),
]
# Straight to the loopback, whatever proxy this machine is told to use.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# A run whose plan has every machine twice, which a data test forbids.
DOUBLED = """
import sys
from dataclasses import replace
from pathlib import Path
from gpulake.model import plan as plans
from gpulake.schedule import refresh

def doubled(model):
    twice = f"SELECT * FROM ({model.sql}) UNION ALL SELECT * FROM ({model.sql})"
    return replace(model, sql=twice) if model.name == "silver_machines" else model

shipped = plans.shipped_plan()
plans.shipped_plan = lambda: replace(shipped, models=tuple(map(doubled, shipped.models)))
trace, lake = map(Path, sys.argv[1:])
refresh.run_once([trace], lake, lake / "report.html")
"""
HOSTILE = "<img src=x>[go](javascript:alert(1))**_`|"


def poll(what: str, look: Callable[[], Any], seconds: float = 300) -> Any:
    """The first answer that holds something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"no {what} in {seconds} seconds")


@contextmanager
def started(command: list[str | Path], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own; it and its children are gone afterwards, also when the test fails."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=environment, cwd=log.parent, start_new_session=True
        )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)


@dataclass(frozen=True)
class Server:
    url: str
    folder: Path
    environment: dict[str, str]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, {"Content-Type": "application/json"})
        with OPENER.open(request, timeout=60) as answer:
            return json.load(answer)

    def is_up(self) -> bool:
        try:
            return bool(self.ask("health"))
        except OSError:
            return False

    def gpulake(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [PROGRAMS / "gpulake", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment, cwd=self.folder, check=False, timeout=120
        )

    def flow_runs(self, lake: Path) -> list[dict[str, Any]]:
        runs = self.ask("flow_runs/filter", {})
        return [run for run in runs if run["parameters"]["lake"] == str(lake)]

    def task_runs(self, lake: Path) -> dict[str, dict[str, Any]]:
        """By the task's name; Prefect adds three letters to it. Its recorder is a little behind."""
        ids = [run["id"] for run in self.flow_runs(lake)]
        found = self.ask("task_runs/filter", {"flow_runs": {"id": {"any_": ids}}}) if ids else []
        return {run["name"].rpartition("-")[0]: run for run in found}

    def artefacts(self, lake: Path) -> dict[str, dict[str, Any]]:
        ids = [run["id"] for run in self.flow_runs(lake)]
        found = self.ask("artifacts/filter", {"flow_runs": {"id": {"any_": ids}}})
        # One without a key is Prefect's own note of how a run failed.
        return {artefact["key"]: artefact for artefact in found if artefact["key"]}

    def logs(self, lake: Path) -> list[str]:
        ids = [run["id"] for run in self.flow_runs(lake)]
        lines = self.ask("logs/filter", {"logs": {"flow_run_id": {"any_": ids}}, "sort": "TIMESTAMP_ASC"})
        return [line["message"] for line in lines]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}/api"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "GPULAKE_"))}
    settings = {
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_URL": url,
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "NO_PROXY": "127.0.0.1",
    }
    server = Server(url, folder, kept | settings)
    command: list[str | Path] = [PROGRAMS / "prefect", "server", "start", "--host", "127.0.0.1", "--port", port]
    with started([*command, "--no-ui"], folder / "server.log", server.environment):
        poll("answer of the server", server.is_up)
        yield server


@pytest.fixture(scope="module")
def hostile_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trace in which every user id is an attempt at markup."""
    folder = tmp_path_factory.mktemp("trace")
    write_trace(folder, jobs=1_000)
    for table, column in (("pai_job_table", 2), ("pai_group_tag_table", 1)):
        file = folder / f"{table}.csv"
        rows = [line.split(",") for line in file.read_text().splitlines()]
        for row in rows:
            row[column] = f"{HOSTILE}{row[column]}"
        file.write_text("".join(f"{','.join(row)}\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def lake(server: Server, hostile_trace: Path) -> Path:
    """A lake that the flow made, in a folder whose name is an attempt at markup too."""
    lake = server.folder / "lake [x](y) <b>"
    done = server.gpulake("prefect", "run", hostile_trace, "--lake", lake)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("What was found\n")
    return lake


def rows(lake: Path, query: str) -> list[dict[str, Any]]:
    with Lake(Config(lake=lake)).open().reading() as reader:
        found: list[dict[str, Any]] = reader.query(query).to_pylist()
        return found


def text_of(markdown: str) -> tuple[set[str], str]:
    """The kinds of things that a reader would get, and their text."""
    inline = [token for token in MarkdownIt("commonmark").parse(markdown) if token.type == "inline"]
    children = [child for token in inline for child in token.children or ()]
    return {child.type for child in children}, "".join(child.content for child in children)


def test_the_server_shows_a_completed_run_and_its_steps(server: Server, lake: Path) -> None:
    (run,) = server.flow_runs(lake)
    assert (run["state_type"], run["state_name"]) == ("COMPLETED", "Completed")
    assert server.ask(f"flows/{run['flow_id']}")["name"] == "gpu_telemetry_full_refresh"
    tasks = poll("task runs", lambda: tasks if len(tasks := server.task_runs(lake)) == 3 else None)
    assert {name: task["state_name"] for name, task in tasks.items()} == {
        "land": "Completed",
        "build": "Completed",
        "report": "Completed",
    }


def test_each_step_leaves_a_row_that_leads_to_its_page(server: Server, lake: Path) -> None:
    (run,) = server.flow_runs(lake)
    assert rows(lake, "SELECT run_id, step, status FROM runs") == [
        {"run_id": run["id"], "step": step, "status": "succeeded"}
        for step in ("land", "build", "test", "score", "publish", "incidents", "report")
    ]


def test_the_logs_name_what_landed_what_was_tested_and_what_was_found(server: Server, lake: Path) -> None:
    (landed,) = rows(lake, "SELECT count(*) AS n, sum(rows_landed) AS l, sum(rows_quarantined) AS q FROM landings")
    (tested,) = rows(lake, "SELECT count(*) AS n, count(*) FILTER (status = 'pass') AS p FROM test_results")
    (found,) = rows(lake, "SELECT build_id, (SELECT count(*) FROM findings) AS n FROM build_info")
    logs = poll("logs", lambda: server.logs(lake))
    count = landed["n"]
    assert f"landed files={count} new_files={count} rows_landed={landed['l']} rows_quarantined={landed['q']}" in logs
    assert f"tested tests={tested['n']} pass={tested['p']} warn=0 fail={tested['n'] - tested['p']}" in logs
    assert f"built build_id={found['build_id']} is_new=True findings={found['n']}" in logs


def test_the_findings_are_there_as_text_whatever_a_user_is_called(server: Server, lake: Path) -> None:
    found = rows(lake, "SELECT headline, detail FROM findings ORDER BY rank")
    assert any(HOSTILE in row["headline"] for row in found)
    kinds, text = text_of(server.artefacts(lake)["gpulake-findings"]["data"])
    assert kinds <= {"text", "text_special", "strong_open", "strong_close", "html_inline"}
    # Our own line break is the one tag.
    assert text == "What was found" + "".join(f"{row['headline']}<br>{row['detail']}" for row in found)


def test_the_data_tests_are_there_as_a_table(server: Server, lake: Path) -> None:
    expected = rows(lake, 'SELECT status, name, "table", "column", failures FROM test_results')
    shown = json.loads(server.artefacts(lake)["gpulake-data-tests"]["data"])
    assert sorted(shown, key=str) == sorted(expected, key=str)
    assert len(shown) > 50


def test_the_place_of_the_report_is_there_as_text(server: Server, lake: Path) -> None:
    kinds, text = text_of(server.artefacts(lake)["gpulake-report"]["data"])
    assert kinds <= {"text", "text_special"}
    assert text == f"The report is at {lake / 'report.html'}"
    assert (lake / "report.html").stat().st_size > 0


def test_a_bad_path_fails_the_run_once_and_names_the_step_and_the_way_out(server: Server, tmp_path: Path) -> None:
    lake, nowhere = tmp_path / "lake", tmp_path / "nowhere"
    done = server.gpulake("prefect", "run", nowhere, "--lake", lake)
    message = f"step land failed: no file or folder at {nowhere}"
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr.endswith(f"error: {message}\nhint: check the path\n")
    (run,) = server.flow_runs(lake)
    assert run["state_type"] == "FAILED"
    assert run["state"]["message"].endswith(f"{message}; hint: check the path")
    tasks = poll("task run", lambda: server.task_runs(lake))
    assert {name: (task["state_name"], task["run_count"]) for name, task in tasks.items()} == {"land": ("Failed", 1)}


def test_a_failed_data_test_stops_the_run_and_is_shown_first(
    server: Server, hostile_trace: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    command: list[str | Path] = [PROGRAMS / "python", "-c", DOUBLED, hostile_trace, lake]
    with started(command, tmp_path / "run.log", server.environment) as process:
        assert process.wait(60) == 1
    (run,) = server.flow_runs(lake)
    assert run["state_type"] == "FAILED"
    assert "step build failed: " in run["state"]["message"]
    assert "hint: " in run["state"]["message"]
    artefacts = server.artefacts(lake)
    assert list(artefacts) == ["gpulake-data-tests"]
    shown = json.loads(artefacts["gpulake-data-tests"]["data"])
    assert (shown[0]["status"], shown[-1]["status"]) == ("fail", "pass")
    assert "unique_silver_machines_machine_key" in {test["name"] for test in shown if test["status"] == "fail"}


def test_a_lake_that_is_busy_at_first_is_tried_again(server: Server, hostile_trace: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    Lake(Config(lake=lake)).create()
    command: list[str | Path] = [PROGRAMS / "gpulake", "prefect", "run", hostile_trace, "--lake", lake]
    with (lake / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with started(command, tmp_path / "run.log", server.environment) as process:
            journal = lake / "runs.jsonl"
            poll("first attempt", lambda: journal.exists() and '"failed"' in journal.read_text())
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert process.wait(60) == 0, (tmp_path / "run.log").read_text()
    (run,) = server.flow_runs(lake)
    assert run["state_name"] == "Completed"
    tasks = poll("task runs", lambda: tasks if len(tasks := server.task_runs(lake)) == 3 else None)
    assert {name: task["run_count"] for name, task in tasks.items()} == {"land": 2, "build": 1, "report": 1}
    attempts = rows(lake, "SELECT status FROM runs WHERE step = 'land' ORDER BY started_at")
    assert [attempt["status"] for attempt in attempts] == ["failed", "succeeded"]


def test_a_deployment_keeps_its_schedule_and_runs_when_somebody_asks(
    server: Server, hostile_trace: Path, tmp_path: Path
) -> None:
    named = "deployments/name/gpu_telemetry_full_refresh/at-six"
    schedule = ["--cron", "0 6 * * *", "--name", "at-six"]
    with serving(server, tmp_path, "--path", str(hostile_trace), *schedule) as process:
        kept = poll("deployment", lambda: existing(server, named))
        assert [(each["schedule"]["cron"], each["active"]) for each in kept["schedules"]] == [("0 6 * * *", True)]
        assert kept["parameters"] == {
            "paths": [str(hostile_trace)],
            "lake": str(tmp_path / "lake"),
            "report_path": str(tmp_path / "lake" / "report.html"),
        }
        assert not kept["paused"]
        server.ask(f"deployments/{kept['id']}/create_flow_run", {})
        poll("completed run", lambda: completed(server, tmp_path / "lake"))
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    # Nobody is there to run what would be due.
    assert server.ask(named)["paused"]


def test_a_served_flow_runs_when_it_is_due(server: Server, hostile_trace: Path, tmp_path: Path) -> None:
    with serving(server, tmp_path, "--path", str(hostile_trace), "--every", "5", "--name", "often"):
        run = poll("completed run", lambda: completed(server, tmp_path / "lake"))[0]
    assert run["auto_scheduled"]
    assert (tmp_path / "lake" / "report.html").exists()


def completed(server: Server, lake: Path) -> list[dict[str, Any]]:
    return [run for run in server.flow_runs(lake) if run["state_name"] == "Completed"]


def serving(server: Server, folder: Path, *arguments: str) -> Any:
    command: list[str | Path] = [PROGRAMS / "gpulake", "prefect", "serve", "--lake", folder / "lake", *arguments]
    return started(command, folder / "serve.log", server.environment)


def existing(server: Server, path: str) -> Any:
    try:
        return server.ask(path)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
