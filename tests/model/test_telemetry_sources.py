"""Telemetry from one end to the other: what each source says, in silver and in gold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import built_from, count_of, rows_of
from gpulake.core.config import Cluster, Config
from gpulake.flow import Flow
from gpulake.lake import Lake
from model.telemetry_by_hand import Gpu, gpu_file, lines

MIDNIGHT_MS = 1_767_205_800_000
DCGM = """# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-1",{host}="gpu01",pci_bus_id="00000000:3B:00.0",modelName="H100"}} {busy}
DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-1",{host}="gpu01"}} 60
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="0",UUID="GPU-1",{host}="gpu01"}} {energy}
DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="GPU-1",{host}="gpu01"}} 100
DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-1",{host}="gpu01"}} {xid}
DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="GPU-2",{host}="gpu01"}} 0
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="2",UUID="GPU-3",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",{host}="gpu01"}} 0.25
DCGM_FI_DEV_POWER_USAGE{{gpu="2",UUID="GPU-3",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",{host}="gpu01"}} 300
DCGM_FI_DEV_POWER_USAGE{{gpu="2",UUID="GPU-3",GPU_I_PROFILE="1g.10gb",GPU_I_ID="8",{host}="gpu01"}} 300
"""
SACCT = (
    "JobID|JobIDRaw|User|Cluster|State|Submit|Eligible|Start|End|NNodes|AllocTRES|NodeList\n"
    "7|7|ann|Tiger|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:00|2026-03-01T10:00:00|2026-03-01T11:00:00|1|"
    "gres/gpu=3|gpu01\n"
)
AT = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)


def pages(folder: Path, texts: Mapping[str, tuple[str, float]]) -> list[Path]:
    """Files, each written so many seconds after the begin."""
    paths = []
    for file, (text, seconds) in texts.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (AT.timestamp() + seconds, AT.timestamp() + seconds))
        paths.append(path)
    return paths


def built(folder: Path, paths: Sequence[Path], **others: Any) -> Lake:
    flow = Flow(Config(lake=folder / "lake", threads=1, **others))
    flow.land(paths)
    flow.build()
    return flow.lake


@pytest.mark.slow
def test_scrapes_of_dcgm_meet_the_job_that_the_scheduler_put_there(tmp_path: Path) -> None:
    texts = {
        f"{number}/gpu.prom": (
            DCGM.format(host=host, busy=number, energy=1000 * energy, xid=xid), 15.0 * number
        )
        for number, (host, energy, xid) in enumerate([("Hostname", 0, 0), ("hostname", 1500, 0), ("hostname", 10, 79)])
    }  # fmt: skip
    lake = built(tmp_path, pages(tmp_path, {**texts, "sacct.txt": (SACCT, 0.0)}))
    assert rows_of(lake, "SELECT node_id, cluster_id, cluster_basis FROM silver_nodes") == [
        {"node_id": "gpu01", "cluster_id": "tiger", "cluster_basis": "scheduler"}
    ]
    query = "SELECT gpu_id, busy_ratio, busy_basis, covers_seconds, energy_joules, energy_basis, owner_kind"
    assert [
        tuple(row.values()) for row in rows_of(lake, f"{query} FROM silver_gpu_samples ORDER BY gpu_id, sampled_at")
    ] == [
        ("GPU-1", 0.0, "utilisation", 15.0, 1500.0, "counter", "unknown"),
        ("GPU-1", 0.01, "utilisation", 15.0, 1500.0, "power", "unattributed"),  # the counter began anew
        ("GPU-1", 0.02, "utilisation", 0.0, 0.0, "power", "unattributed"),
        *[("GPU-2", 0.0, "utilisation", seconds, None, None, "unknown") for seconds in (15.0, 15.0, 0.0)],
        # Two MIG instances share what their board draws.
        *[("GPU-3/7", 0.25, "graphics_engine", s, 150 * s, "power", "unattributed") for s in (15.0, 15.0, 0.0)],
        *[("GPU-3/8", None, None, s, 150 * s, "power", "unknown") for s in (15.0, 15.0, 0.0)],
    ]
    hours = 30 / 3600
    query = "SELECT gpu_id, held_hours, held_idle_hours, idle_by_scheduler_hours, free_hours, unmeasured_hours"
    rows = [tuple(row.values()) for row in rows_of(lake, f"{query} FROM gold_idle_gpus_daily ORDER BY gpu_id")]
    # Three of four are held: what is in use, and the rest is shared out, among three at first and then among two.
    first, then = hours / 3, hours / 4
    assert rows == [
        ("GPU-1", *(pytest.approx(each) for each in (first + hours / 2, first, first, hours / 6, 0))),
        ("GPU-2", *(pytest.approx(each) for each in (first + then, first + then, first + then, hours * 5 / 12, 0))),
        ("GPU-3/7", *(pytest.approx(each) for each in (hours, 0, 0, 0, 0))),
        ("GPU-3/8", *(pytest.approx(each) for each in (0, 0, 0, 0, hours))),
    ]
    query = "SELECT gpu_id, xid_events, xid_counts, is_spike FROM gold_gpu_errors_daily WHERE errors > 0"
    assert rows_of(lake, query) == [{"gpu_id": "GPU-1", "xid_events": 1, "xid_counts": '{"79": 1}', "is_spike": True}]


NODE = """# TYPE node_cpu_seconds_total counter
node_uname_info{{nodename="web01"}} 1
node_time_seconds {time}
node_cpu_seconds_total{{cpu="0",mode="idle"}} {idle}
node_cpu_seconds_total{{cpu="0",mode="user"}} {user}
node_load1 0
node_memory_MemTotal_bytes 4e9
node_disk_read_bytes_total{{device="sda"}} 100
node_disk_read_bytes_total{{device="sda1"}} 60
node_disk_read_bytes_total{{device="dm-0"}} 60
node_network_receive_bytes_total{{device="eth0"}} {received}
node_network_transmit_bytes_total{{device="eth0"}} 0
node_network_up{{device="eth0"}} 0
"""


@pytest.mark.slow
def test_pages_of_node_exporter_are_hosts_and_links(tmp_path: Path) -> None:
    begin = AT.timestamp()
    texts = {
        f"{number}/scrape.prom": (NODE.format(time=begin + 10 * number, idle=idle, user=user, received=received), 0.0)
        for number, (idle, user, received) in enumerate([(100, 50, 1000), (107.5, 52.5, 6000), (1, 0, 10)])
    }
    lake = built(tmp_path, pages(tmp_path, texts))
    query = (
        "SELECT node_id, epoch(sampled_at) AS at, covers_seconds, cpu_busy_ratio, cpu_user_ratio, load_1m,"
        " disk_read_bytes_total FROM silver_host_samples ORDER BY sampled_at"
    )
    assert [tuple(row.values()) for row in rows_of(lake, query)] == [
        ("web01", begin, 10.0, None, None, 0.0, 100),
        ("web01", begin + 10, 10.0, 0.25, 0.25, 0.0, 100),
        ("web01", begin + 20, 0.0, None, None, 0.0, 100),  # rebooted
    ]
    query = "SELECT interface, rx_bytes_per_second AS rx, tx_bytes_per_second AS tx, is_up FROM silver_link_samples"
    assert [tuple(row.values()) for row in rows_of(lake, f"{query} ORDER BY sampled_at")] == [
        ("eth0", None, None, False),
        ("eth0", 500.0, 0.0, False),
        ("eth0", None, 0.0, False),
    ]


@pytest.mark.slow
def test_a_snapshot_is_of_the_clock_of_its_cluster(tmp_path: Path) -> None:
    text = "timestamp, index, uuid, temperature.gpu, clocks_throttle_reasons.active, utilization.gpu [%]\n"
    text += "2026/03/01 10:00:00.000, 0, GPU-1, [N/A], 0x0000000000000001, 0 %\n"
    machines = "cluster,machine,gpu_type,gpus,cores,memory_gib\nTiger,gpu01,H100,8,96,2048\n"
    files = pages(tmp_path, {"gpu01.csv": (text, 0.0), "machines.csv": (machines, 0.0)})
    lake = built(tmp_path, files, clusters={"tiger": Cluster(time_zone="America/New_York")})
    query = "SELECT cluster_id, node_id, epoch(sampled_at) AS at, busy_ratio, temperature_celsius, clock_event_reasons"
    assert [tuple(row.values()) for row in rows_of(lake, f"{query} FROM silver_gpu_samples")] == [
        ("tiger", "gpu01", AT.timestamp() + 5 * 3600, 0.0, None, 1)
    ]


@pytest.mark.slow
def test_a_poll_beside_the_collector_takes_nothing_from_the_job(tmp_path: Path) -> None:
    begin_ms = int(AT.timestamp() * 1000)
    first = Gpu("GPU-1", begin_ms, "gpu01", gpu_busy_ratio=0.0, owner_kind="slurm", owner_id="7")
    samples = [first._replace(ts_ms=begin_ms + 1000 * at, energy_joules_total=200.0 * at) for at in range(61)]
    # Each poll comes 100 ms after the collector, and they go on when it has ended.
    polls = "timestamp, uuid, utilization.gpu [%], power.draw [W]\n" + "".join(
        f"2026/03/01 10:0{at // 60}:{at % 60:02}.100, GPU-1, 90 %, 100 W\n" for at in range(91)
    )
    files = {"gpu01/cctf/gpu_metrics.jsonl": (gpu_file(samples), 0.0), "smi/gpu01.csv": (polls, 0.0)}
    lake = built(tmp_path, pages(tmp_path, files))
    query = "SELECT owner_kind, owner_id, gpu_hours * 3600, energy_joules, counted_ratio FROM gold_job_energy"
    assert [tuple(row.values()) for row in rows_of(lake, query)] == [
        ("slurm", "7", pytest.approx(60.1), pytest.approx(12_000.0), 1.0),
        ("unattributed", "unattributed", pytest.approx(30.0), pytest.approx(3_000.0), 0.0),
    ]
    query = "SELECT observed_hours * 3600, held_idle_hours * 3600, held_by_unknown_hours * 3600, free_hours"
    assert [tuple(row.values()) for row in rows_of(lake, f"{query} FROM gold_idle_gpus_daily")] == [
        (pytest.approx(90.1), pytest.approx(60.1), pytest.approx(30.0), 0.0)
    ]


@pytest.mark.slow
def test_gpus_that_are_polled_one_after_the_other_share_what_the_scheduler_holds(tmp_path: Path) -> None:
    header = "timestamp, index, uuid, utilization.gpu [%]\n"
    rows = "".join(f"2026/03/01 10:00:{at:02}.99{gpu}, {gpu}, GPU-{gpu}, 0 %\n" for at in range(31) for gpu in range(4))
    # The machine goes by two names, and three of its GPUs are held.
    other = '{"ts_ms": 1000, "node": "gpu01.example.org", "cpu_util": 0.0}\n'
    texts = {"gpu01.csv": header + rows, "sacct.txt": SACCT, "other/host_metrics.jsonl": other}
    lake = built(tmp_path, pages(tmp_path, {name: (text, 0.0) for name, text in texts.items()}))
    query = "SELECT gpu_id, idle_by_scheduler_hours * 3600, free_hours * 3600 FROM gold_idle_gpus_daily ORDER BY gpu_id"
    # The first polls come before all four are in view.
    assert [tuple(row.values()) for row in rows_of(lake, query)] == [
        (f"GPU-{gpu}", pytest.approx(22.5, abs=0.3), pytest.approx(7.5, abs=0.3)) for gpu in range(4)
    ]


@pytest.mark.slow
def test_energy_of_a_task_of_an_array_has_its_user(tmp_path: Path) -> None:
    rows = [Gpu("GPU-1", int(AT.timestamp() * 1000) + 1000 * at, "gpu01", power_watts=100.0) for at in range(3)]
    owned = [row._replace(owner_kind="slurm", owner_id="12") for row in rows]
    array = SACCT.replace("\n7|7|", "\n9_3|12|")
    files = {"gpu01/cctf/gpu_metrics.jsonl": (gpu_file(owned), 0.0), "sacct.txt": (array, 0.0)}
    lake = built(tmp_path, pages(tmp_path, files))
    query = "SELECT owner_id, user_id, status, energy_joules FROM gold_job_energy"
    assert [tuple(row.values()) for row in rows_of(lake, query)] == [("12", "ann", "succeeded", pytest.approx(200.0))]


LARGEST = 2**63 - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text", "query", "expected"),
    [
        (
            "proc_metrics.jsonl",
            lines([{"ts_ms": 1, "node": "a", "pid": 1, "rss_kb": LARGEST, "utime": LARGEST, "stime": LARGEST}]),
            "SELECT node_id, rss_bytes FROM silver_process_samples",
            {"node_id": "a", "rss_bytes": None},
        ),
        (
            "a.prom",
            'DCGM_FI_DEV_GPU_UTIL{gpu="99999999999999999999",UUID="g"} 0\nnode_time_seconds 1e300\n',
            "SELECT gpu_index, sampled_at FROM silver_gpu_samples",
            {"gpu_index": None, "sampled_at": AT},
        ),
        (
            "a.csv",
            "uuid, index, clocks_event_reasons.active\ng, 99999999999999999999, 0xFFFFFFFFFFFFFFFFFFFF\n",
            "SELECT gpu_index, clock_event_reasons FROM silver_gpu_samples",
            {"gpu_index": None, "clock_event_reasons": None},
        ),
        (
            "a.json",
            '{"card99999999999999999999": {"GPU use (%)": "0"}}',
            "SELECT gpu_index, busy_ratio FROM silver_gpu_samples",
            {"gpu_index": None, "busy_ratio": 0.0},
        ),
        (
            "gpu_metrics.jsonl",
            gpu_file([Gpu("g", at, ecc_corrected_total=at % 2 * (9 * 10**18 - 1)) for at in range(1, 7)]),
            "SELECT ecc_corrected, errors FROM gold_gpu_errors_daily",
            {"ecc_corrected": 10**15, "errors": 10**15},
        ),
    ],
)
def test_no_number_stops_a_build(tmp_path: Path, file: str, text: str, query: str, expected: dict[str, object]) -> None:
    lake = built(tmp_path, pages(tmp_path / "a", {file: (text, 0.0)}))
    assert rows_of(lake, query) == [expected]


@pytest.mark.slow
def test_a_run_of_the_first_era_is_whole(tmp_path: Path) -> None:
    host = [
        {"ts_ms": 1_000, "node": "vm0", "stage": "edge", "cpu_util": 0.0},
        {"ts_ms": 1_000, "node": "vm0", "stage": "edge", "mem_free_mb": 12.5},
        {"ts_ms": 2_000, "node": "vm0", "stage": "edge", "cpu_util": 100.0},
        {"ts_ms": 3_000, "node": "vm0", "stage": "edge", "cpu_util": 250.0},
    ]
    files = {
        "run/cctf/nodes.json": '[{"node_id": "vm0", "stage": "edge", "cpu_cores": 2, "mem_mb": 1024}]',
        "run/cctf/host_metrics.jsonl": lines(host),
        "run/cctf/proc_metrics.jsonl": lines(
            [{"ts_ms": 1000 * at, "pid": 7, "rss_kb": 4, "utime": 50 * at, "stime": 0} for at in (1, 2, 3)]
        ),
        "run/cctf/invocations.jsonl": lines(
            [{"trace_id": "t", "pid": 7, "ts_enqueue": 1000, "ts_start": 1500, "ts_end": 3000, "status": 0}] * 2
        ),
        "run/cctf/node_events.jsonl": lines(
            [{"ts_ms": 5, "node": "vm0", "kind": "xid", "code": 79, "subject": "PCI:0000:3b:00"}]
        ),
    }
    lake = built_from(tmp_path, files, telemetry_cluster="lab")
    query = "SELECT cluster_id, cpu_busy_ratio, memory_free_bytes, implausible_values FROM silver_host_samples"
    assert [tuple(row.values()) for row in rows_of(lake, f"{query} ORDER BY sampled_at")] == [
        ("lab", 0.0, 12_500_000, 0),
        ("lab", 1.0, None, 0),
        ("lab", None, None, 1),
    ]
    query = "SELECT cpu_cores, cpu_seconds, rss_bytes, covers_seconds FROM silver_process_samples ORDER BY sampled_at"
    assert [tuple(row.values()) for row in rows_of(lake, query)] == [
        (None, None, 4096, 1.0),
        (0.5, 0.5, 4096, 1.0),
        (0.5, 0.5, 4096, 0.0),
    ]
    query = "SELECT node_id, queue_seconds, service_seconds, response_seconds, status_code FROM silver_invocations"
    assert [tuple(row.values()) for row in rows_of(lake, query)] == [("vm0", 0.5, 1.5, 2.0, 0)]
    assert rows_of(lake, "SELECT dt, gpu_id, xid_events FROM gold_gpu_errors_daily") == [
        {"dt": date(1970, 1, 1), "gpu_id": "PCI:0000:3b:00", "xid_events": 1}
    ]


@pytest.mark.slow
def test_two_hosts_of_one_name_stay_two(tmp_path: Path) -> None:
    rows = [{"ts_ms": 1000, "node": "vm0", "host_id": host, "cpu_util": 10.0} for host in ("x", "y")]
    pids = [{"ts_ms": 1000, "node": "vm0", "host_id": host, "pid": 7, "rss_kb": 1} for host in ("x", "y")]
    files = {"host_metrics.jsonl": lines(rows), "proc_metrics.jsonl": lines(pids)}
    lake = built_from(tmp_path, files)
    assert count_of(lake, "silver_host_samples") == count_of(lake, "silver_process_samples") == 2
    assert rows_of(lake, "SELECT node_id, hosts FROM silver_nodes") == [{"node_id": "vm0", "hosts": 2}]


@pytest.mark.slow
def test_new_telemetry_and_one_more_day_of_a_trace_extend_the_build(trace: tuple[Path, object], tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    sample = Gpu("g", MIDNIGHT_MS, temperature_celsius=0.0)
    flow.land([trace[0], *pages(tmp_path / "one", {"gpu_metrics.jsonl": (gpu_file([sample]), 0.0)})])
    flow.build()
    flow.land(
        pages(tmp_path / "two", {"gpu_metrics.jsonl": (gpu_file([sample._replace(ts_ms=MIDNIGHT_MS + 5000)]), 0.0)})
    )
    assert flow.build().touched is not None
    assert rows_of(flow.lake, "SELECT round(observed_hours * 3600) AS s FROM gold_hot_gpus_daily") == [{"s": 5.0}]
    (last,) = rows_of(flow.lake, "SELECT epoch(observed_until) AS until FROM silver_clusters WHERE has_jobs")
    late = f"synth-{'a' * 18},{'b' * 60},u,Terminated,{last['until']},{float(str(last['until'])) + 60}\n"
    flow.land(pages(tmp_path / "three", {"pai_job_table.csv": (late, 0.0)}))
    assert flow.build().touched is not None
    assert rows_of(flow.lake, "SELECT round(observed_hours * 3600) AS s FROM gold_hot_gpus_daily") == [{"s": 5.0}]
