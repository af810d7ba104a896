"""gpulake collect exec: the command runs as it would alone, and is traced, whatever becomes of it or of us."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from gpulake.collect.adapters.exec import cpus_of
from gpulake.collect.tracing.invocation import parse_traceparent
from gpulake.core.errors import UsageError
from gpulake.core.tables import cctf_tables

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def wrapped(run: Path, *command: str, options: tuple[str, ...] = ()) -> list[str]:
    start = [sys.executable, "-c", "from gpulake.cli import main; main()", "collect", "exec", "--run-dir", str(run)]
    return [*start, *options, "--", *command]


def run(
    folder: Path, *command: str, options: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("TRACEPARENT", "TRACE_ID", "TS_ENQUEUE")}
    return subprocess.run(
        wrapped(folder, *command, options=options),
        env=clean | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def rows(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [json.loads(text) for path in sorted(folder.glob(pattern)) for text in path.read_text().splitlines()]


def test_a_command_is_traced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "r1" / "n1"
    before_ms = time.time_ns() // 1_000_000
    program = "import sys,os; print(os.getpid(), os.environ['TRACEPARENT'], os.environ['GPULAKE_TRACE']); sys.exit(3)"
    options = ("--module", "train", "--app", "demo", "--stage", "edge", "--input", "a", "--output", "b")
    done = run(folder, sys.executable, "-c", program, options=options)
    after_ms = time.time_ns() // 1_000_000
    pid, traceparent, trace = done.stdout.split()
    (row,) = rows(folder, "events.exec.*.jsonl")
    context = parse_traceparent(traceparent)
    assert context is not None
    assert trace == context.trace_id
    assert list(row) == list(cctf_tables()["invocations"].column_names)
    assert before_ms <= row["ts_enqueue"] == row["ts_start"] <= row["ts_end"] <= after_ms + 1
    assert row["service_time_ms"] == row["rt_ms"] == row["ts_end"] - row["ts_start"]
    assert 0 < row["cpu_time_ms"] < 60_000
    assert row["bytes_in"] > 1000  # an interpreter reads its library
    assert row["bytes_out"] >= len(done.stdout)
    assert row["proc_id"].endswith(f"-{pid}")
    reported = {
        name: row[name] for name in ("trace_id", "span_id", "parent_id", "module_id", "instance_id", "node", "stage")
    }
    assert reported == {
        "trace_id": context.trace_id,
        "span_id": context.parent_id,
        "parent_id": None,
        "module_id": "train",
        "instance_id": f"pid-{pid}",
        "node": "n1",
        "stage": "edge",
    }
    reported = {name: row[name] for name in ("method", "path", "status", "pid", "input", "output")}
    name = Path(sys.executable).name
    assert reported == {"method": "CLI", "path": name, "status": 3, "pid": int(pid), "input": "a", "output": "b"}
    events = rows(folder, "placement_events.jsonl")
    assert [(one["event"], one["ts"], one["pid"], one["app_id"]) for one in events] == [
        ("start", row["ts_start"], int(pid), "demo"),
        ("stop", row["ts_end"], int(pid), "demo"),
    ]
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize(("redirected", "is_noted"), [("stdout", True), ("stderr", True), ("neither", False)])
def test_the_file_that_the_output_goes_to_is_noted(tmp_path: Path, redirected: str, is_noted: bool) -> None:
    log = tmp_path / "slurm-7.out"
    with log.open("w") as file:
        subprocess.run(
            wrapped(tmp_path / "n1", "true"),
            stdout=file if redirected == "stdout" else subprocess.PIPE,
            stderr=file if redirected == "stderr" else subprocess.PIPE,
            check=True,
            timeout=120,
        )
    (row,) = rows(tmp_path / "n1", "events.exec.*.jsonl")
    assert row["output"] == (str(log) if is_noted else None)


def test_the_pid_and_the_start_are_on_the_disk_before_the_command_runs(tmp_path: Path) -> None:
    program = """
import os, sys
for name in (f"pids/{os.getpid()}", "placement_events.jsonl"):
    print(open(f"{sys.argv[1]}/{name}").read())
