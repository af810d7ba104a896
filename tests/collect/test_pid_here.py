"""Processes of this machine: the test's own, and children that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collect.hosts import wait_until
from gpulake.collect.identity import read_boot_id
from gpulake.collect.machine.process_table import TICKS_PER_SECOND
from gpulake.collect.rows import Process, ProcessEnd, ProcessSample
from gpulake.collect.sources import Machine
from gpulake.collect.sources.pid import Pid
from gpulake.core.clock import SystemClock


def pids(rows: Iterable[Process | ProcessSample | ProcessEnd]) -> list[int]:
    return [row.pid for row in rows if isinstance(row, Process)]


@contextmanager
def started(*command: str, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **settings) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def named(tmp_path: Path) -> Machine:
    """This machine, of which only processes are looked at that are named in a folder."""
    (tmp_path / "pids").mkdir()
    return Machine(pid_dir=tmp_path / "pids", refresh_seconds=0.001, interval_seconds=0.001)


def name(machine: Machine, pid: int) -> None:
    assert machine.pid_dir is not None
    (machine.pid_dir / str(pid)).touch()


def test_a_real_child_is_seen_from_its_birth_to_its_end(named: Machine) -> None:
    clock = SystemClock()
    before = clock.elapsed()
    with started("sleep", "60") as child:
        wait_until(lambda: Path(f"/proc/{child.pid}/comm").read_text() == "sleep\n")
        name(named, child.pid)
        source = Pid(named)
        seen, counters = source.read(clock)
        assert isinstance(seen, Process)
        assert isinstance(counters, ProcessSample)
        assert (seen.pid, seen.ppid, seen.comm) == (child.pid, os.getpid(), "sleep")
        assert seen.proc_id == f"{read_boot_id(Path('/proc'))}-{seen.start_ticks}-{child.pid}"
        assert before - 0.1 < seen.start_ticks / TICKS_PER_SECOND < clock.elapsed() + 0.1
        assert counters.rss_bytes > 0
        assert counters.threads == 1
        child.kill()
        child.wait()
        assert list(source.read(clock)) == [ProcessEnd(child.pid)]


def test_the_children_of_a_real_shell_are_followed_and_stay_when_it_is_gone(named: Machine) -> None:
    with started("sh", "-c", "sleep 60 & echo $!; wait") as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        try:
            name(named, shell.pid)
            source = Pid(named)
            assert sorted(pids(source.read(SystemClock()))) == sorted([shell.pid, child])
            shell.kill()
            shell.wait()
            ends = [row for row in source.read(SystemClock()) if isinstance(row, ProcessEnd)]
            assert ends == [ProcessEnd(shell.pid)]
        finally:
            os.kill(child, 9)


def test_a_real_process_that_becomes_another_is_found(tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    machine = Machine(match=f"^sleep.60.0717$|^{marker}", refresh_seconds=0.001, interval_seconds=0.001)
    with started("sh", "-c", "read line; exec sleep 60.0717") as child:
        source = Pid(machine)
        assert child.pid not in pids(source.read(SystemClock()))
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
        wait_until(lambda: Path(f"/proc/{child.pid}/comm").read_text() == "sleep\n")
        assert child.pid in pids(source.read(SystemClock()))


def test_the_cpu_and_the_writes_of_a_real_process_are_counted(named: Machine, tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "sys.stdin.readline()\n"
        "while time.process_time() < 0.2: pass\n"
        "with open(sys.argv[1], 'wb') as file: file.write(bytes(1 << 20)); file.flush(); os.fsync(file.fileno())\n"
        "print('done', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with started(sys.executable, "-c", code, str(tmp_path / "file")) as child:
        name(named, child.pid)
        source = Pid(named)
        source.read(SystemClock())
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
        child.stdout.readline()
        (after,) = [row for row in source.read(SystemClock()) if isinstance(row, ProcessSample)]
        assert (after.utime_ticks + after.stime_ticks) / TICKS_PER_SECOND >= 0.19
        assert after.written_bytes_total is None or after.written_bytes_total >= 1 << 20
        assert list(source.read(SystemClock())) == []


def test_this_process_is_not_left_out() -> None:
    rows = list(Pid(Machine()).read(SystemClock()))
    assert os.getpid() in pids(rows)
    assert len({row.proc_id for row in rows if isinstance(row, Process)}) == len(pids(rows))


def test_the_limit_of_open_files_is_raised_for_it() -> None:
    code = (
        "import resource; from gpulake.collect.machine.procfs import raise_limit\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "assert raise_limit() == hard == resource.getrlimit(resource.RLIMIT_NOFILE)[0]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


ASKER = """
import sys
from gpulake.collect.sources import Machine
from gpulake.collect.sources.pid import Pid
from gpulake.core.clock import SystemClock
print([row.comm for row in Pid(Machine(match=sys.argv[1])).read(SystemClock()) if hasattr(row, "comm")])
"""


def test_a_collector_does_not_find_itself_by_what_it_was_asked_to_match(tmp_path: Path) -> None:
    word = f"of-{tmp_path.name}-{os.getpid()}"
    found = subprocess.run([sys.executable, "-c", ASKER, word], check=True, capture_output=True, text=True)
    assert found.stdout == "[]\n"
