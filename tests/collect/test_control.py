"""Run control as its user meets it: real processes, real locks."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from gpulake.cli import root
from gpulake.collect import control, lock
from gpulake.collect.identity import identify, read_boot_id
from gpulake.collect.machine.procfs import start_ticks_of
from gpulake.collect.rundir import RunDir, read_object
from gpulake.collect.segments import read_segments
from gpulake.collect.settings import Settings, bytes_of, seconds_of, unit
from gpulake.core.errors import GpulakeError, UsageError
from gpulake.core.systemd import quoted

DEADLINE_SECONDS = 60


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A folder of runs; what still runs in it at the end is ended."""
    yield tmp_path / "runs"
    for run in control.find_runs(tmp_path / "runs"):
        holder = lock.holder_of(run.lock)
        if lock.is_held(run.lock) and holder and holder.pid != os.getpid():
            os.kill(holder.pid, signal.SIGKILL)


def collect(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["collect", *arguments])


def in_a_process(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from gpulake.cli import main; main()", "collect", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def started(base: Path, *arguments: str) -> RunDir:
    answer = collect(
        "start", "--dir", str(base), "--run-id", "r1", "--node-id", "n1", "--interval", "100ms", *arguments
    )
    assert answer.exit_code == 0, answer.output + str(answer.exception)
    return RunDir(base / "r1" / "n1")


def ended(process_id: int) -> bool:
    return start_ticks_of(process_id) is None


def pid_of(run: RunDir) -> int:
    holder = lock.holder_of(run.lock)
    assert holder
    return holder.pid


def test_a_collector_starts_in_the_background_and_stops(base: Path) -> None:
    run = started(base)
    pid = pid_of(run)
    assert run.path.stat().st_mode & 0o777 == 0o700  # command lines of processes are nobody else's
    # It answered after its first tick was on the disk.
    assert sum(len(segment.blocks) for segment in read_segments(run.segments)) > 0
    assert os.getsid(pid) != os.getsid(0)
    assert control.run_status(run).state == "running"
    answer = collect("stop", "--dir", str(base))
    assert answer.output == f"{run.path}: stopped (process {pid})\n"
    assert ended(pid)
    assert control.run_status(run).state == "stopped"
    status = read_object(run.status)
    assert status["tick"] == status["acknowledged_tick"] > 0
    assert collect("stop", "--dir", str(base)).output == f"{run.path}: not running\n"


def test_a_start_replaces_the_collector_of_the_same_run_and_goes_on_with_it(base: Path) -> None:
    first = pid_of(started(base))
    run = started(base)
    assert pid_of(run) != first
    assert ended(first)
    control.stop(run)
    assert {segment.header["session"] for segment in read_segments(run.segments)} == {1, 2}


@pytest.mark.parametrize("wrong", ["--match=(", "--interface=none-such", "--peer=a:b"])
def test_a_start_that_cannot_be_leaves_the_collector_that_runs(base: Path, wrong: str) -> None:
    run = started(base)
    refused = collect("start", "--dir", str(base), "--run-id", "r1", "--node-id", "n1", wrong)
    assert isinstance(refused.exception, UsageError)
    assert not ended(pid_of(run))
    control.stop(run)


def test_a_collector_that_does_not_listen_is_killed(base: Path) -> None:
    run = started(base)
    pid = pid_of(run)
    os.kill(pid, signal.SIGSTOP)
    answer = collect("stop", "--dir", str(base), "--grace", "100ms")
    assert answer.output == f"{run.path}: killed (process {pid})\n"
    assert control.run_status(run).state == "died"


def test_a_killed_collector_is_reported_as_dead(base: Path) -> None:
    run = started(base)
    os.kill(pid_of(run), signal.SIGKILL)
    assert lock.until(lambda: not lock.is_held(run.lock), DEADLINE_SECONDS)
    assert control.run_status(run).state == "died"
    assert "died" in collect("status", "--dir", str(base)).output


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with us, whose pid stands in a lock."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def locked_by(run: RunDir, pid: int, **changes: Any) -> None:
    run.path.mkdir(parents=True)
    ticks = start_ticks_of(pid)
    assert ticks is not None
    holder = lock.Holder(pid, ticks, read_boot_id(Path("/proc")), "h1", "host1")
    run.lock.write_text(json.dumps(replace(holder, **changes).__dict__))


def test_a_pid_without_the_lock_is_not_touched(base: Path, stranger: subprocess.Popen[bytes]) -> None:
    run = RunDir(base / "r1" / "n1")
    locked_by(run, stranger.pid)
    assert control.stop(run).pid is None
    assert stranger.poll() is None


@pytest.mark.parametrize("changes", [{"start_ticks": 1}, {"boot_id": "another", "host_name": "host2"}])
def test_a_pid_that_is_anothers_by_now_is_never_killed(
    base: Path, stranger: subprocess.Popen[bytes], changes: dict[str, Any]
) -> None:
    """The lock is held, by a process of another host or container; here its pid belongs to somebody else."""
    run = RunDir(base / "r1" / "n1")
    locked_by(run, stranger.pid, **changes)
    with run.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(GpulakeError) as refused:
            control.stop(run, grace_seconds=0.0)
    assert "--node-id" in refused.value.hint
    assert stranger.poll() is None


def test_the_name_of_a_process_does_not_hide_its_start() -> None:
    name = "x) R 1 (y"
    program = f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r}); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    ticks, own = start_ticks_of(process.pid), start_ticks_of(os.getpid())
    process.communicate(b"\n")
    assert ticks is not None
    assert own is not None
    assert ticks >= own