"""
    done = run(tmp_path / "run", sys.executable, "-c", program, str(tmp_path / "run"))
    (row,) = rows(tmp_path / "run", "events.*")
    assert done.stdout.splitlines()[0] == row["proc_id"]
    assert '"event":"start"' in done.stdout
    assert list((tmp_path / "run" / "pids").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("no-such-program-here",), 127),
        (("/etc/passwd",), 126),
        (("/",), 126),
        (("sh", "-c", "kill -9 $$"), 137),
        (("sh", "-c", "kill -SEGV $$"), 139),
        (("sh", "-c", "exit 255"), 255),
        (("true",), 0),
    ],
)
def test_the_exit_code_is_the_commands(tmp_path: Path, command: tuple[str, ...], code: int) -> None:
    done = run(tmp_path, *command)
    (row,) = rows(tmp_path, "events.*")
    assert (done.returncode, row["status"]) == (code, code)
    assert [one["event"] for one in rows(tmp_path, "placement_events.jsonl")] == ["start", "stop"]
    is_not_run = code in (126, 127)
    assert done.stderr.startswith(f"error: cannot run {command[0]!r}: ") is is_not_run


def test_arguments_reach_the_command_as_they_are(tmp_path: Path) -> None:
    arguments = ["--run-dir", "a b", "$HOME", "`id`", "-h", "--", "é\n"]
    done = run(tmp_path, sys.executable, "-c", "import sys,json; print(json.dumps(sys.argv[1:]))", *arguments)
    assert json.loads(done.stdout) == arguments


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_signals_are_handed_on(tmp_path: Path, number: signal.Signals) -> None:
    # It counts what it gets, and ends with 40 more than that: one signal is one signal.
    program = f"""
