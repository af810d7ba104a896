"""Processes: CPU ticks, memory, threads and disk I/O of each, when they changed.

Most processes sleep most of the time: their /proc/<pid>/stat is kept open, and if its bytes have not changed since the
last tick, nothing more is done.

Ends in the rows of one read refer to processes of earlier reads: a pid with an end and a process was reused.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import TypeAlias

from gpulake.collect.identity import read_boot_id
from gpulake.collect.machine.owners import given_gpus, owner_of
from gpulake.collect.machine.process_table import NOT_OPEN, STAT_BYTES, ProcessTable, Tracked, parse_stat
from gpulake.collect.machine.procfs import Descriptors, read_if_any, read_once
from gpulake.collect.rows import Process, ProcessEnd, ProcessSample
from gpulake.collect.sources import SOURCES, Machine
from gpulake.core.clock import Clock

IO_TICKS = 10  # between reads of the I/O of a sleeping process
OWNER_TICKS = 60  # between checks of its cgroup; a multiple of IO_TICKS
DENIED = -2  # instead of a descriptor
GONE = (errno.ESRCH, errno.ENOENT)

ProcessRow: TypeAlias = Process | ProcessSample | ProcessEnd


@SOURCES.register("pid")
class Pid:
    def __init__(self, machine: Machine, *, descriptors: Descriptors | None = None) -> None:
        self._machine = machine
        self._boot_id = read_boot_id(machine.proc)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._descriptors = descriptors or Descriptors()
        self._table = ProcessTable(machine, self._descriptors)
        self._tracked: dict[int, Tracked] = {}
        self._tick = 0
        self._next_refresh: float | None = None
        self._is_reported = False

    def read(self, clock: Clock) -> Iterable[ProcessRow]:
        self._tick += 1
        rows: list[ProcessRow] = []
        came: list[Tracked] = []
        elapsed = clock.elapsed()
        if self._next_refresh is None or (self._machine.refresh_seconds > 0 and elapsed >= self._next_refresh):
            # Half a tick early: ticks are not exactly periodic.
            self._next_refresh = elapsed + self._machine.refresh_seconds - self._machine.interval_seconds / 2
            gone, came = self._table.refresh(elapsed, self._tracked)
            for process in gone:
                self._end(process, rows)
        for process in self._read_all(elapsed, rows):
            self._end(process, rows)
            if successor := self._table.look(process.pid, elapsed):
                came.append(successor)
        for process in came:
            self._tracked[process.pid] = process
            self._report(process, process.text, elapsed, rows)
        return rows

    def forget(self) -> None:
        """Rows were lost: the next read reports every process again."""
        for process in self._tracked.values():
            process.text, process.owner, process.sample = b"", None, None

    def _read_all(self, elapsed: float, rows: list[ProcessRow]) -> list[Tracked]:
        """Adds rows of changed processes; returns those that have ended."""
        pread, slot = os.pread, self._tick % IO_TICKS
        gone = []
        for pid, process in self._tracked.items():
            file = process.stat_file
            try:
                text = pread(file, STAT_BYTES, 0) if file >= 0 else read_once(process.path + "stat")
            except OSError as error:
                if error.errno in GONE:
                    gone.append(process)
                continue
            if text == process.text:
                if pid % IO_TICKS == slot:
                    self._report_sleeping(process, rows)
            elif not self._report(process, text, elapsed, rows):
                gone.append(process)
        return gone

    def _report(self, process: Tracked, text: bytes, elapsed: float, rows: list[ProcessRow]) -> bool:
        """Adds rows of a changed process; False if it has ended, or its pid was reused."""
        stat = parse_stat(text)
        if stat is None or stat.start_ticks != process.start_ticks:
            return False
        is_renamed = stat.comm != process.comm
        process.text, process.comm, process.ppid = text, stat.comm, stat.ppid
        if process.owner is None or is_renamed or elapsed < process.young_until:
            self._report_owner(process, rows, is_new_program=True, is_renamed=is_renamed)
        elif process.pid % OWNER_TICKS == self._tick % OWNER_TICKS:
            self._report_owner(process, rows)
        read_bytes, written_bytes = self._io_bytes(process)
        sample = ProcessSample(
            pid=process.pid,
            utime_ticks=stat.utime_ticks,
            stime_ticks=stat.stime_ticks,
            rss_bytes=stat.rss_pages * self._page_bytes,
            threads=stat.threads,
            read_bytes_total=read_bytes,
            written_bytes_total=written_bytes,
        )
        if sample != process.sample:
            process.sample = sample
            rows.append(sample)
        return True

    def _report_sleeping(self, process: Tracked, rows: list[ProcessRow]) -> None:
        """Adds changes that do not show in its stat: small I/O, and its cgroup."""
        if process.pid % OWNER_TICKS == self._tick % OWNER_TICKS:
            self._report_owner(process, rows)
        read_bytes, written_bytes = self._io_bytes(process)
        before = process.sample
        if before and (before.read_bytes_total, before.written_bytes_total) != (read_bytes, written_bytes):
            process.sample = before._replace(read_bytes_total=read_bytes, written_bytes_total=written_bytes)
            rows.append(process.sample)

    def _report_owner(
        self, process: Tracked, rows: list[ProcessRow], *, is_new_program: bool = False, is_renamed: bool = False
    ) -> None:
        # The environment changes only with the program.
        owner = owner_of(self._machine.proc, process.pid, None if is_new_program else process.owner)
        given = given_gpus(read_if_any(process.path + "environ")) if is_new_program else process.given
        if (owner, given) == (process.owner, process.given) and not is_renamed:
            return
        process.owner, process.given = owner, given
        rows.append(
            Process(
                proc_id=f"{self._boot_id}-{process.start_ticks}-{process.pid}",
                pid=process.pid,
                ppid=process.ppid,
                comm=process.comm.decode("utf-8", "replace"),
                start_ticks=process.start_ticks,
                owner_kind=owner.kind,
                owner_id=owner.id,
                given_gpus=given,
            )
        )

    def _io_bytes(self, process: Tracked) -> tuple[int | None, int | None]:
        """Bytes read from and written to disks; None without permission."""
        if process.io_file == DENIED:
            return None, None
        try:
            if process.io_file == NOT_OPEN:
                process.io_file = self._descriptors.open(process.path + "io")
            file = process.io_file
            fields = (os.pread(file, STAT_BYTES, 0) if file >= 0 else read_once(process.path + "io")).split()
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                self._deny_io(process)
                return None, None
            before = process.sample
            return (before.read_bytes_total, before.written_bytes_total) if before else (None, None)
        if len(fields) < 12 or fields[8] != b"read_bytes:":
            return None, None
        return int(fields[9]), int(fields[11])

    def _deny_io(self, process: Tracked) -> None:
        self._descriptors.close(process.io_file)
        process.io_file = DENIED
        if not self._is_reported:
            self._is_reported = True
            self._machine.say(f"pid: no permission to read the I/O of some processes, pid {process.pid} the first")

    def _end(self, process: Tracked, rows: list[ProcessRow]) -> None:
        self._descriptors.close(process.stat_file)
        self._descriptors.close(process.io_file)
        del self._tracked[process.pid]
        self._table.expect()
        rows.append(ProcessEnd(process.pid))
