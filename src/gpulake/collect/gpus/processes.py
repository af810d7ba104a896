"""The processes on a GPU: memory, share of time, name and owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from gpulake.collect.gpus.driver import Device, Unanswered, Unsupported, nvml_names
from gpulake.collect.gpus.queries import UNITS
from gpulake.collect.machine.owners import owner_of
from gpulake.collect.rows import GpuProcess

# The driver measures processes every 1/6 to 1 s, and only active ones: a share is valid that long.
SHARES_VALID_MS = 2_000
INITIAL_PID_NAMESPACE = "pid:[4026531836]"


class Program(NamedTuple):
    comm: str | None
    owner_kind: str
    owner_id: str


UNKNOWN = Program(None, "unattributed", "")


class Programs:
    """Names and owners of processes by pid, kept until they are forgotten."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._known: dict[int, Program] = {}
        self._is_in_container = _link(proc / "self" / "ns" / "pid") not in ("", INITIAL_PID_NAMESPACE)

    def of(self, pid: int) -> Program:
        if pid not in self._known:
            self._known[pid] = self._find(pid)
        return self._known[pid]

    def forget(self) -> None:
        self._known = {}

    def _find(self, pid: int) -> Program:
        folder = self._proc / str(pid)
        # Older drivers report the host's pids to a container, where the pid may be that of another process.
        if self._is_in_container and not _has_gpu_open(folder):
            return UNKNOWN
        try:
            comm = (folder / "comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
        except OSError:
            return UNKNOWN
        owner = owner_of(self._proc, pid)
        return Program(comm, owner.kind, owner.id)


class Share(NamedTuple):
    sm_busy_ratio: float | None
    memory_busy_ratio: float | None
    read_at_ms: int


class GpuProcesses:
    """Of one GPU or MIG instance."""

    def __init__(self, device: Device, uuid: str, programs: Programs) -> None:
        self._device = device
        self._uuid = uuid
        self._programs = programs
        self._lists = [list(names) for names in nvml_names()["processes"]]
        self._shares: dict[int, Share] | None = {}  # None: not supported by this GPU
        self._seen_us = 0

    def read(self, elapsed_ms: int, now_us: int | None) -> tuple[int | None, list[GpuProcess]]:
        """How many there are, and those with a pid: in a container some have none.

        Their shares of time are queried only when now_us is given, since that takes 4 ms.
        """
        memories: dict[int, int | None] = {}
        nameless = 0
        for names in self._lists:
            for process in self._listed(names):
                if process.pid <= 0:
                    nameless += 1
                elif memories.get(process.pid) is None:
                    memories[process.pid] = self._device.driver.clean("memory_used_bytes", process.usedGpuMemory, int)
        if not any(self._lists):
            return None, []
        if memories and now_us is not None:
            self._read_shares(elapsed_ms, now_us)
        rows = [self._row(elapsed_ms, pid, memory) for pid, memory in sorted(memories.items())]
        return len(rows) + nameless, rows

    def _row(self, elapsed_ms: int, pid: int, memory: int | None) -> GpuProcess:
        program = self._programs.of(pid)
        sm, memory_busy = self._share(pid, elapsed_ms)
        return GpuProcess(
            elapsed_ms=elapsed_ms,
            gpu_uuid=self._uuid,
            pid=pid,
            comm=program.comm,
            memory_used_bytes=memory,
            sm_busy_ratio=sm,
            memory_busy_ratio=memory_busy,
            owner_kind=program.owner_kind,
            owner_id=program.owner_id,
        )

    def _listed(self, names: list[str]) -> list[Any]:
        while names:
            try:
                return list(self._device.call(names[0]))
            except Unsupported:
                names.pop(0)
            except Unanswered:
                return []
        return []

    def _read_shares(self, elapsed_ms: int, now_us: int) -> None:
        if self._shares is None:
            return
        since_us = self._seen_us if 0 < self._seen_us <= now_us else now_us - 1_000_000
        try:
            samples = self._device.call("nvmlDeviceGetProcessUtilization", since_us)
        except Unsupported:
            self._shares = None
            return
        except Unanswered:
            return
        for sample in sorted(samples, key=lambda sample: int(sample.timeStamp)):
            self._seen_us = sample.timeStamp
            self._shares[sample.pid] = Share(
                self._device.driver.clean("sm_busy_ratio", sample.smUtil, UNITS["percent"]),
                self._device.driver.clean("memory_busy_ratio", sample.memUtil, UNITS["percent"]),
                elapsed_ms,
            )

    def _share(self, pid: int, elapsed_ms: int) -> tuple[float | None, float | None]:
        if self._shares is None:
            return None, None
        share = self._shares.get(pid)
        if share is None or elapsed_ms - share.read_at_ms > SHARES_VALID_MS:
            self._shares.pop(pid, None)
            return 0.0, 0.0
        return share.sm_busy_ratio, share.memory_busy_ratio


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _has_gpu_open(folder: Path) -> bool:
    try:
        return any(_link(entry).startswith("/dev/nvidia") for entry in (folder / "fd").iterdir())
    except OSError:
        return False