import signal, sys, time
got = []
signal.signal({int(number)}, lambda *_: got.append(1))
print("ready", flush=True)
while not got: time.sleep(0.005)
sys.exit(40 + len(got))
"""
    wrapper = subprocess.Popen(wrapped(tmp_path, sys.executable, "-c", program), stdout=subprocess.PIPE)
    try:
        assert wrapper.stdout is not None
        assert wrapper.stdout.readline() == b"ready\n"
        wrapper.send_signal(number)
        wrapper.communicate(timeout=60)
    finally:
        wrapper.kill()
    assert wrapper.returncode == 41
    assert rows(tmp_path, "events.*")[0]["status"] == 41


def test_a_key_of_the_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    program = """
import signal, sys
got = []
signal.signal(signal.SIGINT, lambda *_: (got.append(1), print("got", flush=True)))
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(40 + len(got)))
print("ready", flush=True)
while True: signal.pause()
"""
    terminal, side = os.openpty()
    wrapper = subprocess.Popen(
        wrapped(tmp_path, sys.executable, "-c", program),
        stdin=side,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one call into the kernel
    )
    try:
        assert wrapper.stdout is not None
        assert wrapper.stdout.readline() == b"ready\n"
        os.write(terminal, b"\x03")
        assert wrapper.stdout.readline() == b"got\n"
        wrapper.send_signal(signal.SIGUSR1)
        wrapper.communicate(timeout=60)
    finally:
        wrapper.kill()
        os.close(terminal)
        os.close(side)
    assert wrapper.returncode == 41


def test_a_command_killed_by_a_signal_has_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    wrapper = subprocess.Popen(wrapped(tmp_path, "sh", "-c", "echo ready; exec sleep 600"), stdout=subprocess.PIPE)
    try:
        assert wrapper.stdout is not None
        assert wrapper.stdout.readline() == b"ready\n"
        wrapper.send_signal(signal.SIGTERM)
        wrapper.communicate(timeout=60)
    finally:
        wrapper.kill()
    assert wrapper.returncode == 128 + signal.SIGTERM


def test_if_we_are_killed_the_start_is_there_and_the_end_is_missing(tmp_path: Path) -> None:
    wrapper = subprocess.Popen(wrapped(tmp_path, "sh", "-c", "echo $$; exec sleep 600"), stdout=subprocess.PIPE)
    assert wrapper.stdout is not None
    with wrapper.stdout:
        child = int(wrapper.stdout.readline())
        wrapper.kill()
        wrapper.wait()
    try:
        (event,) = rows(tmp_path, "placement_events.jsonl")
        assert (event["event"], event["pid"]) == ("start", child)
        (begun,) = rows(tmp_path, "events.*")  # open: it has no status, and its start is its end
        assert (begun["pid"], begun["status"], begun["service_time_ms"]) == (child, None, 0)
        assert begun["ts_start"] == begun["ts_end"] == event["ts"]
        assert (tmp_path / "pids" / str(child)).exists()
        os.kill(child, 0)  # the command itself goes on
    finally:
        os.kill(child, signal.SIGKILL)


def test_cpu_of_children_counts(tmp_path: Path) -> None:
    # A child that works until it has used 200 ms of CPU.
    program = "import time\nwhile time.process_time() < 0.2: pass"
    run(tmp_path, "sh", "-c", '"$0" -c "$1"; true', sys.executable, program)
    assert rows(tmp_path, "events.*")[0]["cpu_time_ms"] >= 200


@pytest.mark.parametrize(
    ("given", "trace_id", "parent_id"),
    [
        ({"TRACEPARENT": PARENT}, PARENT[3:35], PARENT[36:52]),
        ({"TRACE_ID": "night-7"}, "night-7", None),
        ({"TRACE_ID": "-"}, None, None),
        ({"TRACEPARENT": PARENT.replace("00-", "ff-", 1)}, None, None),
    ],
)
def test_the_trace_is_taken_or_made_and_handed_on(
    tmp_path: Path, given: dict[str, str], trace_id: str | None, parent_id: str | None
) -> None:
    # The command is another of us: what it calls is of the same trace, caused by the one before.
    inner = wrapped(tmp_path / "inner", "true")
    run(tmp_path / "outer", *inner, environment=given)
    (outer,), (called,) = rows(tmp_path / "outer", "events.*"), rows(tmp_path / "inner", "events.*")
    assert (trace_id or outer["trace_id"], parent_id) == (outer["trace_id"], outer["parent_id"])
    assert (called["trace_id"], called["parent_id"]) == (outer["trace_id"], outer["span_id"])


def test_the_time_in_the_queue_is_from_when_it_was_asked_for(tmp_path: Path) -> None:
    asked_ms = time.time_ns() // 1_000_000 - 5000
    run(tmp_path / "a", "true", environment={"TS_ENQUEUE": str(asked_ms)})
    run(tmp_path / "b", "true", options=("--ts-enqueue", str(asked_ms)))
    for folder in ("a", "b"):
        (row,) = rows(tmp_path / folder, "events.*")
        assert row["ts_enqueue"] == asked_ms
        assert row["queue_time_ms"] == row["ts_start"] - asked_ms >= 5000
        assert row["rt_ms"] == row["queue_time_ms"] + row["service_time_ms"]


@pytest.mark.parametrize("word", ["soon", "-5", "9" * 14])
def test_a_wrong_time_of_asking_does_not_keep_it_from_running(tmp_path: Path, word: str) -> None:
    done = run(tmp_path, "true", environment={"TS_ENQUEUE": word})
    assert (done.returncode, rows(tmp_path, "events.*")[0]["queue_time_ms"]) == (0, 0.0)


def test_a_trace_that_cannot_be_written_costs_the_trace_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file" / "run", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert [text.partition(":")[0] for text in done.stderr.splitlines()] == ["gpulake", "gpulake"]
    assert "the start is not traced" in done.stderr


def test_it_runs_on_the_cpus_that_were_asked_for(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    program = "import os; print(sorted(os.sched_getaffinity(0)))"
    done = run(tmp_path, sys.executable, "-c", program, options=("--cpus", str(cpu)))
    assert done.stdout == f"[{cpu}]\n"


def test_python_leaves_no_signals_ignored_behind(tmp_path: Path) -> None:
    command = ("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    done = run(tmp_path, *command)
    alone = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == alone.stdout


def test_a_parent_that_ignores_the_end_of_its_children_costs_nothing(tmp_path: Path) -> None:
    ignore = "import os,signal,sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    reported = "import signal,sys; print(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN); sys.exit(3)"
    command = [sys.executable, "-c", ignore, *wrapped(tmp_path / "n1", sys.executable, "-c", reported)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    statuses = [row["status"] for row in rows(tmp_path / "n1", "events.exec.*.jsonl")]
    assert (done.returncode, done.stdout, statuses) == (3, "True\n", [3])


def test_cpus_are_written_as_everywhere() -> None:
    here = set(range(8))
    assert cpus_of("0-2,7", here) == {0, 1, 2, 7}
    assert cpus_of("", here) == frozenset()
    for wrong in ("8", "a", "1-", "3-1"):
        with pytest.raises(UsageError):
            cpus_of(wrong, here)


def test_a_run_must_be_named(tmp_path: Path) -> None:
    start = [sys.executable, "-c", "from gpulake.cli import main; main()", "collect", "exec"]
    none = subprocess.run([*start, "--", "true"], capture_output=True, text=True, check=False)
    assert (none.returncode, none.stderr) == (2, "error: which run is it?\nhint: give --run-dir, or --run-id\n")
    named = ["--run-id", "r1", "--dir", str(tmp_path), "--node-id", "n7"]
    assert subprocess.run([*start, *named, "--", "true"], check=False).returncode == 0
    assert rows(tmp_path / "r1" / "n7", "events.*")[0]["node"] == "n7"
