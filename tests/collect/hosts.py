"""Recorded hosts: small /proc, /sys and /dev trees for sources to read."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpulake.collect.sources import Machine
from gpulake.core.clock import FrozenClock

BOOT_ID = "11111111-2222-3333-4444-555555555555"
BOOT = "111111112222"  # as it stands in proc_id
KERNEL_THREAD = 0x00200040
STAT = """\
cpu  100 10 50 800 20 3 7 10 5 0
cpu0 60 5 30 400 5 2 3 5 5 0
cpu2 40 5 20 400 15 1 4 5 0 0
intr 12345 1 2 3
ctxt 67890
btime 1700000000
processes 4242
procs_running 3
procs_blocked 0
"""
MEMINFO = """\
MemTotal:       16000 kB
MemFree:         4000 kB
MemAvailable:    9000 kB
SwapTotal:       2000 kB
SwapFree:        1500 kB
"""
DISKSTATS = """\
   7       0 loop0 10 0 20 1 0 0 0 0 0 1 1
 259       0 nvme0n1 100 0 2000 30 50 0 1000 40 0 60 70 0 0 0 0 0 0
 259       1 nvme0n1p1 90 0 1900 30 50 0 1000 40 0 60 70 0 0 0 0 0 0
 253       0 dm-0 90 0 1900 30 50 0 1000 40 0 60 70 0 0 0 0 0 0
   8       0 sda 0 0 0 0 0 0 0 0 0 0 0
"""
NET_DEV = """\
Inter-|   Receive                                             |  Transmit
 face |bytes    packets errs drop fifo frame compressed multi |bytes    packets errs drop fifo colls carrier compressed
    lo:     500       5    0    0    0     0          0      0      500       5    0    0    0     0       0          0
  eth0: 1000000    2000    3    4    0     0          0      0   500000    1500    1    2    0     0       0          0
 virt0:       0       0    0    0    0     0          0      0        0       0    0    0    0     0       0          0
  tun0:      70       7    0    0    0     0          0      0       80       8    0    0    0     0       0          0
"""
ROUTE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
tun0\t00000000\t010200C0\t0003\t0\t0\t900\t00000000\t0\t0\t0
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


class RecordedHost:
    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.sys = root / "sys"
        self.dev = root / "dev"
        self.said: list[str] = []
        for folder in (self.proc, self.sys, self.dev):
            folder.mkdir(parents=True)

    def machine(self, **settings: Any) -> Machine:
        return Machine(proc=self.proc, sys=self.sys, dev=self.dev, say=self.said.append, **settings)

    def write(self, path: Path, text: str | bytes) -> None:
        """In place, as the kernel does: a file that is open shows its new text."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def boot(self) -> None:
        self.write(self.proc / "sys/kernel/random/boot_id", BOOT_ID + "\n")

    def host(self) -> None:
        self.write(self.proc / "stat", STAT)
        self.write(self.proc / "loadavg", "0.50 0.00 1.25 3/400 4242\n")
        self.write(self.proc / "meminfo", MEMINFO)
        self.write(self.proc / "diskstats", DISKSTATS)
        self.write(self.proc / "vmstat", "pgfault 12\noom_kill 2\nworkingset 3\n")
        for name in ("loop0", "nvme0n1", "dm-0", "sda"):
            (self.sys / "block" / name / "slaves").mkdir(parents=True)
        (self.sys / "block/dm-0/slaves/nvme0n1").mkdir()

    def network(self) -> None:
        self.write(self.proc / "net/dev", NET_DEV)
        self.write(self.proc / "net/route", ROUTE)
        self.interface("lo", operstate="unknown", carrier="1", speed="")
        self.interface("eth0", speed="25000", is_physical=True)
        self.interface("virt0", operstate="down", carrier="0", speed="-1")
        self.interface("tun0", operstate="unknown", carrier="1", speed="")

    def interface(
        self, name: str, *, operstate: str = "up", carrier: str = "1", speed: str, is_physical: bool = False
    ) -> None:
        folder = self.sys / "class/net" / name
        self.write(folder / "operstate", operstate + "\n")
        self.write(folder / "carrier", carrier + "\n")
        self.write(folder / "carrier_changes", "2\n")
        if speed:
            self.write(folder / "speed", speed + "\n")
        if is_physical:
            (folder / "device").mkdir(exist_ok=True)

    def process(
        self,
        pid: int,
        comm: str | bytes = "python",
        *,
        ppid: int = 1,
        utime: int = 0,
        stime: int = 0,
        threads: int = 1,
        start_ticks: int = 1000,
        rss_pages: int = 10,
        state: str = "S",
        flags: int = 0x400000,
        cmdline: str = "python\0train.py\0",
        cgroup: str = "0::/\n",
        environ: str = "",
        io: tuple[int, int] | None = (0, 0),
    ) -> None:
        folder = self.proc / str(pid)
        name = comm.encode() if isinstance(comm, str) else comm
        rest = (
            f") {state} {ppid} {pid} {pid} 0 -1 {flags} 10 0 0 0 {utime} {stime} 0 0 20 0 {threads} 0 {start_ticks} "
            f"3000000 {rss_pages} 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        )
        self.write(folder / "stat", b"%d (" % pid + name + rest.encode())
        self.write(folder / "cmdline", cmdline)
        self.write(folder / "cgroup", cgroup)
        self.write(folder / "environ", environ)
        if io is not None:
            self.write(
                folder / "io",
                f"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: {io[0]}\nwrite_bytes: {io[1]}\n"
                "cancelled_write_bytes: 0\n",
            )

    def end(self, pid: int) -> None:
        """What is open of it is empty, and its folder is gone."""
        folder = self.proc / str(pid)
        for path in folder.iterdir():
            path.write_bytes(b"")
            path.unlink()
        folder.rmdir()


def at(seconds: float) -> FrozenClock:
    return FrozenClock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), elapsed=seconds)


def wait_until(is_so: Callable[[], object], *, seconds: float = 120.0) -> None:
    """Waits for what another process is to do, and fails where it does not."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
