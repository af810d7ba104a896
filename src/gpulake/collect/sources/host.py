"""CPU, load, memory and disks of the host."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpulake.collect.machine.procfs import KeptFile, read_if_any
from gpulake.collect.rows import HostSample
from gpulake.collect.sources import SOURCES, Machine, NoData
from gpulake.core.clock import Clock

SECTOR_BYTES = 512  # of /proc/diskstats, independent of the disk
CPU_STATES = 8  # user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user
IDLE, IOWAIT = 3, 4
_CORE = re.compile(rb"^cpu(\d+) (.+)$", re.MULTILINE)
_MEMORY_ONLY = re.compile(r"(?:loop|ram|zram)\d+")
_OOM_KILLS = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
_MEMINFO = re.compile(rb"^(MemTotal|MemFree|MemAvailable|SwapTotal|SwapFree):\s*(\d+) kB$", re.MULTILINE)


@SOURCES.register("host")
class Host:
    def __init__(self, machine: Machine) -> None:
        self._blocks = machine.sys / "block"
        self._stat = KeptFile(machine.proc / "stat")
        self._loadavg = KeptFile(machine.proc / "loadavg")
        self._meminfo = KeptFile(machine.proc / "meminfo")
        self._diskstats = KeptFile(machine.proc / "diskstats")
        self._vmstat = KeptFile(machine.proc / "vmstat")
        self._is_disk: dict[str, bool] = {}

    def read(self, clock: Clock) -> Iterable[HostSample]:  # noqa: ARG002 - a row is of the moment of its tick
        stat = self._stat.read()
        if not stat or not stat.startswith(b"cpu "):
            raise NoData("the host shows no /proc/stat")
        memory = {name: int(kib) * 1024 for name, kib in _MEMINFO.findall(self._meminfo.read() or b"")}
        loads = _loads(self._loadavg.read() or b"")
        swap_total, swap_free = memory.get(b"SwapTotal"), memory.get(b"SwapFree")
        return [
            HostSample(
                cpu_ticks=_ticks(stat[4 : stat.index(b"\n")]),
                core_ticks=_core_ticks(stat),
                load_1m=loads[0],
                load_5m=loads[1],
                load_15m=loads[2],
                processes_running=_number_after(b"\nprocs_running ", stat),
                processes_blocked=_number_after(b"\nprocs_blocked ", stat),
                memory_total_bytes=memory.get(b"MemTotal"),
                memory_free_bytes=memory.get(b"MemFree"),
                memory_available_bytes=memory.get(b"MemAvailable"),
                swap_used_bytes=None if swap_total is None or swap_free is None else swap_total - swap_free,
                disks=self._disks(self._diskstats.read() or b""),
                oom_kills_total=_oom_kills(self._vmstat.read() or b""),
            )
        ]

    def _disks(self, diskstats: bytes) -> dict[str, tuple[int, int, int]]:
        """Per disk: bytes read, bytes written, milliseconds busy."""
        disks = {}
        for line in diskstats.splitlines():
            fields = line.split()
            if len(fields) < 14:
                continue
            name = fields[2].decode("ascii", "replace")
            if name not in self._is_disk:
                self._is_disk[name] = self._is_whole_disk(name)
            if self._is_disk[name]:
                disks[name] = (int(fields[5]) * SECTOR_BYTES, int(fields[9]) * SECTOR_BYTES, int(fields[12]))
        return disks

    def _is_whole_disk(self, name: str) -> bool:
        """Without partitions and composed disks (RAID, LVM, crypt), which would count bytes twice."""
        if _MEMORY_ONLY.fullmatch(name):
            return False
        block = self._blocks / name.replace("/", "!")
        is_made_of_others = (block / "slaves").is_dir() and any((block / "slaves").iterdir())
        return block.exists() and not is_made_of_others and read_if_any(block / "hidden") != b"1\n"


def _ticks(states: bytes) -> tuple[int, ...]:
    ticks = [int(state) for state in states.split()[:CPU_STATES]]
    return tuple(ticks + [0] * (CPU_STATES - len(ticks)))


def _core_ticks(stat: bytes) -> tuple[tuple[int, int], ...]:
    """Busy and all ticks of each core, at the index of its number; zero for a core that is off."""
    cores = {int(number): _ticks(states) for number, states in _CORE.findall(stat)}
    return tuple(_busy_and_all(cores.get(number, ())) for number in range(max(cores, default=-1) + 1))


def _busy_and_all(ticks: tuple[int, ...]) -> tuple[int, int]:
    if not ticks:
        return 0, 0
    total = sum(ticks)
    return total - ticks[IDLE] - ticks[IOWAIT], total


def _loads(loadavg: bytes) -> tuple[float | None, float | None, float | None]:
    fields = loadavg.split()
    if len(fields) < 3:
        return None, None, None
    return float(fields[0]), float(fields[1]), float(fields[2])


def _number_after(word: bytes, text: bytes) -> int | None:
    at = text.find(word)
    return int(text[at + len(word) :].split(None, 1)[0]) if at >= 0 else None


def _oom_kills(vmstat: bytes) -> int | None:
    found = _OOM_KILLS.search(vmstat)
    return int(found[1]) if found else None