def test_a_second_collector_of_a_run_is_refused(base: Path) -> None:
    run = started(base)
    process = in_a_process("run", "--dir", str(base), "--run-id", "r1", "--node-id", "n1")
    output, errors = process.communicate()
    assert process.returncode == 2
    assert output == ""
    assert errors.startswith(f"error: {run.path} is being collected by process {pid_of(run)}")
    assert "hint: stop it with: gpulake collect stop" in errors


def test_a_start_that_fails_says_why(base: Path) -> None:
    run = RunDir(base / "r1" / "n1")
    run.path.mkdir(parents=True)
    run.segments.write_text("in the way")
    with pytest.raises(GpulakeError, match=r"no files in .*: File exists") as failed:
        control.start(Settings(base=base, run_id="r1", node_id="n1"))
    assert failed.value.hint == "choose another --dir, or make room"
    assert not lock.is_held(run.lock)


def test_a_collector_that_dies_silently_is_reported_with_its_log(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "collect_command", lambda: [sys.executable, "-c", "raise SystemExit('boom')"])
    with pytest.raises(GpulakeError, match="the collector ended at its start") as failed:
        control.start(Settings(base=base, run_id="r1", node_id="n1"))
    assert failed.value.hint.endswith(": boom")


@pytest.mark.parametrize(
    ("name", "interval"), [("SIGTERM", "100ms"), ("SIGINT", "100ms"), ("SIGHUP", "100ms"), ("SIGTERM", "60d")]
)
def test_a_signal_ends_the_foreground_with_everything_acknowledged(base: Path, name: str, interval: str) -> None:
    run = RunDir(base / "r1" / "n1")
    process = in_a_process("run", "--dir", str(base), "--run-id", "r1", "--node-id", "n1", "--interval", interval)
    assert lock.until(lambda: read_object(run.status).get("tick", 0) >= 1, DEADLINE_SECONDS)
    process.send_signal(signal.Signals[name])
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    assert output == f"{run.path}\n"
    status = read_object(run.status)
    assert status["state"] == "stopped"
    assert status["tick"] == status["acknowledged_tick"]


def test_a_run_says_what_it_knows_of_its_node(base: Path) -> None:
    answer = collect(
        "run", "--dir", str(base), "--run-id", "r1", "--node-id", "n1", "--stage", "edge", "--duration", "0.1",
        "--interval", "100ms", "--cpu-freq-mhz", "2400", "--interface", "lo",
    )  # fmt: skip
    assert answer.exit_code == 0, answer.output
    run = RunDir(base / "r1" / "n1")
    identity = identify(run_id="r1", node_id="n1", stage="edge", cpu_freq_mhz=2400)
    assert json.loads(run.node_meta.read_text()) == {
        "run_id": "r1",
        "node": "n1",
        "stage": "edge",
        "host": identity.host_name,
        "iface": "lo",
        "cpu_cores": identity.cpu_cores,
        "mem_mb": identity.memory_bytes // 2**20,
        "cpu_model": identity.cpu_model,
        "cpu_freq_mhz": 2400,
        "host_id": identity.host_id,
    }
    assert json.loads(run.link_meta.read_text()) == {"iface": "lo", "BW_bps": 0, "PR_s": None}
    meta = json.loads(run.run_meta.read_text())
    assert (meta["run_id"], meta["node_id"], meta["options"]["interval_seconds"]) == ("r1", "n1", 0.1)


