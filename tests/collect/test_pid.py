"""Processes on recorded hosts, where every field is ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.hosts import BOOT, KERNEL_THREAD, RecordedHost, at
from gpulake.collect.machine.process_table import TICKS_PER_SECOND, parse_stat
from gpulake.collect.machine.procfs import Descriptors
from gpulake.collect.rows import Process, ProcessEnd, ProcessSample
from gpulake.collect.sources.pid import IO_TICKS, OWNER_TICKS, Pid
from gpulake.core.errors import UsageError

PAGE = os.sysconf("SC_PAGE_SIZE")
OLD = 1000.0  # seconds since boot, when processes of tick 1000 are no longer young
JOB = "0::/system.slice/slurmstepd.scope/job_123/step_0\n"


@pytest.fixture
def host(tmp_path: Path) -> RecordedHost:
    host = RecordedHost(tmp_path)
    host.boot()
    return host


def process(pid: int, **fields: Any) -> Process:
    row = Process(f"{BOOT}-1000-{pid}", pid, 1, "python", 1000, "unattributed", "", "")
    return row._replace(**fields)


def sample(pid: int, **fields: Any) -> ProcessSample:
    return ProcessSample(pid, 0, 0, 10 * PAGE, 1, 0, 0)._replace(**fields)


def read(source: Pid, seconds: float = OLD) -> list[Process | ProcessSample | ProcessEnd]:
    return list(source.read(at(seconds)))


def pids(rows: list[Process | ProcessSample | ProcessEnd]) -> list[int]:
    return [row.pid for row in rows if isinstance(row, Process)]


def test_a_process_is_reported_once_and_then_only_what_changes(host: RecordedHost) -> None:
    host.process(7, cgroup=JOB, environ="SLURM_JOB_GPUS=0,1\0", threads=3, io=(4096, 0))
    host.process(8)
    source = Pid(host.machine())
    job = process(7, owner_kind="slurm", owner_id="123", given_gpus="0,1")
    first = sample(7, threads=3, read_bytes_total=4096)
    assert read(source) == [job, first, process(8), sample(8)]
    assert read(source, OLD + 1) == []
    host.process(7, cgroup=JOB, threads=3, utime=5, stime=2, rss_pages=20, io=(8192, 512))
    assert read(source, OLD + 2) == [ProcessSample(7, 5, 2, 20 * PAGE, 3, 8192, 512)]
    # Its state is another, but nothing of what we keep is.
    host.process(7, cgroup=JOB, threads=3, utime=5, stime=2, rss_pages=20, io=(8192, 512), state="R")
    assert read(source, OLD + 3) == []


def test_threads_of_the_kernel_and_the_dead_are_no_programs(host: RecordedHost) -> None:
    host.process(2, "kthreadd", ppid=0, flags=KERNEL_THREAD, cmdline="")
    host.process(3, "defunct", state="Z", cmdline="")
    host.process(4, "nameless", cmdline="")
    host.process(5)
    assert pids(read(Pid(host.machine()))) == [5]
    assert pids(read(Pid(host.machine(match="kthread|defunct|python")))) == [5]


@pytest.mark.parametrize("comm", ["a b", "a) S 1 (b", "(((", ")", "", "\n 1 2 3"])
def test_a_name_is_data_whatever_it_holds(host: RecordedHost, comm: str) -> None:
    host.process(7, comm)
    assert read(Pid(host.machine())) == [process(7, comm=comm), sample(7)]


@given(st.binary(max_size=15), st.integers(0, 2**40), st.integers(1, 2**40))
def test_every_name_and_number_is_read_back(comm: bytes, utime: int, start_ticks: int) -> None:
    text = b"7 (" + comm + b") S 1 7 7 0 -1 64 0 0 0 0 %d 2 0 0 20 0 3 0 %d 99 8 1\n" % (utime, start_ticks)
    stat = parse_stat(text)
    assert stat is not None
    assert (stat.comm, stat.ppid, stat.utime_ticks, stat.stime_ticks) == (comm, 1, utime, 2)
    assert (stat.threads, stat.start_ticks, stat.rss_pages, stat.is_program) == (3, start_ticks, 8, True)


def test_a_pid_that_is_anothers_by_now_ends_one_process_and_begins_the_next(host: RecordedHost) -> None:
    host.process(7, utime=50)
    source = Pid(host.machine())
    read(source)
    host.process(7, "ffmpeg", start_ticks=2000)
    successor = process(7, proc_id=f"{BOOT}-2000-7", start_ticks=2000, comm="ffmpeg")
    assert read(source, OLD + 1) == [ProcessEnd(7), successor, sample(7)]


def test_a_process_that_is_gone_ends_once_and_a_new_one_is_found(host: RecordedHost) -> None:
    host.process(7)
    host.process(8)
    source = Pid(host.machine())
    read(source)
    host.end(7)
    host.process(9)
    assert read(source, OLD + 1) == [ProcessEnd(7), process(9), sample(9)]
    assert read(source, OLD + 2) == []


def test_a_process_is_reported_again_when_its_name_changes(host: RecordedHost) -> None:
    host.process(7, "bash")
    source = Pid(host.machine())
    read(source)
    host.process(7, "python", environ="CUDA_VISIBLE_DEVICES=3\0")
    assert read(source, OLD + 1) == [process(7, given_gpus="3")]


def test_a_young_process_is_reported_again_when_it_was_moved_to_its_job(host: RecordedHost) -> None:
    host.process(7)
    source = Pid(host.machine())
    start = 1000 / TICKS_PER_SECOND
    read(source, start)
    host.process(7, utime=1, cgroup=JOB, environ="CUDA_VISIBLE_DEVICES=3\0")
    job = process(7, owner_kind="slurm", owner_id="123", given_gpus="3")
    assert read(source, start + 1) == [job, sample(7, utime_ticks=1)]


def test_a_process_that_is_moved_later_is_reported_within_a_minute(host: RecordedHost) -> None:
    host.process(7)
    source = Pid(host.machine())
    read(source)
    host.write(host.proc / "7/cgroup", JOB)
    rows = [row for second in range(OWNER_TICKS) for row in read(source, OLD + second)]
    assert rows == [process(7, owner_kind="slurm", owner_id="123")]


def test_the_io_of_a_process_that_seems_to_sleep_is_reported_within_ten_ticks(host: RecordedHost) -> None:
    host.process(7)
    source = Pid(host.machine())
    read(source)
    host.process(7, io=(0, 4096))
    assert [row for second in range(IO_TICKS) for row in read(source, OLD + second)] == [
        sample(7, written_bytes_total=4096)
    ]


def test_what_may_not_be_read_is_none_and_said_once(host: RecordedHost) -> None:
    class Refused(Descriptors):
        def open(self, path: str) -> int:
            if path.endswith("/io"):
                raise PermissionError(13, "Permission denied")
            return super().open(path)

    host.process(7)
    host.process(8)
    source = Pid(host.machine(), descriptors=Refused())
    unknown = {"read_bytes_total": None, "written_bytes_total": None}
    assert read(source) == [process(7), sample(7, **unknown), process(8), sample(8, **unknown)]
    for second in range(IO_TICKS):
        assert read(source, OLD + second) == []
    assert host.said == ["pid: no permission to read the I/O of some processes, pid 7 the first"]


@pytest.mark.parametrize("descriptors", [0, 1, 3])
def test_where_files_cannot_be_kept_open_the_rows_are_the_same(host: RecordedHost, descriptors: int) -> None:
    def all_rows(source: Pid) -> list[list[Process | ProcessSample | ProcessEnd]]:
        for pid in (7, 8, 9):
            host.process(pid)
        first = read(source)
        host.process(7, utime=3)
        host.end(8)
        host.process(9, "ffmpeg", start_ticks=2000)
        return [first, read(source, OLD + 1), read(source, OLD + 2)]

    assert all_rows(Pid(host.machine(), descriptors=Descriptors(descriptors))) == all_rows(Pid(host.machine()))


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_descriptors_are_given_back_when_processes_end(host: RecordedHost) -> None:
    source = Pid(host.machine())
    host.process(1)
    read(source)
    before = open_files()
    for pid in range(100, 200):
        host.process(pid)
    assert len(read(source, OLD + 1)) == 200
    assert open_files() == before + 200
    for pid in range(100, 200):
        host.end(pid)
    assert len(read(source, OLD + 2)) == 100
    assert open_files() == before


def test_processes_are_chosen_by_name_or_command_line_in_any_case(host: RecordedHost) -> None:
    host.process(7, "Python3", cmdline="/usr/bin/x\0")
    host.process(8, "worker", cmdline="/opt/PYTHON\0train.py\0")
    host.process(9, "bash", cmdline="bash\0")
    host.process(10, "bash", cmdline="bash\0-c\0python\0")
    assert pids(read(Pid(host.machine(match="^python|/python")))) == [7, 8]


def test_a_match_that_is_no_expression_is_the_users_error(host: RecordedHost) -> None:
    with pytest.raises(UsageError) as caught:
        Pid(host.machine(match="python["))
    assert caught.value.message.startswith("the process match 'python[' is no regular expression")


def test_processes_are_chosen_by_a_folder_of_pids_that_may_fill_later(host: RecordedHost, tmp_path: Path) -> None:
    folder = tmp_path / "pids"
    host.process(7)
    host.process(8)
    source = Pid(host.machine(pid_dir=folder))
    assert read(source) == []
    assert host.said == [f"processes by {folder}: No such file or directory; none is looked at until it is there"]
    folder.mkdir()
    (folder / "8").touch()
    (folder / "notes.txt").touch()
    assert pids(read(source, OLD + 1)) == [8]


def test_processes_are_chosen_by_cgroup(host: RecordedHost) -> None:
    host.process(7, cgroup="0::/a.slice/b.scope\n")
    host.process(8, cgroup="0::/a.slice2\n")
    assert pids(read(Pid(host.machine(cgroup="/a.slice")))) == [7]


def test_what_is_asked_for_in_two_ways_must_fit_both(host: RecordedHost) -> None:
    host.process(7, cgroup="0::/a.slice\n")
    host.process(8, "bash", cgroup="0::/a.slice\n", cmdline="bash\0")
    host.process(9)
    assert pids(read(Pid(host.machine(cgroup="a.slice", match="python")))) == [7]


def test_children_are_followed_and_theirs_also_when_the_parent_is_gone(host: RecordedHost) -> None:
    host.process(7, "launcher")
    host.process(5, "sh", ppid=9, cmdline="sh\0")  # numbers come round: a child may have a lower one
    host.process(9, "sh", ppid=7, cmdline="sh\0")
    host.process(10, "other", cmdline="other\0")
    source = Pid(host.machine(match="launcher"))
    assert sorted(pids(read(source))) == [5, 7, 9]
    host.end(7)
    host.process(9, "sh", ppid=1, cmdline="sh\0", utime=1)
    host.process(11, "sh", ppid=9, cmdline="sh\0")
    rows = read(source, OLD + 1)
    assert rows == [ProcessEnd(7), sample(9, utime_ticks=1), process(11, comm="sh", ppid=9), sample(11)]


def test_the_child_of_a_dead_parent_is_not_anothers_because_of_a_number(host: RecordedHost) -> None:
    host.process(7, "other", cmdline="other\0")
    host.process(8, "orphan", ppid=7, cmdline="orphan\0")
    source = Pid(host.machine(match="python"))
    assert read(source) == []
    host.end(7)
    host.process(8, "orphan", ppid=1, cmdline="orphan\0")
    assert read(source, OLD + 1) == []
    host.process(7, "python", start_ticks=2000)
    assert pids(read(source, OLD + 2)) == [7]


def test_a_process_that_did_not_match_is_looked_at_again_while_it_is_young(host: RecordedHost) -> None:
    start = 1000 / TICKS_PER_SECOND
    host.process(7, "bash", cmdline="bash\0")
    source = Pid(host.machine(match="^python"))
    assert read(source, start) == []
    host.process(7)
    assert pids(read(source, start + 2)) == [7]


def test_a_process_that_becomes_another_late_is_found_in_the_end(host: RecordedHost) -> None:
    host.process(7, "bash", cmdline="bash\0")
    source = Pid(host.machine(match="^python"))
    read(source)
    host.process(7)
    assert read(source, OLD + 1) == []
    rows = [row for second in range(2, 62) for row in read(source, OLD + second)]
    assert pids(rows) == [7]


def test_without_refresh_new_processes_are_not_looked_for(host: RecordedHost) -> None:
    host.process(7)
    source = Pid(host.machine(refresh_seconds=0))
    read(source)
    host.process(8)
    host.process(7, utime=1)
    assert read(source, OLD + 100) == [sample(7, utime_ticks=1)]


def test_all_are_listed_only_where_the_kernel_gave_out_a_pid_or_ten_seconds_passed(host: RecordedHost) -> None:
    def loadavg(newest: int) -> None:
        host.write(host.proc / "loadavg", f"0.00 0.00 0.00 1/100 {newest}\n")

    host.write(host.proc / "self/status", "Name:\tx\nNSpid:\t7\n")
    loadavg(7)
    host.process(7)
    source = Pid(host.machine())
    read(source)
    loadavg(8)
    assert read(source, OLD + 1) == []
    host.process(8)  # its pid was given out a moment before it could be seen
    assert pids(read(source, OLD + 2)) == [8]
    host.process(9)
    assert read(source, OLD + 3) == []
    assert pids(read(source, OLD + 12)) == [9]
    host.process(10)
    loadavg(10)
    assert pids(read(source, OLD + 13)) == [10]


def test_the_newest_pid_of_another_namespace_is_not_believed(host: RecordedHost) -> None:
    host.write(host.proc / "self/status", "Name:\tx\nNSpid:\t4007\t7\n")
    host.write(host.proc / "loadavg", "0.00 0.00 0.00 1/100 7\n")
    host.process(4007)
    source = Pid(host.machine())
    for second in range(3):
        read(source, OLD + second)
    host.process(4008)
    assert pids(read(source, OLD + 3)) == [4008]


def test_when_rows_were_lost_everything_is_reported_again(host: RecordedHost) -> None:
    host.process(7, cgroup=JOB)
    source = Pid(host.machine())
    first = read(source)
    source.forget()
    assert read(source, OLD + 1) == first
    assert read(source, OLD + 2) == []
