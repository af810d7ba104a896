"""gpulake serve, as a process: where it listens, how it stops, and why it does not start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, LakeError, UsageError

PROGRAM = (sys.executable, "-c", "from gpulake.cli import main; main()", "serve")
TOKEN = "0123456789abcdef"


@contextmanager
def serving(lake: Path, *arguments: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Its address and its process, which does not outlive the test."""
    command = [*PROGRAM, "--lake", str(lake), "--port", "0", *arguments]
    own = {**os.environ, **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def fetched(url: str, body: object = None, **headers: str) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    headers |= {"Content-Type": "application/json"} if data else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def refused(*arguments: str) -> GpulakeError:
    found = CliRunner().invoke(root, ["serve", *arguments]).exception
    assert isinstance(found, GpulakeError), found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_stops_without_a_word(shared_lake: Config, number: signal.Signals) -> None:
    with serving(shared_lake.lake) as (url, process):
        assert url.startswith("http://127.0.0.1:")
        status, page = fetched(f"{url}/explore")
        assert (status, "<h1>Explore</h1>" in page) == (200, True)
        process.send_signal(number)
        _, reported = process.communicate(timeout=60)
        assert (process.returncode, reported) == (0, "stop it with Ctrl-C\n")


@pytest.mark.slow
def test_on_an_address_of_others_it_lets_in_who_has_a_token(shared_lake: Config) -> None:
    with serving(shared_lake.lake, "--host", "0.0.0.0", GPULAKE_SERVE_TOKENS=f"ann:{TOKEN}") as (url, _):
        assert url.startswith("http://localhost:")
        own = f"http://127.0.0.1:{url.rpartition(':')[2]}/api/v1"
        assert fetched(own)[0] == 401
        assert fetched(own, Authorization=f"Bearer {TOKEN}")[0] == 200
        assert fetched(own, Authorization=f"Bearer {TOKEN}", Host="evil.example")[0] == 421


@pytest.mark.slow
def test_a_query_that_would_take_the_machine_does_not(shared_lake: Config, tmp_path: Path) -> None:
    settings = tmp_path / "gpulake.toml"
    settings.write_text("[serve]\nsql = true\nsql_seconds = 5\nsql_memory = '200MB'\n")
    with serving(shared_lake.lake, GPULAKE_CONFIG=str(settings)) as (url, process):
        for query in ("SELECT repeat('x', 4294967295)", "SELECT range(4000000000)"):
            status, reported = fetched(f"{url}/api/v1/sql", {"query": query})
            assert (status, "needs more memory than 200 MB" in reported) == (400, True), reported
        assert fetched(f"{url}/api/v1/sql", {"query": "SELECT 1 AS one"})[0] == 200
        waiting = psutil.Process(process.pid).children()
        process.terminate()
        process.communicate(timeout=60)
        assert [child for child in waiting if child.is_running()] == []


def test_where_others_could_look_it_does_not_start(shared_lake: Config) -> None:
    for host in ("0.0.0.0", "::"):
        error = refused("--lake", str(shared_lake.lake), "--host", host)
        assert (error.exit_code, error.message) == (2, f"on {host} everybody on the network could look at the lake")
        assert "GPULAKE_SERVE_TOKENS" in error.hint


@pytest.mark.slow
def test_a_port_in_use_is_an_error(shared_lake: Config) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = refused("--lake", str(shared_lake.lake), "--port", str(port))
    assert (type(error), error.message) == (UsageError, f"port {port} is taken")
    assert "--port" in error.hint


def test_without_a_lake_there_is_nothing_to_serve(tmp_path: Path) -> None:
    error = refused("--lake", str(tmp_path / "none"))
    assert (type(error), error.exit_code) == (LakeError, 4)
    assert "gpulake demo" in error.hint


def test_an_address_of_no_interface_is_an_error(shared_lake: Config) -> None:
    error = refused("--lake", str(shared_lake.lake), "--host", "256.0.0.1.")
    assert (error.exit_code, error.message.startswith("no address for --host '256.0.0.1.'")) == (2, True)


def test_without_the_extra_it_says_what_to_install(shared_lake: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    error = refused("--lake", str(shared_lake.lake))
    assert (error.exit_code, error.message) == (2, "uvicorn is not installed")
    assert error.hint == "pip install 'gpulake[serve]'"


def test_a_token_that_is_too_short_is_an_error(shared_lake: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULAKE_SERVE_TOKENS", "ann:short")
    error = refused("--lake", str(shared_lake.lake))
    assert (error.exit_code, error.message) == (2, "the token of ann is too short or has odd characters")
