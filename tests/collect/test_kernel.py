"""Events of the kernel: real lines, recorded devices, and this machine's own."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.hosts import RecordedHost, at
from examples import each
from gpulake.collect.reading import Notices, SourceReader
from gpulake.collect.rows import NodeEvent
from gpulake.collect.sources import Machine, NoData
from gpulake.collect.sources.kernel import Kernel
from gpulake.core.clock import SystemClock
from gpulake.formats.kernel import KernelEvent, Kills, Line, event_in, kernel_faults, read_line

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
KILLED = "Out of memory: Killed process 123 (python) total-vm:1kB, anon-rss:2kB, UID:0 pgtables:3kB oom_score_adj:0"
OOM = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/x,task={},uid=0"
)


def event(kind: str, subject: str, message: str, code: int | None = None, pid: int | None = None) -> NodeEvent:
    return NodeEvent(0, kind, subject, code, pid, message, "kernel")


EVENTS = [
    event("xid", "0000:3b:00", XID, 79, 1234),
    event("xid", "0000:38:00", "NVRM: Xid (PCI:0000:38:00): 13, pid='<unknown>', name=<unknown>, Graphics", 13),
    event("xid", "0000:3b:00", "NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7, Contained memory error", 94, 7),
    event("xid", "0000:03:00", "NVRM: Xid (0000:03:00): 31, Ch 00000010, engmask 00000101", 31),
    event("sxid", "0000:c4:00.0", "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 44", 12028),
    event("oom_kill", "python", KILLED, pid=123),
    event("oom_kill", "a) b (c", KILLED.replace("python", "a) b (c"), pid=123),
    event("oom_kill", "python", "Memory cgroup out of memory: Killed process 9 (python) total-vm:1kB", pid=9),
    event("oom_kill", "python", "Out of memory: Kill process 456 (python) score 50 or sacrifice child", pid=456),
    event("oom_kill", "httpd", "Out of memory: Killed process 123, UID 48, (httpd).", pid=123),
    event("oom_kill", "python", OOM.format("python,pid=123"), pid=123),
    event("oom_kill", "x,pid=1", OOM.format("x,pid=1,pid=123"), pid=123),
    event("link_down", "eth0", "eth0: Link is Down"),
    event("link_up", "eth0", "r8169 0000:02:00.0 eth0: Link is Up - 1Gbps/Full - flow control rx/tx"),
    event("link_up", "eno1", "igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex"),
    event("link_up", "eth0", "ixgbe 0000:01:00.0 eth0: NIC Link is Up 10 Gbps, Flow Control: RX/TX"),
    event("link_down", "ens1f0np0", "mlx5_core 0000:3b:00.0 ens1f0np0: Link down"),
    event("link_down", "0000:3b:00.0", "mlx5_core 0000:3b:00.0: Link down"),
    event("link_up", "ib0", "IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready"),
    event("link_down", "ib0", "ib0: link down"),
]
NO_EVENTS = [
    "ata3: SATA link down (SStatus 0 SControl 300)",
    "pcieport 0000:00:1c.0: pciehp: Slot(0): Link Down",
    "IPv6: ADDRCONF(NETDEV_CHANGE): cali817bc444564: link becomes ready",
    "NVRM: GPU at PCI:0000:9b:00: GPU-509665ad-b600-ac93-3616-d754b23d636d",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),",
    f"python[7]: segfault at 0 ip 0 sp 0 error 4 in {XID}",
    "python[7]: segfault at 0 ip 0 sp 0 error 4 in EDAC MC0: 1 UE memory read error",
    "amdgpu 0000:c1:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
    "pcieport 0000:3a:00.0: AER: enabled with IRQ 31",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode",
    "",
]


@each("expected", EVENTS, name=lambda expected: expected.message[:50])
def test_a_message_tells_its_event(expected: NodeEvent) -> None:
    assert event_in(expected.message) == KernelEvent(expected.kind, expected.subject, expected.code, expected.pid)


def test_every_fault_of_the_catalogue_is_recognised_in_its_examples() -> None:
    examples = [(kind, *one) for kind, fault in kernel_faults().items() for one in fault.examples.items()]
    assert len(examples) > 30
    events = [(message, event_in(message)) for _, message, _ in examples]
    assert [(found and found.kind, message, found and found.subject) for message, found in events] == examples
    without = [kind for kind, fault in kernel_faults().items() if fault.patterns and not fault.examples]
    assert without == []


def test_a_fault_that_is_reported_at_once_says_what_to_do() -> None:
    assert [kind for kind, one in kernel_faults().items() if one.severity != "info" and not one.remedy] == []
    codes = {kind: kernel_faults()[kind].codes for kind in ("xid", "sxid")}
    severities = {
        (kind, code): codes[kind][code].severity for kind, code in (("xid", 79), ("xid", 43), ("sxid", 20034))
    }
    assert severities == {("xid", 79): "critical", ("xid", 43): "info", ("sxid", 20034): "critical"}


@pytest.mark.parametrize("message", NO_EVENTS)
def test_other_messages_tell_none(message: str) -> None:
    assert event_in(message) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"[   12.345678] {XID}", Line(XID, elapsed_ms=12346)),
        (f"<4>[  201.5] {XID}\n", Line(XID, elapsed_ms=201500)),
        (f"[    0.000000][    T0] {XID}", Line(XID, elapsed_ms=0)),
        (f"4,101,12345678,-;{XID}", Line(XID, elapsed_ms=12345)),
        (f"2025-01-02T03:04:05,678901+00:00 {XID}", Line(XID, at=datetime(2025, 1, 2, 3, 4, 5, 678901, UTC))),
        (f"kern  :warn  : 2025-01-02T03:04:05,5+02:00 {XID}", Line(XID, at=datetime(2025, 1, 2, 1, 4, 5, 500000, UTC))),
        (f"[Sun Feb 23 16:24:18 2025] {XID}", Line(XID, at=datetime(2025, 2, 23, 16, 24, 18, tzinfo=UTC))),
        (f"Jan  2 03:04:05 node7 kernel: [   12.5] {XID}", Line(XID, elapsed_ms=12500)),
        (f"2025-13-02T03:04:05,0+00:00 {XID}", Line(XID)),
        (XID, Line(XID)),
        ("", Line("")),
    ],
)
def test_a_line_of_a_log_is_read_in_each_of_its_ways_of_telling_time(text: str, line: Line) -> None:
    assert read_line(text) == line


@given(st.text())
def test_no_line_breaks_it(text: str) -> None:
    for line in (text, f"[ 1.5] {text}", f"NVRM: Xid (PCI:{text}", f"Out of memory: Killed process 1 ({text}"):
        event_in(read_line(line).message)


@pytest.mark.real
def test_every_real_log_parses_and_its_xids_are_found(real_data: Path) -> None:
    found = {}
    for path in sorted((real_data / "node_logs").rglob("*")):
        if path.is_file() and ("dmesg" in path.name or "kmsg" in path.name):
            lines = [read_line(line) for line in path.read_text(errors="replace").splitlines()]
            events = [event_in(line.message) for line in lines]
            codes = [event.code for event in events if event and event.kind == "xid"]
            timed = sum(line.at is not None or line.elapsed_ms is not None for line in lines)
            found[str(path.relative_to(real_data / "node_logs"))] = (len(lines), timed, codes)
    assert found == {
        "components/memory/testdata/dmesg.decode.iso.log": (24, 24, [13] * 16 + [43]),
        "components/os/testdata/dmesg.decode.iso.log": (2, 2, []),
        "nccl/testdata/dmesg.decode.iso.log": (2, 2, []),
        "pkg/kmsg/testdata/kmsg.1.log": (47, 47, []),
        "pkg/kmsg/testdata/kmsg.2.peermem.log": (8, 8, []),
        # The lines without a time are the heads that pstore wrote, and a line that it cut.
        "pkg/pstore/testdata/7530486857247/dmesg-erst-7530486857247752193": (186, 185, []),
        "pkg/pstore/testdata/7530486857247/dmesg-erst-7530486857247752194": (227, 226, []),
        "pkg/pstore/testdata/7530486857247/dmesg.txt": (415, 411, []),
        "pkg/pstore/testdata/dmesg-erst.txt": (39, 39, []),
        "xid/testdata/dmesg-with-xid-119.log": (43, 43, [119] * 5),
    }


@pytest.fixture
def host(tmp_path: Path) -> RecordedHost:
    return RecordedHost(tmp_path)


def records(*messages: tuple[int, str]) -> bytes:
    """Records as /dev/kmsg gives them, each at as many milliseconds as its number."""
    return b"".join(
        f"6,{number},{number * 1000 + 7},-;{message}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n".encode()
        for number, message in messages
    )


def dropped(count: int) -> NodeEvent:
    message = f"{count} records of the kernel were overwritten before they were read"
    return NodeEvent(60_000, "dropped", "kernel", None, None, message, "collector")


def xid_at(elapsed_ms: int) -> NodeEvent:
    return NodeEvent(elapsed_ms, "xid", "0000:3b:00", 79, 1234, XID, "kernel")


def test_records_are_read_as_they_come_and_carry_their_own_time(host: RecordedHost) -> None:
    kmsg = host.dev / "kmsg"
    host.write(kmsg, records((40, "hello"), (41, XID)))
    source = Kernel(host.machine())
    assert source.position() == 0
    assert list(source.read(at(60))) == [xid_at(41)]
    assert source.position() == 42
    with kmsg.open("ab") as file:
        file.write(records((42, XID))[:-60])  # a record that is not whole yet
    assert list(source.read(at(61))) == []
    with kmsg.open("ab") as file:
        file.write(records((42, XID))[-60:])
    assert list(source.read(at(62))) == [xid_at(42)]


def test_records_come_through_a_pipe_without_waiting(host: RecordedHost) -> None:
    os.mkfifo(host.dev / "kmsg")
    source = Kernel(host.machine())
    assert list(source.read(at(60))) == []
    with (host.dev / "kmsg").open("wb", buffering=0) as file:
        file.write(records((1, XID)))
        assert list(source.read(at(60))) == [xid_at(1)]
        assert list(source.read(at(60))) == []


def test_a_restarted_collector_goes_on_where_it_was(host: RecordedHost) -> None:
    host.write(host.dev / "kmsg", records((40, XID), (41, XID), (42, XID)))
    source = Kernel(host.machine())
    source.resume(42)
    assert list(source.read(at(60))) == [xid_at(42)]
    assert source.position() == 43
    source = Kernel(host.machine())
    source.resume(43)
    assert list(source.read(at(60))) == []
    assert source.position() == 43


def test_records_that_were_overwritten_are_counted(host: RecordedHost) -> None:
    host.write(host.dev / "kmsg", records((40, "hello"), (50, XID)))
    source = Kernel(host.machine())
    source.resume(30)
    assert list(source.read(at(60))) == [dropped(10), dropped(9), xid_at(50)]


def test_a_position_of_an_earlier_boot_skips_nothing(host: RecordedHost) -> None:
    host.write(host.dev / "kmsg", records((0, "Linux version"), (1, XID)))
    source = Kernel(host.machine())
    source.resume(9000)
    assert list(source.read(at(60))) == [xid_at(1)]
    assert source.position() == 2


def test_a_kill_that_is_reported_in_three_lines_is_one(host: RecordedHost) -> None:
    lines = [(1, OOM.format("python,pid=123")), (2, KILLED), (20_000, KILLED), (20_001, KILLED.replace("123", "124"))]
    host.write(host.dev / "kmsg", records(*lines))
    events = [row for row in Kernel(host.machine()).read(at(60)) if row.kind == "oom_kill"]
    assert [(event.pid, event.elapsed_ms) for event in events] == [(123, 1), (123, 20_000), (124, 20_001)]


def test_a_kill_whose_block_was_lost_is_reported_again_and_one_that_was_kept_is_not(host: RecordedHost) -> None:
    host.write(host.dev / "kmsg", records((1, OOM.format("python,pid=123")), (2, KILLED)))
    source = Kernel(host.machine())
    reported = [list(source.read(at(60)))]
    for position in (0, 1, 2):
        source.resume(position)
        reported.append(list(source.read(at(60))))
    assert [[event.pid for event in events] for events in reported] == [[123], [123], [123], []]


def test_every_event_but_a_kill_counts_each_time() -> None:
    kills = Kills()
    assert [kills.is_new(KernelEvent("xid", "x", 79, None), 0) for _ in range(2)] == [True, True]


def test_lines_that_are_no_records_are_left_out(host: RecordedHost) -> None:
    host.write(host.dev / "kmsg", b"\n;;;\n6,x,1,-;a\n\xff\xfe\n" + records((7, XID)))
    assert list(Kernel(host.machine()).read(at(60))) == [xid_at(7)]


def test_a_host_without_kmsg_has_no_data_and_is_not_complained_of(host: RecordedHost) -> None:
    with pytest.raises(NoData):
        Kernel(host.machine()).read(at(0))
    assert host.said == []


def test_a_kmsg_that_is_not_ours_to_read_is_said_once(host: RecordedHost) -> None:
    (host.dev / "kmsg").symlink_to("kmsg")  # refused also where the test is root's
    said: list[str] = []
    reader = SourceReader("kernel", Kernel(host.machine()), Notices(said.append), 1.0)
    assert reader.read(at(0), 0) == {}
    assert [*said, *host.said] == [f"kernel: no data: {host.dev}/kmsg: Too many levels of symbolic links"]


def test_the_kernel_of_this_machine_is_read_to_its_end_and_not_twice() -> None:
    said: list[str] = []
    source = Kernel(Machine(say=said.append))
    try:
        source.read(SystemClock())
    except NoData as reason:
        pytest.skip(f"this machine does not permit it: {reason}")
    position = source.position()
    again = Kernel(Machine())
    again.resume(position)
    assert [row.kind for row in again.read(SystemClock())] == []
    assert again.position() >= position