def test_what_others_say_of_a_run_stays(base: Path) -> None:
    run = RunDir(base / "r1" / "n1")
    run.path.mkdir(parents=True)
    run.run_meta.write_text('{"rate": 50, "run_id": "other"}')
    assert collect("run", "--dir", str(base), "--run-id", "r1", "--node-id", "n1", "--duration", "0").exit_code == 0
    meta = json.loads(run.run_meta.read_text())
    assert (meta["rate"], meta["run_id"]) == (50, "r1")


def test_status_lists_all_runs_and_machines_read_the_same(base: Path) -> None:
    for run_id in ("r1", "r2"):
        assert (
            collect("run", "--dir", str(base), "--run-id", run_id, "--node-id", "n1", "--duration", "0").exit_code == 0
        )
    rows = json.loads(collect("status", "--dir", str(base), "--json").output)
    assert [(row["run_id"], row["node_id"], row["state"]) for row in rows] == [
        ("r2", "n1", "stopped"),
        ("r1", "n1", "stopped"),
    ]
    table = collect("status", "--dir", str(base), "--run-id", "r2").output.splitlines()
    assert table[0].split()[:4] == ["run", "node", "state", "pid"]
    assert table[1].split()[:3] == ["r2", "n1", "stopped"]


def test_a_run_of_another_user_is_listed_and_not_stopped(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "r1" / "n1").mkdir(parents=True)
    (base / "r1" / "n1" / "collector.lock").write_text("")

    def refused(path: Path) -> bool:  # root may open everything
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(lock, "is_held", refused)
    assert json.loads(collect("status", "--dir", str(base), "--json").output) == [
        {"run_dir": str(base / "r1" / "n1"), "state": "hidden"}
    ]
    for verb in ("stop", "start"):
        failed = collect(verb, "--dir", str(base), "--run-id", "r1", "--node-id", "n1").exception
        assert isinstance(failed, GpulakeError)
        assert (failed.message, failed.hint) == (
            f"{base / 'r1' / 'n1'} is another user's",
            "ask as the user who started its collector, or as root",
        )
    monkeypatch.undo()


def test_where_nothing_runs_status_says_how_to_begin(base: Path) -> None:
    assert collect("status", "--dir", str(base)).output == f"no run under {base}; begin one: gpulake collect start\n"
    assert collect("status", "--dir", str(base), "--json").output == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["run", "--interval", "50ms"], "the interval is 0.05 s", "the shortest is 100ms"),
        (["run", "--interval", "often"], "'often' is not a time", "write it like 200ms, 1s, 0.5, 2min or 1h"),
        (["run", "--cap", "much"], "'much' is not a size", "write it like 1GiB, 500MB or 1048576"),
        (["run", "--cap", "10k"], "the cap is 10240 bytes", "the least is 1MiB"),
        (["run", "--run-id", "../up"], "the run id is '../up'", "use letters, digits, '.', '_' and '-'"),
        (["start", "--node-id", "a/b"], "the node id is 'a/b'", "use letters, digits, '.', '_' and '-'"),
        (["unit", "--peer", "a:b"], "the peer is 'a:b'", "give an address, a name, or either with a port: 10.0.0.2:22"),
        (
            ["unit", "--match", "("],
            "the process match '(' is no regular expression: missing ), unterminated subpattern at position 0",
            "escape its special signs",
        ),
        (["unit", "--dir", "runs"], "the folder of a service is 'runs'", "give --dir as an absolute path"),
    ],
)
def test_bad_input_is_an_error_with_a_hint(base: Path, arguments: list[str], message: str, hint: str) -> None:
    place = [] if arguments[0] == "unit" else ["--dir", str(base)]
    answer = collect(*arguments, *place)
    assert isinstance(answer.exception, UsageError)
    assert (answer.exception.message, answer.exception.hint) == (message, hint)
    assert not base.exists()


