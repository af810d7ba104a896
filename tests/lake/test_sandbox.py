"""Queries of others: whatever they do, they do it to a process of their own, within its limits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest

from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, LakeError, UsageError
from gpulake.core.serve_settings import Serve
from gpulake.lake import Lake, sandbox
from gpulake.lake.sandbox import Sandbox, size

SECONDS, MEMORY = 2.0, 400_000_000


def arguments(child: psutil.Process) -> list[str]:
    """For a moment within exec a process has none."""
    deadline = time.monotonic() + 60
    while not (found := child.cmdline()):
        assert time.monotonic() < deadline
    return list(found)


@pytest.fixture
def spares() -> Callable[[], list[psutil.Process]]:
    """Processes that wait for a query of this test; tests of others may have left some."""
    before = set(psutil.Process().children())

    def found() -> list[psutil.Process]:
        fresh = [child for child in psutil.Process().children() if child not in before]
        return [child for child in fresh if '"work": "main"' in arguments(child)[-1]]

    return found


Spares = Callable[[], list[psutil.Process]]


@pytest.fixture
def asked(shared_lake: Config) -> Iterator[Sandbox]:
    limits = Serve(sql=True, sql_seconds=SECONDS, sql_memory=f"{MEMORY // 10**6}MB", sql_rows=1_000)
    one = Sandbox(replace(shared_lake, serve=limits))
    yield one
    one.close()


def reported(one: Sandbox, query: str) -> GpulakeError:
    with pytest.raises(GpulakeError) as error:
        one.ask(query)
    return error.value


@contextmanager
def watched() -> Iterator[list[int]]:
    """The most memory that each look found in a process of a query."""
    peaks, is_over = [0], threading.Event()

    def look() -> None:
        while not is_over.wait(0.005):
            for child in psutil.Process().children():
                try:
                    # Between fork and exec it is a copy of this process.
                    if child.cmdline() != psutil.Process().cmdline():
                        peaks.append(child.memory_info().rss)
                except psutil.Error:
                    continue

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peaks
    finally:
        is_over.set()
        watcher.join()


@pytest.mark.slow
def test_the_answer_is_json_of_what_is_published(asked: Sandbox, shared_lake: Config) -> None:
    with Lake(shared_lake).open().reading() as reader:
        expected = reader.query("SELECT count(*) AS n FROM silver_jobs").to_pylist()
    assert json.loads(asked.ask("SELECT count(*) AS n FROM silver_jobs")) == {
        "columns": [{"name": "n", "type": "integer"}],
        "rows": [[row["n"]] for row in expected],
        "is_cut": False,
    }


@pytest.mark.slow
def test_each_query_has_a_process_of_its_own(spares: Spares, asked: Sandbox) -> None:
    seen = set()
    for number in range(3):
        assert json.loads(asked.ask(f"SELECT {number}"))["rows"] == [[number]]
        (spare,) = spares()
        seen.add(spare.pid)
    assert len(seen) == 3
    asked.close()
    assert spares() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000))",
        "SELECT count(*) FROM range(100000000) a, range(1000000) b",
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
    ],
)
def test_what_does_not_end_is_killed_at_its_limit(asked: Sandbox, query: str) -> None:
    asked.ask("SELECT 1")
    begun = time.monotonic()
    error = reported(asked, query)
    assert (type(error), error.message) == (UsageError, f"the query took more than {SECONDS:g} seconds")
    assert SECONDS <= time.monotonic() - begun < SECONDS + 60  # to start, on a machine that is busy
    assert json.loads(asked.ask("SELECT 1"))["rows"] == [[1]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "SELECT repeat('x', 1000000000)",
        "SELECT range(100000000)",
        "SELECT list(range) FROM range(1000000000)",
        "SELECT string_agg(repeat('x', 100000), ',') FROM range(1000000)",
    ],
)
def test_memory_stays_within_a_fifth_of_its_limit(asked: Sandbox, query: str) -> None:
    with watched() as peaks:
        error = reported(asked, query)
    assert type(error) is UsageError
    # Once in hundreds of times the engine crashes on an allocation that fails, which costs no more than its process.
    assert error.message in ("the query needs more memory than 400 MB", "the query crashed the engine (SIGSEGV)")
    assert "more memory" in f"{error.message} {error.hint}"
    assert max(peaks) < 1.2 * MEMORY
    assert json.loads(asked.ask("SELECT 1"))["rows"] == [[1]]


@pytest.mark.slow
@pytest.mark.parametrize("program", ["os.abort()", "os.kill(os.getpid(), 11)"])
def test_a_crash_is_reported_and_the_next_query_is_answered(
    asked: Sandbox, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "JUDGE_SECONDS", 0.1)
        patch.setattr(sandbox, "PROGRAM", f"import os, sys\nsys.stdin.read()\nos.write(1, b'ready\\n')\n{program}")
        error = reported(asked, "SELECT 1")
        asked.close()
    assert (type(error), error.message.startswith("the query crashed the engine (SIG")) == (UsageError, True)
    assert json.loads(asked.ask("SELECT 1"))["rows"] == [[1]]


@pytest.mark.parametrize(
    ("written", "kind", "reported_first"),
    [
        ("b'ready\\nerror\\n{'", UsageError, "the process of the query answered with what is no answer"),
        ("b'ready\\nerror\\n' + b'[' * 100000", UsageError, "the process of the query answered with what is no answer"),
        ("b'ready\\nrows\\n' + b'x' * 70_000_000", UsageError, "the answer has more than"),
        ("b'ready\\nerror\\n{\"error\": \"' + b'x' * 10**6 + b'\"}'", UsageError, "the query crashed the engine"),
        ("b'nonsense'", LakeError, "the process of a query ended with status 0 before it began"),
    ],
)
def test_what_a_broken_process_writes_is_not_believed(
    asked: Sandbox, monkeypatch: pytest.MonkeyPatch, written: str, kind: type[GpulakeError], reported_first: str
) -> None:
    program = f"import sys\nsys.stdin.read()\nsys.stdout.buffer.write({written})"
    monkeypatch.setattr(sandbox, "JUDGE_SECONDS", 0.1)
    monkeypatch.setattr(sandbox, "PROGRAM", program)
    error = reported(asked, "SELECT 1")
    assert (type(error), error.message[: len(reported_first)]) == (kind, reported_first)


def test_a_process_that_does_not_end_is_ended(asked: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "JUDGE_SECONDS", 0.1)
    monkeypatch.setattr(sandbox, "END_SECONDS", 0.1)
    program = "import os, sys, time\nsys.stdin.read()\nos.write(1, b'ready\\nrows\\n')\nos.close(1)\ntime.sleep(600)"
    monkeypatch.setattr(sandbox, "PROGRAM", program)
    assert reported(asked, "SELECT 1").message == "the query crashed the engine (SIGKILL)"


@pytest.mark.slow
def test_an_error_is_short_though_the_engine_repeats_a_value(asked: Sandbox) -> None:
    error = reported(asked, "SELECT repeat('x', 1000000)::INT")
    assert (error.message[:22], len(error.message)) == ("the query failed: Conv", 4_000)


def test_a_spare_that_died_is_replaced(spares: Spares, asked: Sandbox) -> None:
    asked.prepare()
    (spare,) = spares()
    spare.kill()
    psutil.wait_procs([spare])
    assert json.loads(asked.ask("SELECT 1"))["rows"] == [[1]]


def test_what_is_refused_costs_no_process(spares: Spares, asked: Sandbox) -> None:
    asked.prepare()
    before = spares()
    for query in ("SELEC 1", "FROM pandas_scan(NULL)", "SET threads = 1"):
        assert isinstance(reported(asked, query), UsageError)
    assert spares() == before


@pytest.mark.slow
def test_without_a_judge_a_query_is_judged_where_it_runs(asked: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "JUDGE_SECONDS", 0.0)
    assert reported(asked, "SELECT getenv('HOME')").message == "the function getenv() is not allowed in a query"
    assert json.loads(asked.ask("SELECT 1"))["rows"] == [[1]]


def test_the_environment_of_the_server_is_not_the_query_s(
    spares: Spares, asked: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULAKE_SERVE_TOKENS", "ann:0123456789abcdef")
    asked.prepare()
    (spare,) = spares()
    assert set(spare.environ()) == {*sandbox.ENVIRONMENT, "PYTHONPATH"}


def test_sizes_are_bytes() -> None:
    assert [size(words) for words in ("1KB", "1.5 MiB", "2GB", "1TiB")] == [1_000, 1_572_864, 2 * 10**9, 2**40]
