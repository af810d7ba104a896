"""What the parts of the service take: a part that holds more memory than its budget is ended, and started again."""

from __future__ import annotations

import os
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gpulake.core.run_settings import Budget, RunSettings
from gpulake.core.service_state import PartState

MEBIBYTE = 1 << 20
NOTED_MEBIBYTES = 16  # a change that is worth writing down
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Budgets:
    def __init__(self, settings: RunSettings) -> None:
        self._of: Mapping[str, Budget] = settings.budgets
        self._running: dict[str, tuple[PartState, Process]] = {}
        self._ended: dict[str, str] = {}  # why, by the part

    def of(self, part: str) -> Budget:
        return self._of.get(part.partition(" ")[0], Budget())

    def cores(self, part: str, is_last: bool) -> set[int]:
        """Those that it may use: the last ones for work in the background, so that it is not beside the rest."""
        every, count = sorted(os.sched_getaffinity(0)), self.of(part).cores
        return set(every[-count:] if is_last else every[:count]) if count else set(every)

    def started(self, state: PartState, child: Process) -> None:
        self._running[state.name] = state, child

    def why_ended(self, part: str) -> str:
        """Empty unless it was its budget."""
        return self._ended.pop(part, "")

    def look(self) -> bool:
        """Whether a part's memory has changed so much that it is worth writing down."""
        is_changed = False
        for name, (state, child) in list(self._running.items()):
            if child.returncode is not None:
                del self._running[name]
            mebibytes = memory_bytes(child.pid) // MEBIBYTE if child.returncode is None else 0
            is_changed |= abs(mebibytes - state.memory_mebibytes) >= NOTED_MEBIBYTES
            state.memory_mebibytes = mebibytes
            most = self.of(name).memory_mebibytes
            if most and mebibytes > most:
                self._ended[name] = f"ended at {mebibytes} MiB: {most} of [run.budgets.{name.partition(' ')[0]}]"
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # what was acknowledged is in the lake
        return is_changed


def memory_bytes(pid: int) -> int:
    """What a process and those that it started hold by themselves: no files that are mapped, nothing shared."""
    pages, left = 0, [pid]
    while left:
        process = Path("/proc", str(left.pop()))
        with suppress(OSError):  # it has ended
            _, resident, shared = (process / "statm").read_text().split()[:3]
            pages += int(resident) - int(shared)
            for task in (process / "task").iterdir():
                left += map(int, (task / "children").read_text().split())
    return pages * _PAGE
