"""The processes of a machine: which are sampled (by name, by a folder of pids, by cgroup), and which are skipped."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpulake.collect.machine.owners import Owner, is_within
from gpulake.collect.machine.procfs import Descriptors, KeptFile, read_if_any, read_once
from gpulake.collect.rows import ProcessSample
from gpulake.collect.sources import Machine, NoData
from gpulake.core.errors import UsageError


class Selection:
    """Criteria for processes; a process must fit all that are given."""

    def __init__(self, machine: Machine) -> None:
        self._proc = str(machine.proc)
        self._pid_dir = machine.pid_dir
        self._cgroup = machine.cgroup
        self._say = machine.say
        self._is_reported = False
        self._own_pid = os.getpid() if machine.proc == Machine().proc else -1
        self.is_partial = bool(machine.match or machine.pid_dir or machine.cgroup)
        try:
            self._match = re.compile(machine.match, re.IGNORECASE) if machine.match else None
        except re.error as error:
            raise UsageError(
                f"the process match {machine.match!r} is no regular expression: {error}", "escape its special signs"
            ) from error
        self.named: set[int] = set()

    def refresh(self) -> None:
        """Reads the folder of pids. A missing folder selects nothing."""
        if self._pid_dir is None:
            return
        try:
            self.named = pids_in(str(self._pid_dir))
        except OSError as error:
            self.named = set()
            if not self._is_reported:
                self._is_reported = True
                self._say(f"processes by {self._pid_dir}: {error.strerror}; none is looked at until it is there")

    def wants(self, pid: int, comm: str) -> bool:
        if self._pid_dir is not None and pid not in self.named:
            return False
        command = read_if_any(f"{self._proc}/{pid}/cmdline")
        if not command:  # it is starting or ending
            return False
        if self._match and not (self._match.search(comm) or self._match.search(_words(command))):
            return False
        if self._match and pid == self._own_pid:  # its command line contains the pattern
            return False
        if self._cgroup:
            cgroup = read_if_any(f"{self._proc}/{pid}/cgroup") or b""
            return is_within(cgroup.decode("utf-8", "replace"), self._cgroup)
        return True


def pids_in(folder: str) -> set[int]:
    """The names in a folder that are pids. Raises OSError."""
    return {int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit()}  # noqa: PTH208 - the fastest


def _words(command: bytes) -> str:
    return command.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")


STAT_BYTES = 2048
LIST_SECONDS = 10.0  # between full lists although no new pid was allocated
AGAIN_REFRESHES = 60  # between checks of skipped processes
YOUNG_SECONDS = 5.0  # in which a process may still change, by exec or by a move to its cgroup
KERNEL_THREAD = 0x00200000  # PF_KTHREAD
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
NOT_OPEN = -1  # instead of a descriptor
NO_PARENT = -1


class Stat(NamedTuple):
    """The used fields of /proc/<pid>/stat."""

    comm: bytes
    is_program: bool  # neither a kernel thread nor a zombie
    ppid: int
    utime_ticks: int
    stime_ticks: int
    threads: int
    start_ticks: int
    rss_pages: int


@dataclass(slots=True, eq=False)
class Tracked:
    """A sampled process, and its last reported values."""

    pid: int
    path: str  # with its slash
    stat_file: int
    text: bytes
    comm: bytes
    ppid: int
    start_ticks: int
    io_file: int = NOT_OPEN
    owner: Owner | None = None
    given: str = ""
    sample: ProcessSample | None = None

    @property
    def young_until(self) -> float:
        return self.start_ticks / TICKS_PER_SECOND + YOUNG_SECONDS


class ProcessTable:
    def __init__(self, machine: Machine, descriptors: Descriptors) -> None:
        self._proc = str(machine.proc)
        self._selection = Selection(machine)
        self._descriptors = descriptors
        self._loadavg = KeptFile(machine.proc / "loadavg")
        # /proc/loadavg has the newest pid of our namespace; this may be the /proc of another.
        status = read_if_any(machine.proc / "self/status") or b""
        self._has_newest_pid = re.search(rb"^NSpid:\t\d+$", status, re.MULTILINE) is not None
        self._newest_pid = b""
        self._next_list = 0.0
        self._must_list = True
        self._refreshes = 0
        self._skipped: dict[int, int] = {}  # skipped pids, and their parents
        self._young: set[int] = set()  # skipped pids that may still execute another program

    def refresh(self, elapsed: float, tracked: Mapping[int, Tracked]) -> tuple[list[Tracked], list[Tracked]]:
        """Ended and new processes since the last call. Raises NoData if there are no processes at all."""
        self._refreshes += 1
        self._selection.refresh()
        again = self._young | (self._selection.named & self._skipped.keys())
        if self._selection.is_partial:
            # A process may execute another program late, and a pid may be reused.
            turn = self._refreshes % AGAIN_REFRESHES
            again.update(pid for pid in self._skipped if pid % AGAIN_REFRESHES == turn)
        gone: list[Tracked] = []
        if self._is_list_due(elapsed):
            pids = self._listed()
            gone = [tracked[pid] for pid in tracked.keys() - pids]
            self._skipped = {pid: parent for pid, parent in self._skipped.items() if pid in pids}
            again = (again & pids) | (pids - tracked.keys() - self._skipped.keys())
            self._young &= pids
        found = (self.look(pid, elapsed) for pid in sorted(again))
        came = {process.pid: process for process in found if process}
        if self._selection.is_partial:
            self._follow(tracked, came)
        return gone, list(came.values())

    def look(self, pid: int, elapsed: float) -> Tracked | None:
        """The process, if it is to be sampled."""
        found = self._open(pid)
        if found is None:
            return None
        process, stat = found
        if stat.is_program and self._selection.wants(pid, stat.comm.decode("utf-8", "replace")):
            self._unskip(pid)
            return process
        self._skipped[pid] = stat.ppid if stat.is_program else NO_PARENT
        if stat.is_program and elapsed < process.young_until:
            self._young.add(pid)
        else:
            self._young.discard(pid)
        self._descriptors.close(process.stat_file)
        return None

    def expect(self) -> None:
        """A process has ended: others may have begun."""
        self._must_list = True

    def _unskip(self, pid: int) -> None:
        self._skipped.pop(pid, None)
        self._young.discard(pid)

    def _follow(self, tracked: Mapping[int, Tracked], came: dict[int, Tracked]) -> None:
        """Adds the descendants of sampled processes."""
        while children := [pid for pid, parent in self._skipped.items() if parent in tracked or parent in came]:
            for pid in children:
                self._unskip(pid)
                found = self._open(pid)
                if found and (found[1].ppid in tracked or found[1].ppid in came):
                    came[pid] = found[0]
                elif found:  # its parent has ended, and the pid of the parent was reused
                    self._skipped[pid] = found[1].ppid
                    self._descriptors.close(found[0].stat_file)

    def _open(self, pid: int) -> tuple[Tracked, Stat] | None:
        path = f"{self._proc}/{pid}/"
        file = NOT_OPEN
        try:
            file = self._descriptors.open(path + "stat")
            text = os.pread(file, STAT_BYTES, 0) if file >= 0 else read_once(path + "stat")
        except OSError:  # it has ended meanwhile
            text = b""
        stat = parse_stat(text)
        if stat is None:
            self._descriptors.close(file)
            return None
        return Tracked(pid, path, file, text, stat.comm, stat.ppid, stat.start_ticks), stat

    def _is_list_due(self, elapsed: float) -> bool:
        """No new process without a new pid; but pids wrap around, so all are listed now and then."""
        fields = (self._loadavg.read() or b"").split()
        newest_pid = fields[4] if self._has_newest_pid and len(fields) == 5 else b""
        is_changed = not newest_pid or newest_pid != self._newest_pid
        is_due = is_changed or self._must_list or elapsed >= self._next_list
        self._newest_pid = newest_pid
        # A pid is allocated slightly before its process is visible: after a change all are listed once more.
        self._must_list = is_changed
        if is_due:
            self._next_list = elapsed + LIST_SECONDS
        return is_due

    def _listed(self) -> set[int]:
        try:
            pids = pids_in(self._proc)
        except OSError:
            pids = set()
        if not pids:
            raise NoData(f"there are no processes in {self._proc}")
        return pids


def parse_stat(text: bytes) -> Stat | None:
    """A name may contain spaces and brackets: it ends at the last bracket."""
    end = text.rfind(b")")
    fields = text[end + 2 :].split(b" ", 22)
    if end < 0 or len(fields) < 22:
        return None
    return Stat(
        comm=text[text.find(b"(") + 1 : end],
        is_program=fields[0] not in (b"Z", b"X") and not int(fields[6]) & KERNEL_THREAD,
        ppid=int(fields[1]),
        utime_ticks=int(fields[11]),
        stime_ticks=int(fields[12]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        rss_pages=int(fields[21]),
    )
