"""From segments to the files of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.collect.cctf import files
from gpulake.collect.cctf.files import key_of
from gpulake.collect.cctf.parse import parse
from gpulake.collect.rows import Cost, NodeEvent, Row
from gpulake.core import disk
from gpulake.core.errors import GpulakeError, InputError, UsageError
from gpulake.core.tables import cctf_tables
from recorded_runs import (
    EPOCH_MS,
    block_of,
    cells,
    document_in,
    files_in,
    header_of,
    host_of,
    nic_of,
    parse_session,
    process_of,
    rows_in,
    sample_of,
    write_lines,
    write_session,
)

AT = EPOCH_MS


def test_a_host_row_has_the_shares_of_the_time_since_the_row_before(tmp_path: Path) -> None:
    ticks = (100, 10, 50, 800, 30, 5, 5, 0)
    later = (130, 10, 60, 850, 40, 5, 5, 0)
    disks = {"sda": [1000, 2000, 500], "sdb": [1, 2, 250]}
    parse_session(
        tmp_path,
        block_of(1000, [host_of(0, 0, cpu_ticks=ticks, core_ticks=((60, 500), (110, 500)))]),
        block_of(
            2000,
            [
                host_of(
                    0,
                    0,
                    cpu_ticks=later,
                    core_ticks=((70, 550), (140, 550)),
                    load_1m=0.5,
                    processes_running=0,
                    memory_free_bytes=1_500_000_000,
                    memory_total_bytes=8 << 30,
                    disks=disks,
                )
            ],
        ),
    )
    first, second = rows_in(tmp_path, "host_metrics")
    assert {name for name, value in first.items() if value is not None} == {
        "ts_ms",
        "node",
        "stage",
        "host_id",
        "disks",
    }
    assert {name: value for name, value in second.items() if value is not None} == {
        "ts_ms": AT + 2000,
        "node": "n1",
        "stage": "edge",
        "cpu_util": 50.0,
        "mem_free_mb": 1500.0,
        "host_id": "0123456789ab",
        "cpu_user_ratio": 0.3,
        "cpu_system_ratio": 0.1,
        "cpu_iowait_ratio": 0.1,
        "cpu_steal_ratio": 0.0,
        "core_busy_ratios": [0.2, 0.6],
        "load_1m": 0.5,
        "processes_running": 0,
        "memory_total_bytes": 8 << 30,
        "disk_read_bytes_total": 1001,
        "disk_written_bytes_total": 2002,
        "disk_busy_seconds_total": 0.75,
        "disks": disks,
    }
    assert list(second) == list(cctf_tables()["host_metrics"].column_names)


def test_a_counter_that_went_back_gives_no_rate(tmp_path: Path) -> None:
    parse_session(
        tmp_path,
        block_of(1000, [host_of(50, 50), nic_of(1000, 50)]),
        block_of(3000, [host_of(100, 100), nic_of(5000, 40)]),
        block_of(4000, [host_of(90, 200), nic_of(5000, 140)]),
    )
    assert cells(rows_in(tmp_path, "host_metrics"), "cpu_util") == [(None,), (50.0,), (None,)]
    assert cells(rows_in(tmp_path, "link_metrics"), "link", "rx_Bps", "tx_Bps") == [
        ("n1.nic", None, None),
        ("n1.nic", 2000.0, None),
        ("n1.nic", 0.0, 100.0),
    ]


def test_a_core_that_is_turned_off_or_on_makes_no_share_up(tmp_path: Path) -> None:
    """Turned off, it takes its idle time out of the sum of all; on again, it goes on with what it had counted."""
    cores = [((50, 1000), (50, 1000)), ((60, 1100), (0, 0)), ((70, 1200), (55, 1010))]
    ticks = [(100, 0, 0, 1900, 0, 0, 0, 0), (110, 0, 0, 1000, 0, 0, 0, 0), (125, 0, 0, 1085, 0, 0, 0, 0)]
    parse_session(
        tmp_path,
        *[
            block_of(1000 * (1 + number), [host_of(0, 0, cpu_ticks=ticks[number], core_ticks=cores[number])])
            for number in range(3)
        ],
    )
    assert cells(rows_in(tmp_path, "host_metrics"), "cpu_util", "cpu_user_ratio", "core_busy_ratios") == [
        (None, None, None),
        (None, None, [0.1, None]),
        (15.0, 0.15, [0.1, None]),
    ]


def test_links_are_named_by_interface_and_the_one_of_the_run_first(tmp_path: Path) -> None:
    speed = {"speed_bits_per_second": 10**10}
    parse_session(
        tmp_path,
        block_of(1000, [nic_of(0, 0, iface="eth1", is_main=False), nic_of(0, 0, rtt_seconds=0.004, **speed)]),
        block_of(2000, [nic_of(1, 1, iface="eth1", is_main=False), nic_of(1, 1, rtt_seconds=0.002, **speed)]),
    )
    assert cells(rows_in(tmp_path, "link_metrics"), "ts_ms", "link") == [
        (AT + 1000, "n1.eth1"),
        (AT + 1000, "n1.nic"),
        (AT + 2000, "n1.eth1"),
        (AT + 2000, "n1.nic"),
    ]
    # A host without a default route did not know its interface beforehand.
    (tmp_path / "link_meta.json").write_text('{"iface": "", "BW_bps": 0, "PR_s": null}')
    parse(tmp_path)
    ids = {"u": "n1", "v": "n1.net", "host_id": "0123456789ab"}
    assert document_in(tmp_path, "links.json") == [
        {**ids, "BW_bps": 10**10, "PR_s": 0.001, "iface": "eth0"},
        {**ids, "BW_bps": 0, "PR_s": None, "iface": "eth1"},
    ]


def test_a_clock_that_was_set_costs_neither_order_nor_a_sample(tmp_path: Path) -> None:
    hour = 3_600_000
    write_session(
        tmp_path,
        block_of(1000, [host_of(0, 0)], now_ms=AT + 1000 + hour),
        block_of(2000, [host_of(10, 90)], now_ms=AT + 2000 - hour),
        block_of(3000, [host_of(20, 180)], now_ms=AT + 3000),
    )
    audit = parse(tmp_path)
    assert cells(rows_in(tmp_path, "host_metrics"), "ts_ms", "cpu_util") == [
        (AT + 1000, None),
        (AT + 2000, 10.0),
        (AT + 3000, 10.0),
    ]
    assert (audit["parse"]["clock_steps"], audit["parse"]["largest_clock_step_ms"]) == (2, 2 * hour)


def test_rates_go_on_over_a_restart_and_begin_anew_with_a_boot(tmp_path: Path) -> None:
    write_session(tmp_path, block_of(1000, [host_of(0, 100), nic_of(0, 0)]))
    write_session(tmp_path, block_of(9000, [host_of(80, 820), nic_of(8000, 16000)]))
    parse_session(tmp_path, block_of(500, [host_of(1, 9), nic_of(5, 5)], now_ms=AT + 60_000), boot_id="other")
    assert cells(rows_in(tmp_path, "host_metrics"), "ts_ms", "cpu_util") == [
        (AT + 1000, None),
        (AT + 9000, 10.0),
        (AT + 60_000, None),
    ]
    assert cells(rows_in(tmp_path, "link_metrics"), "rx_Bps", "tx_Bps") == [
        (None, None),
        (1000.0, 2000.0),
        (None, None),
    ]


def test_rows_are_in_order_even_if_the_second_boot_had_an_older_clock(tmp_path: Path) -> None:
    def life(first_ms: int) -> list[Any]:
        rows: list[Row] = [process_of(7, 0), process_of(5, 0)]
        samples = [sample_of(7, 1), sample_of(5, 1)]
        return [block_of(first_ms, [*rows, *samples, host_of(0, 1)]), block_of(first_ms + 1000, [host_of(0, 2)])]

    write_session(tmp_path, *life(5000))
    write_session(tmp_path, *life(4400), boot_id="other")
    late = NodeEvent(10, "xid", "0000:3b", 79, None, "Xid 79", "kernel")
    parse_session(tmp_path, block_of(9000, [late]), boot_id="other")
    for table in ("host_metrics", "proc_metrics", "proc_rss", "node_events"):
        rows = rows_in(tmp_path, table)
        assert rows == sorted(rows, key=key_of(table)), table
    assert [row["ts_ms"] - AT for row in rows_in(tmp_path, "host_metrics")] == [4400, 5000, 5400, 6000]
    assert cells(rows_in(tmp_path, "proc_metrics"), "pid") == [(5,), (7,)] * 4
    assert rows_in(tmp_path, "node_events")[0]["ts_ms"] == AT + 10


def test_what_the_collector_costs_stands_beside_the_statistics_of_applications(tmp_path: Path) -> None:
    write_session(tmp_path, block_of(1000, [Cost(0.5, 4096, 0.01, 3, 99, 1, 2, 3)]))
    write_lines(
        tmp_path / "system_stats.jsonl", [{"ts_ms": AT + 500, "node_id": "n1", "metric": "in_flight", "value": 0}]
    )
    audit = parse(tmp_path)
    assert cells(rows_in(tmp_path, "system_stats"), "ts_ms", "node", "metric", "value", "instance_id") == [
        (AT + 500, "n1", "in_flight", 0, None),
        (AT + 1000, "n1", "collector_cpu_seconds_total", 0.5, "collector-1"),
        (AT + 1000, "n1", "collector_resident_bytes", 4096, "collector-1"),
        (AT + 1000, "n1", "collector_rows_total", 3, "collector-1"),
        (AT + 1000, "n1", "collector_tick_seconds", 0.01, "collector-1"),
        (AT + 1000, "n1", "collector_ticks_dropped_total", 2, "collector-1"),
        (AT + 1000, "n1", "collector_ticks_missed_total", 1, "collector-1"),
        (AT + 1000, "n1", "collector_values_dropped_total", 3, "collector-1"),
        (AT + 1000, "n1", "collector_written_bytes_total", 99, "collector-1"),
    ]
    assert audit["dropped"] == {"ticks_missed": 1, "ticks_dropped": 2, "values_dropped": 3}


def test_columns_of_another_gpulake_are_read_by_name(tmp_path: Path) -> None:
    header = header_of()
    columns = header["columns"] | {"nic": ["tx_bytes_total", "iface", "rx_bytes_total"], "moon": ["phase"]}
    first, second = block_of(1000, []), block_of(2000, [])
    first.rows["nic"] = [[10, "eth0", 20]]  # type: ignore[index]
    second.rows["nic"] = [[30, "eth0"]]  # type: ignore[index]
    second.rows["moon"] = [["full"], ["new"]]  # type: ignore[index]
    write_session(tmp_path, first, second, columns=columns)
    audit = parse(tmp_path)
    assert cells(rows_in(tmp_path, "link_metrics"), "link", "rx_Bps", "tx_Bps", "is_up") == [
        ("n1.eth0", None, None, None),
        ("n1.eth0", None, 20.0, None),
    ]
    assert audit["parse"]["unknown_kinds"] == {"moon": 2}


def test_rows_that_lack_what_they_are_about_cost_only_themselves(tmp_path: Path) -> None:
    block = block_of(1000, [])
    block.rows["process"] = [["id"], ["id", 5, 1, "sh", 3]]  # type: ignore[index]
    block.rows["process_sample"] = [[], [5, 7]]  # type: ignore[index]
    block.rows["process_end"] = [[]]  # type: ignore[index]
    parse_session(tmp_path, block)
    assert cells(rows_in(tmp_path, "proc_metrics"), "pid", "proc_id", "utime", "stime", "cpu_ms") == [
        (5, "id", 7, None, None)
    ]
    assert rows_in(tmp_path, "proc_rss") == []


def test_damage_costs_its_block_and_is_reported(tmp_path: Path) -> None:
    write_session(tmp_path, *[block_of(at, [host_of(at, 0)]) for at in (1000, 2000, 3000)])
    (segment,) = (tmp_path / "segments").iterdir()
    text = segment.read_bytes()
    segment.write_bytes(text.replace(b'"elapsed_ms":2000', b'"elapsed_ms":2001') + b'00000000 {"tick"')
    audit = parse(tmp_path)
    assert cells(rows_in(tmp_path, "host_metrics"), "ts_ms") == [(AT + 1000,), (AT + 3000,)]
    assert (audit["parse"]["damaged_blocks"], audit["parse"]["torn_tails"]) == (1, 1)


def test_parsing_twice_gives_the_same_bytes_and_a_crash_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse_session(tmp_path, *[block_of(at, [host_of(at, 1), nic_of(at, at)]) for at in (1000, 2000)])
    old = files_in(tmp_path / "cctf")
    parse(tmp_path)
    assert files_in(tmp_path / "cctf") == old

    write_session(tmp_path, block_of(3000, [host_of(3000, 1), nic_of(3000, 1)]))
    put_in_place = disk.replace

    def crash_at_links(source: Path, path: Path) -> None:
        if path.name == "link_metrics.jsonl":
            raise OSError(28, "No space left on device")
        put_in_place(source, path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", crash_at_links)
        with pytest.raises(GpulakeError, match="No space left"):
            parse(tmp_path)
    between = files_in(tmp_path / "cctf")
    parse(tmp_path)
    new = files_in(tmp_path / "cctf")
    assert between.keys() >= old.keys()
    assert {name for name in old if between[name] not in (old[name], new[name])} == set()
    assert between["link_metrics.jsonl"] == old["link_metrics.jsonl"] != new["link_metrics.jsonl"]
    assert new.keys() == old.keys()


def test_no_file_of_an_earlier_parse_stays_that_this_one_would_not_write(tmp_path: Path) -> None:
    write_lines(tmp_path / "system_stats.jsonl", [{"ts_ms": AT, "metric": "in_flight", "value": 1}])
    parse_session(tmp_path, block_of(1000, [host_of(0, 0)]))
    (tmp_path / "system_stats.jsonl").unlink()
    again = parse(tmp_path)
    assert "system_stats" not in again["files"]
    assert not (tmp_path / "cctf" / "system_stats.jsonl").exists()


def test_two_parses_of_one_run_do_not_meet(tmp_path: Path) -> None:
    write_session(tmp_path, block_of(1000, [host_of(1, 1)]))
    with files.locked(tmp_path / "cctf"), pytest.raises(UsageError, match="being written already"):
        parse(tmp_path)


def test_the_four_documents_are_always_there(tmp_path: Path) -> None:
    parse_session(tmp_path, block_of(1000, []))
    assert {"nodes.json", "links.json", "run_meta.json", "module_inventory.json"} <= files_in(tmp_path / "cctf").keys()
    assert document_in(tmp_path, "module_inventory.json") == []
    assert document_in(tmp_path, "run_meta.json")["run_id"] == "night1"


def test_the_files_of_the_reference_parse_alone(tmp_path: Path) -> None:
    meta = {
        "run_id": "r1",
        "node": "vm0",
        "stage": "cloud",
        "host": "h",
        "iface": "ens2",
        "cpu_cores": 4,
        "mem_mb": 1024,
    }
    (tmp_path / "node_meta.json").write_text(json.dumps(meta))
    (tmp_path / "link_meta.json").write_text('{"iface": "ens2", "BW_bps": 1000, "PR_s": null}')
    (tmp_path / "run_meta.json").write_text('{"run_id": "r1", "rate": 50}')
    write_lines(
        tmp_path / "proc_metrics.jsonl",
        [
            {"ts_ms": 3000, "pid": 5, "rss_kb": 9, "utime": 12, "stime": 1},
            {"ts_ms": 1000, "pid": 5, "rss_kb": 8, "utime": 10, "stime": 0},
            {"ts_ms": 1000, "pid": 5, "rss_kb": 8, "utime": 9, "stime": 0},
            {"ts_ms": 4000, "pid": 5, "rss_kb": 9, "utime": 1, "stime": 1},
            {"ts_ms": "soon", "pid": 5},
        ],
    )
    write_lines(tmp_path / "events.ffmpeg.jsonl", [{"ts_end": 3500, "pid": 5, "module_id": "ffmpeg"}])
    audit = parse(tmp_path)
    assert cells(rows_in(tmp_path, "proc_metrics"), "ts_ms", "pid", "node", "utime", "cpu_ms", "dt_ms") == [
        (1000, 5, "vm0", 10, None, None),
        (3000, 5, "vm0", 12, 30, 2000),
        (4000, 5, "vm0", 1, None, None),
    ]
    assert cells(rows_in(tmp_path, "proc_cpu"), "ts_ms", "cpu_ms") == [(3000, 30)]
    assert cells(rows_in(tmp_path, "invocations"), "node", "stage", "pid") == [("vm0", "cloud", 5)]
    assert document_in(tmp_path, "links.json")[0]["BW_bps"] == 1000
    assert document_in(tmp_path, "run_meta.json")["meta"]["rate"] == 50
    assert document_in(tmp_path, "module_inventory.json")[0]["module_id"] == "ffmpeg"
    assert audit["processes"]["pids_matched_ratio"] == 1
    assert cells(rows_in(tmp_path, "rejected"), "file", "line", "reason") == [
        ("proc_metrics.jsonl", 5, "ts_ms is missing")
    ]


def test_a_folder_without_a_run_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing that a collector left"):
        parse(tmp_path)
    with pytest.raises(InputError, match="no run directory"):
        parse(tmp_path / "none")


def test_the_command_prints_what_it_wrote(tmp_path: Path) -> None:
    write_session(tmp_path, block_of(1000, [host_of(1, 1)]))
    result = CliRunner().invoke(root, ["collect", "parse", str(tmp_path)])
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["host_metrics                  1 rows", str(tmp_path / "cctf")],
    )
    as_json = CliRunner().invoke(root, ["collect", "parse", str(tmp_path), "--json"])
    assert json.loads(as_json.stdout)["files"]["host_metrics"]["rows"] == 1
