"""The raw text of mpstat, vmstat and ifstat."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.collect.cctf.parse import Options, parse
from gpulake.core.errors import UsageError
from recorded_runs import block_of, cells, host_of, rows_in, write_session

MPSTAT_NAMES = "CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle"
VMSTAT_NAMES = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC"
VMSTAT_TITLE = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----"


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def mpstat(*times: str, date: str = "09/16/25", idle: str = "90.00") -> str:
    lines = [f"Linux 5.4.0 (vm) \t{date} \t_x86_64_\t(4 CPU)", "", f"{times[0]}     {MPSTAT_NAMES}"]
    values = f"all    6.00    1.00    1.00    1.00    0.50    0.50    0.00    0.00    0.00   {idle}"
    return "\n".join([*lines, *(f"{time}     {values}" for time in times[1:]), f"Average:     {values}"]) + "\n"


def vmstat(*rows: tuple[int, str]) -> str:
    lines = [
        f" 1  2      3  {free}    152   4582    0    0     0     4    3    3  1  0 99  0  0 {time}"
        for free, time in rows
    ]
    return "\n".join([VMSTAT_TITLE, VMSTAT_NAMES, *lines]) + "\n"


def ifstat(*lines: str, names: str = "ens2") -> str:
    count = len(names.split())
    return "\n".join([f"  Time           {names}       ", "HH:MM:SS  " + " KB/s in  KB/s out" * count, *lines]) + "\n"


def written(folder: Path, **logs: str) -> Path:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.real
def test_the_real_run_is_read_whole_and_in_order_over_midnight(real_data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(
        real_data / "sysstat_run", run, ignore=shutil.ignore_patterns("cctf"), copy_function=shutil.copyfile
    )
    run.chmod(0o755)
    audit = parse(run)
    logs = {log["file"]: (log["rows"], log["rejected"]) for log in audit["parse"]["logs"]}
    assert logs == {"cpu.log": (8221, 0), "mem.log": (8219, 0), "net.log": (8213, 0)}
    host, links = rows_in(run, "host_metrics"), rows_in(run, "link_metrics")
    for rows in (host, links):
        times = [row["ts_ms"] for row in rows]
        assert all(before < after for before, after in itertools.pairwise(times))
        assert times[-1] == at("2025-09-17T00:05:31")
    first_cpu = next(row for row in host if row["cpu_util"] is not None)
    first_memory = next(row for row in host if row["mem_free_mb"] is not None)
    assert (first_memory["ts_ms"], first_memory["mem_free_mb"]) == (at("2025-09-16T21:48:29"), 11004)
    assert (first_cpu["ts_ms"], first_cpu["cpu_util"]) == (at("2025-09-16T21:48:30"), 5.01)
    assert cells(links[:1], "ts_ms", "link", "rx_Bps", "tx_Bps") == [
        (at("2025-09-16T21:48:30"), "vm0.nic", 4.98 * 1024, 4.63 * 1024)
    ]
    assert sum(row["cpu_util"] is not None for row in host) == 8221
    assert sum(row["mem_free_mb"] is not None for row in host) == 8219
    assert len(links) == 8213


@pytest.mark.parametrize(
    ("date", "first"),
    [
        ("09/16/25", "2025-09-16"),
        ("09/16/2025", "2025-09-16"),
        ("2025-09-16", "2025-09-16"),
        ("16/09/25", "2025-09-16"),
        ("16.09.2025", "2025-09-16"),
        ("03/04/25", "2025-03-04"),
        ("03.04.2025", "2025-04-03"),
    ],
)
def test_the_date_of_mpstat_is_read_in_many_ways_and_its_times_roll_over(tmp_path: Path, date: str, first: str) -> None:
    run = written(tmp_path, cpu=mpstat("23:59:57", "23:59:58", "23:59:59", "00:00:00", "00:00:01", date=date))
    parse(run)
    start = at(f"{first}T23:59:58")
    assert cells(rows_in(run, "host_metrics"), "ts_ms", "cpu_util") == [
        (start + 1000 * step, 10.0) for step in range(4)
    ]


def test_the_dates_of_vmstat_tell_whether_the_day_comes_first(tmp_path: Path) -> None:
    run = written(
        tmp_path, cpu=mpstat("10:00:00", "10:00:01", date="03/04/25"), mem=vmstat((500, "2025-04-03 10:00:01"))
    )
    parse(run)
    assert cells(rows_in(run, "host_metrics"), "ts_ms", "cpu_util", "mem_free_mb", "processes_blocked") == [
        (at("2025-04-03T10:00:01"), 10.0, 500.0, 2)
    ]


def test_a_clock_of_twelve_hours_and_a_decimal_comma_are_read(tmp_path: Path) -> None:
    run = written(tmp_path, cpu=mpstat("11:59:58 PM", "11:59:59 PM", "12:00:00 AM", "12:00:01 AM", idle="75,50"))
    parse(run)
    start = at("2025-09-16T23:59:59")
    assert cells(rows_in(run, "host_metrics"), "ts_ms", "cpu_util") == [
        (start + 1000 * step, 24.5) for step in range(3)
    ]


def test_guests_are_programs_as_they_are_for_the_kernel(tmp_path: Path) -> None:
    text = mpstat("10:00:00", "10:00:01").replace("0.00    0.00    0.00   90.00", "0.00    2.00    0.50   87.50")
    run = written(tmp_path, cpu=text)
    parse(run)
    assert cells(rows_in(run, "host_metrics"), "cpu_util", "cpu_user_ratio") == [(12.5, 0.095)]


def test_each_core_is_read_where_mpstat_tells_it(tmp_path: Path) -> None:
    lines = mpstat("10:00:00", "10:00:01").splitlines()
    cores = [f"10:00:01     {core}" + "   0.00" * 9 + f"   {idle}" for core, idle in ((0, "100.00"), (1, "80.00"))]
    run = written(tmp_path, cpu="\n".join([*lines[:-1], *cores, lines[-1]]))
    parse(run)
    assert cells(rows_in(run, "host_metrics"), "cpu_util", "core_busy_ratios", "cpu_user_ratio") == [
        (10.0, [0.0, 0.2], 0.07)
    ]


@pytest.mark.parametrize(
    ("unit", "mem_mb", "free", "expected"),
    [
        ("auto", 16_000, 11_000, 11_000.0),
        ("auto", 16_000, 11_000_000, 11_264.0),
        ("auto", None, 11_000, 11_000.0),
        ("M", 16_000, 1000, 1048.576),
        ("k", 16_000, 1000, 1.0),
        ("K", None, 1000, 1.024),
    ],
)
def test_the_unit_of_vmstat_is_reported_or_judged_by_the_memory_there_is(
    tmp_path: Path, unit: str, mem_mb: int | None, free: int, expected: float
) -> None:
    (tmp_path / "node_meta.json").write_text(json.dumps({"node": "n", "mem_mb": mem_mb}))
    run = written(tmp_path, mem=vmstat((free, "2025-09-16 10:00:00")))
    parse(run, Options(vmstat_unit=unit))
    assert cells(rows_in(run, "host_metrics"), "mem_free_mb") == [(expected,)]


def test_each_interface_of_ifstat_is_a_link_and_what_it_could_not_read_is_null(tmp_path: Path) -> None:
    (tmp_path / "node_meta.json").write_text('{"node": "n1", "iface": "eth1"}')
    lines = ["10:00:00    1.00   2.00   n/a   n/a", "10:00:01    0.00   0.50   4.00   8.00"]
    run = written(tmp_path, net=ifstat(*lines, names="eth0 eth1"), mem=vmstat((5, "2025-09-16 10:00:00")))
    parse(run)
    assert cells(rows_in(run, "link_metrics"), "ts_ms", "link", "iface", "rx_Bps", "tx_Bps") == [
        (at("2025-09-16T10:00:00"), "n1.eth0", "eth0", 1024, 2048),
        (at("2025-09-16T10:00:00"), "n1.nic", "eth1", None, None),
        (at("2025-09-16T10:00:01"), "n1.eth0", "eth0", 0, 512),
        (at("2025-09-16T10:00:01"), "n1.nic", "eth1", 4096, 8192),
    ]


@pytest.mark.parametrize("other", ["vmstat", "mpstat", "mtime"])
def test_ifstat_takes_its_day_from_another_log_or_from_its_own_end(tmp_path: Path, other: str) -> None:
    run = written(tmp_path, net=ifstat("23:59:59  1.00  1.00", "00:00:00  1.00  1.00", "00:00:01  1.00  1.00"))
    if other == "vmstat":
        written(run, mem=vmstat((5, "2025-09-17 00:00:00")))
    elif other == "mpstat":
        written(run, cpu=mpstat("23:59:58", "23:59:59"))
    else:
        end = at("2025-09-17T00:00:02") / 1000
        os.utime(run / "net.log", (end, end))
    audit = parse(run)
    dated_by = {"vmstat": "mem.log", "mpstat": "cpu.log", "mtime": "the time of its last change"}[other]
    assert audit["parse"]["logs"][-1]["dated_by"] == dated_by
    assert [row["ts_ms"] for row in rows_in(run, "link_metrics")] == [
        at("2025-09-16T23:59:59"),
        at("2025-09-17T00:00:00"),
        at("2025-09-17T00:00:01"),
    ]


def test_times_are_of_the_zone_that_is_given_and_the_hour_reported_twice_goes_on(tmp_path: Path) -> None:
    run = written(tmp_path, cpu=mpstat("02:59:57", "02:59:58", "02:59:59", "02:00:00", "02:00:01", date="10/26/25"))
    parse(run, Options(tz="Europe/Berlin"))
    start = at("2025-10-26T00:59:58")
    assert [row["ts_ms"] for row in rows_in(run, "host_metrics")] == [start + 1000 * step for step in range(4)]
    with pytest.raises(UsageError, match="no time zone named 'Mars'"):
        parse(run, Options(tz="Mars"))


def test_lines_that_are_no_rows_are_counted_with_their_reason(tmp_path: Path) -> None:
    broken = mpstat("10:00:00", "10:00:01") + "10:00:02     all    1.00\nnonsense\n10:00:03     all" + " x" * 10
    run = written(tmp_path, cpu=broken, net=ifstat("10:00:00  1.00", "10:00:01  1.00  fast"))
    audit = parse(run)
    cpu, net = audit["parse"]["logs"]
    assert cpu["first_rejected"] == [
        {"line": 6, "reason": "its numbers do not fit the header"},
        {"line": 7, "reason": "it does not begin with a time"},
        {"line": 8, "reason": "a value is not a number"},
    ]
    assert net["reasons"] == {"a value is not a number": 1, "its numbers do not fit the header": 1}
    assert (cpu["rows"], net["rows"]) == (1, 0)


def test_a_log_that_says_the_same_as_the_segments_is_left_alone(tmp_path: Path) -> None:
    write_session(tmp_path, block_of(1000, [host_of(1, 1)]))
    audit = parse(written(tmp_path, cpu=mpstat("10:00:00", "10:00:01")))
    assert (len(rows_in(tmp_path, "host_metrics")), audit["parse"]["left_alone"]) == (1, ["cpu.log, mem.log"])


WORDS = st.sampled_from(
    [
        *MPSTAT_NAMES.split(),
        *VMSTAT_NAMES.split(),
        *(
            "Linux",
            "5.4",
            "(x)",
            "09/16/25",
            "99/99/99",
            "0001-01-01",
            "9999-12-31",
            "2025-02-30",
            "00:00:00",
            "23:59:59",
        ),
        *("24:61:61", "AM", "PM", "all", "0", "-1", "nan", "inf", "1e999", "n/a", "Time", "HH:MM:SS", "KB/s", "eth0"),
        *("9" * 40, "²", "٣", "\x00", "\n", "\n\n", "1.5", "1,5", "100.00", "procs", "Average:"),
    ]
)


@pytest.mark.slow
@settings(max_examples=cases(150))
@given(
    cpu=st.lists(WORDS, max_size=60) | st.text(),
    memory=st.lists(WORDS, max_size=60) | st.text(),
    links=st.lists(WORDS, max_size=60) | st.text(),
)
def test_no_text_breaks_the_parser(cpu: Any, memory: Any, links: Any, tmp_path_factory: Any) -> None:
    run = tmp_path_factory.mktemp("run")
    for name, text in (("cpu", cpu), ("mem", memory), ("net", links)):
        content = text if isinstance(text, str) else " ".join(text)
        (run / f"{name}.log").write_bytes(content.encode("utf-8", "replace"))
    audit = parse(run)
    assert [log["file"] for log in audit["parse"]["logs"]] == ["cpu.log", "mem.log", "net.log"]
    assert all(file["violations"]["behind"] == 0 for file in audit["files"].values())