def test_unknown_sources_and_runs_are_errors(base: Path) -> None:
    for arguments in (["run", "--sources", "hst"], ["stop"], ["status", "--run-id", "none"]):
        answer = collect(*arguments, "--dir", str(base))
        assert isinstance(answer.exception, UsageError)
        assert answer.exception.hint
    started(base)
    unknown = collect("stop", "--run-id", "none", "--dir", str(base)).exception
    assert isinstance(unknown, UsageError)
    assert unknown.message == f"no run 'none' under {base}"


def test_times_and_sizes_are_read_as_people_write_them() -> None:
    assert [seconds_of(text) for text in ("200ms", "0.5", "1s", "2min", "3 m", "1h", "1D")] == [
        0.2, 0.5, 1, 120, 180, 3_600, 86_400
    ]  # fmt: skip
    assert [bytes_of(text) for text in ("1GiB", "500MB", "1048576", "2k", "1.5 MiB")] == [
        1 << 30, 500_000_000, 1 << 20, 2_048, 3 << 19
    ]  # fmt: skip


WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(
    st.builds(
        Settings,
        run_id=WORDS,
        match=WORDS,
        peer=WORDS,
        cgroup=WORDS,
        has_refresh=st.booleans(),
        interval_seconds=st.sampled_from([0.1, 0.25, 1.0, 3600.0]),
        duration_seconds=st.sampled_from([0.0, 1.0, 90.5, 1_234_567.0, math.inf]),
        cap_bytes=st.integers(1, 1 << 50),
        pid_dir=st.sampled_from([None, Path("/run/pids"), Path("-x")]),
    )
)
def test_the_background_is_asked_for_just_what_the_user_asked(settings: Settings) -> None:
    command = root.commands.get("run") or __import__("gpulake.cli.collect.run", fromlist=["command"]).command
    parsed = command.make_context("run", settings.arguments()).params
    assert Settings(**{name: parsed[name] for name in Settings.__dataclass_fields__}) == settings


def test_a_unit_runs_the_same_command_as_nobody_in_particular(tmp_path: Path) -> None:
    settings = Settings(base=Path("/var/lib/gpulake"), run_id="service", match='a b|50%$HOME"\\')
    text = unit(settings, ["/usr/bin/python3", "/opt/collect.pyz"])
    lines = text.splitlines()
    assert (
        "ExecStart=/usr/bin/python3 /opt/collect.pyz run --dir=/var/lib/gpulake --run-id=service "
        '"--match=a b|50%%$$HOME\\"\\\\" --interval=1s --cap=1073741824'
    ) in lines
    assert {"DynamicUser=yes", "StateDirectory=gpulake", "NoNewPrivileges=yes", "ProtectSystem=strict"} <= set(lines)
    assert {"Restart=always", "LimitNOFILE=65536", "Nice=10"} <= set(lines)
    assert not any(line.startswith(("User=", "ProtectProc=", "PrivateDevices=", "DeviceAllow=")) for line in lines)
    if not (verify := shutil.which("systemd-analyze")):
        pytest.skip("no systemd-analyze here to check the unit with")
    path = tmp_path / "gpulake-collect.service"
    path.write_text(unit(settings, [sys.executable]))
    done = subprocess.run([verify, "verify", "--man=no", str(path)], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_unit_of_a_user_may_write_where_the_runs_are() -> None:
    text = unit(Settings(base=Path("/data/my runs")), ["/home/ann/venv/bin/python"], user="ann")
    assert {"User=ann", 'ReadWritePaths="/data/my runs"', "ProtectHome=read-only"} <= set(text.splitlines())
    with pytest.raises(UsageError, match="cannot write to /data/runs"):
        unit(Settings(base=Path("/data/runs")), ["python"])
    with pytest.raises(UsageError, match="the user is"):
        unit(Settings(base=Path("/data/runs")), ["python"], user="ann\nExecStartPre=/bin/evil")


@given(WORDS)
def test_a_quoted_word_stays_one_word_on_one_line(word: str) -> None:
    text = quoted(word)
    assert text.isprintable() or not word.isprintable()
    assert "\n" not in text
    assert text == word or (text[0] == text[-1] == '"' and '"' not in text[1:-1].replace("\\\\", "").replace('\\"', ""))
    assert text.count("%") % 2 == 0
