"""CPU, load, memory and disks, on a recorded host and on this one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collect.hosts import RecordedHost, at
from gpulake.collect.rows import HostSample
from gpulake.collect.sources import Machine
from gpulake.collect.sources.host import Host
from gpulake.core.clock import SystemClock

SAMPLE = HostSample(
    cpu_ticks=(100, 10, 50, 800, 20, 3, 7, 10),
    core_ticks=((105, 510), (0, 0), (75, 490)),
    load_1m=0.5,
    load_5m=0.0,
    load_15m=1.25,
    processes_running=3,
    processes_blocked=0,
    memory_total_bytes=16000 * 1024,
    memory_free_bytes=4000 * 1024,
    memory_available_bytes=9000 * 1024,
    swap_used_bytes=500 * 1024,
    disks={"nvme0n1": (2000 * 512, 1000 * 512, 60), "sda": (0, 0, 0)},
    oom_kills_total=2,
)


@pytest.fixture
def host(tmp_path: Path) -> RecordedHost:
    host = RecordedHost(tmp_path)
    host.host()
    return host


def test_a_host_is_read_whole_and_counts_each_disk_once(host: RecordedHost) -> None:
    # No partition, no loop device, and not the volume that lies on nvme0n1; a core that is off keeps its place.
    assert list(Host(host.machine()).read(at(0))) == [SAMPLE]


def test_every_read_tells_what_the_kernel_says_then(host: RecordedHost) -> None:
    source = Host(host.machine())
    list(source.read(at(0)))
    host.write(host.proc / "loadavg", "7.00 0.00 1.25 3/400 4242\n")
    assert list(source.read(at(1))) == [SAMPLE._replace(load_1m=7.0)]


def test_what_a_host_does_not_show_is_none_and_not_zero(host: RecordedHost) -> None:
    for name in ("loadavg", "meminfo", "diskstats", "vmstat"):
        (host.proc / name).unlink()
    assert list(Host(host.machine()).read(at(0))) == [
        HostSample(
            cpu_ticks=SAMPLE.cpu_ticks,
            core_ticks=SAMPLE.core_ticks,
            load_1m=None,
            load_5m=None,
            load_15m=None,
            processes_running=3,
            processes_blocked=0,
            memory_total_bytes=None,
            memory_free_bytes=None,
            memory_available_bytes=None,
            swap_used_bytes=None,
            disks={},
            oom_kills_total=None,
        )
    ]


def test_a_long_list_of_disks_is_read_to_its_end(host: RecordedHost) -> None:
    names = [f"sd{number}" for number in range(2000)]
    host.write(host.proc / "diskstats", "".join(f" 8 0 {name} 1 0 2 3 4 0 6 7 0 9 1\n" for name in names))
    for name in names:
        (host.sys / "block" / name).mkdir()
    (sample,) = Host(host.machine()).read(at(0))
    assert sample.disks == dict.fromkeys(names, (1024, 3072, 9))


def test_this_host_shows_its_cores_and_its_memory() -> None:
    (sample,) = Host(Machine()).read(SystemClock())
    assert len([core for core in sample.core_ticks if core[1] > 0]) == os.sysconf("SC_NPROCESSORS_ONLN")
    assert sample.memory_total_bytes is not None
    assert abs(sample.memory_total_bytes - os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) < 1 << 20
