"""The processes that a run samples: by name, by a folder of pids, by cgroup; or all programs."""

from __future__ import annotations

import os
import re

from gpulake.collect.machine.owners import is_within
from gpulake.collect.machine.procfs import read_if_any
from gpulake.collect.sources import Machine
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
