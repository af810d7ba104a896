"""Telemetry in silver and gold: against a naive reckoning, on real recordings, and from one end to the other."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import built_from, count_of, rows_of
from gpulake.core.config import Cluster, Config
from gpulake.core.plausible import RANGES
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.lake.engine import connect, create_table, name
from gpulake.lake.types import engine_types
from gpulake.model.build import write_settings
from gpulake.model.plan import shipped_plan
from model import telemetry_by_hand as by_hand
from model.telemetry_by_hand import Gpu

ZONE = "Asia/Kolkata"
MIDNIGHT_MS = 1_767_205_800_000  # of the first of January 2026 in that zone
CONFIG = Config(clusters={"local": Cluster(time_zone=ZONE)}, hot_gpu_celsius=70.0, threads=1)
GOLD = ("hot_gpus_daily", "throttled_gpus_daily", "gpu_errors_daily", "job_energy", "idle_gpus_daily")
GIVEN = ("silver_machines", "silver_instances", "silver_holdings", "silver_jobs")


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps({key: value for key, value in row.items() if value is not None}) + "\n" for row in rows)


def gpu_file(samples: Sequence[Gpu]) -> str:
    return lines([sample._asdict() for sample in samples])


def key_of(cluster: str, node: str) -> str:
    return f"cast(hash('{cluster}', '{node}') >> 1 as bigint)"


def gold_of(samples: Sequence[Gpu], held: Sequence[tuple[float, int, int]] = ()) -> dict[str, list[dict[str, Any]]]:
    """The gold tables of these samples, by the plan's own SQL on a bench of its own."""
    with connect("1GB", 1, Path("spill")) as bench:
        bench.execute("ATTACH ':memory:' AS landed")
        bench.execute("ATTACH ':memory:' AS lake")
        for table in bronze_tables().values():
            rows = [sample._asdict() for sample in samples] if table.name == "bronze_gpu_metrics" else []
            create_table(bench, f"landed.main.{table.name}", engine_types(table), rows)
        write_settings(bench, CONFIG)
        wanted = shipped_plan().select([f"gold_{table}" for table in GOLD]).models
        for model in wanted:
            if model.name in GIVEN:
                create_table(bench, f"lake.main.{model.name}", {each.name: each.type for each in model.columns}, [])
        for gpus, begin, end in held:
            bench.execute(
                "INSERT INTO lake.main.silver_holdings (machine_key, gpus, held_from, held_until, held_seconds)"
                f" SELECT {key_of('local', 'a')}, {gpus}, to_timestamp({begin / 1000}), to_timestamp({end / 1000}), 1"
            )
        for model in wanted:
            if {"silver_gpu_samples", "silver_nodes"} & {model.name, *model.depends_on} or "events" in model.name:
                bench.execute(f"CREATE TABLE lake.main.{name(model.name)} AS {model.sql}")
        return {table: bench.execute(f"FROM lake.main.gold_{table}").to_arrow_table().to_pylist() for table in GOLD}


def same(rows: list[dict[str, Any]], expected: by_hand.Rows, keys: Sequence[str]) -> bool:
    found = {tuple(row[key] for key in keys): row for row in rows}
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        for column, value in values.items():
            got = found[key][column]
            assert got == (None if value is None else pytest.approx(value, rel=1e-6, abs=1e-6)), (key, column)
    return True


maybe = st.none
gaps = st.sampled_from([200, 1000, 1000, 1000, 15_000, 15_000, 60_000, 600_000, 3_000_000, 90_000_000])
owners = st.sampled_from(
    [(None, None, None), ("slurm", "7", "environment"), ("slurm", "7", "process"), ("unattributed", None, "process")]
)


@st.composite
def recordings(draw: st.DrawFn) -> list[Gpu]:
    """Samples of a few GPUs of one node around midnight: gaps, several rates, counters that begin anew, zeros."""
    samples = []
    moment = MIDNIGHT_MS - draw(st.sampled_from([100, 5_000, 3_600_000]))
    for gap in draw(st.lists(gaps, min_size=1, max_size=14)):
        for gpu in draw(st.sets(st.sampled_from(["g", "h", "i"]), min_size=1)):
            kind, owner, evidence = draw(owners)
            samples.append(
                Gpu(
                    gpu,
                    moment,
                    gpu_busy_ratio=draw(maybe() | st.sampled_from([0.0, 0.005, 0.5, 1.0])),
                    temperature_celsius=draw(maybe() | st.sampled_from([0.0, 40.0, 70.0, 90.0])),
                    slowdown_temperature_celsius=draw(st.sampled_from([None, None, 90.0])),
                    clock_event_reasons=draw(maybe() | st.sampled_from([0, 1, 2, 4, 8 + 64, 32 + 4, 128])),
                    energy_joules_total=draw(maybe() | st.sampled_from([0.0, 100.0, 250.0, 1000.0])),
                    power_watts=draw(maybe() | st.sampled_from([0.0, 70.0, 700.0])),
                    ecc_corrected_total=draw(maybe() | st.integers(0, 40)),
                    ecc_uncorrected_total=draw(maybe() | st.sampled_from([0, 0, 0, 1, 3])),
                    pcie_replays_total=draw(maybe() | st.integers(0, 3)),
                    remapped_rows_uncorrectable=draw(maybe() | st.integers(0, 2)),
                    processes=draw(maybe() | st.integers(0, 2)),
                    owner_kind=kind,
                    owner_id=owner,
                    owner_evidence=evidence,
                )
            )
        moment += gap
    return samples


holdings = st.lists(
    st.tuples(
        st.sampled_from([0.5, 1.0, 2.0, 8.0]),
        st.sampled_from([MIDNIGHT_MS - 3_600_000, MIDNIGHT_MS, MIDNIGHT_MS + 10_000]),
        st.sampled_from([MIDNIGHT_MS + 20_000, MIDNIGHT_MS + 90_000_000]),
    ),
    max_size=2,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(recordings(), holdings)
def test_gold_is_what_a_naive_reckoning_gives(samples: list[Gpu], held: list[tuple[float, int, int]]) -> None:
    gold = gold_of(samples, held)
    days = ("gpu_id", "dt")
    assert same(gold["hot_gpus_daily"], by_hand.hot(samples, ZONE, 70.0), days)
    assert same(gold["throttled_gpus_daily"], by_hand.throttled(samples, ZONE), days)
    assert same(gold["gpu_errors_daily"], by_hand.errors(samples, ZONE), days)
    assert same(gold["job_energy"], by_hand.energy(samples), ("owner_kind", "owner_id"))
    assert same(gold["idle_gpus_daily"], by_hand.idle(samples, ZONE, held, CONFIG.idle_gpu_ratio), days)


def test_what_can_be_is_the_same_in_python_and_in_the_models() -> None:
    sql = next(model.sql for model in shipped_plan().models if model.name == "silver_gpu_samples")
    for column, unit in (("power_watts", "_watts"), ("temperature_celsius", "_celsius"), ("sm_active_ratio", "_ratio")):
        least, most = RANGES[unit]
        assert f"case when {column} between {least:g} and {most:g} then" in sql


# Recordings of real machines


def nanogpt(folder: Path) -> list[Gpu]:
    samples = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                at = datetime.fromisoformat(row["timestamp"])
                samples.append(
                    Gpu(
                        f"GPU-{row['gpu_index']}",
                        round(at.timestamp() * 1000),
                        gpu_busy_ratio=float(row["utilization_gpu_percent"]) / 100,
                        temperature_celsius=float(row["temperature_C"]),
                        power_watts=float(row["power_W"]),
                    )
                )
    return samples


@pytest.mark.real
def test_the_gpu_that_really_ran_hot_comes_first(tmp_path: Path, real_data: Path) -> None:
    samples = nanogpt(real_data / "nanogpt_8gpu_telemetry")
    lake = built_from(tmp_path, {"a/gpu_metrics.jsonl": gpu_file(samples)}, hot_gpu_celsius=60.0)
    rows = rows_of(lake, "FROM gold_hot_gpus_daily ORDER BY fleet_rank")
    assert len(rows) == 8
    first, second = rows[0], rows[1]
    assert (first["gpu_id"], first["node_rank"]) == ("GPU-1", 1)
    assert float(str(first["mean_celsius"])) > float(str(second["mean_celsius"])) + 8
    assert float(str(first["mean_celsius"])) > float(str(first["node_median_celsius"])) + 13
    assert float(str(first["hot_hours"])) > 3 * float(str(second["hot_hours"]))
    expected = by_hand.hot(samples, "UTC", 60.0)
    assert same(rows, expected, ("gpu_id", "dt"))


def lab_samples(path: Path, jobs: Sequence[tuple[str, int, int]]) -> list[Gpu]:
    """Our own recording of an H200, each sample owned by the job of its time."""
    samples = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "meta" in row:
            continue
        owner = next((job for job, begin, end in jobs if begin <= row["ts_ms"] < end), None)
        samples.append(
            Gpu(
                "GPU-00000000-0000-0000-0000-000000000001",
                row["ts_ms"],
                node="h200",
                gpu_busy_ratio=row["gpu_util"] / 100,
                temperature_celsius=row["temp_c"],
                clock_event_reasons=row["throttle"],
                energy_joules_total=row["energy_mj"] / 1000,
                power_watts=row["power_mw"] / 1000,
                ecc_corrected_total=row["ecc_corrected"],
                ecc_uncorrected_total=row["ecc_uncorrected"],
                processes=len(row["procs"]),
                owner_kind="slurm" if owner else None,
                owner_id=owner,
                owner_evidence=("process" if row["procs"] else "environment") if owner else None,
            )
        )
    return samples


@pytest.mark.real
def test_a_recorded_run_is_told_to_the_joule(tmp_path: Path, real_data: Path) -> None:
    truth = [json.loads(line) for line in (real_data / "lab" / "truth.jsonl").read_text().splitlines()]
    jobs = [(row["id"], row["start_ms"], row["end_ms"]) for row in truth]
    first = lab_samples(real_data / "lab" / "telemetry.jsonl", jobs)
    second = lab_samples(real_data / "lab" / "phases" / "telemetry.jsonl", [])
    # The same run, landed by node and merged, counts once.
    files = {
        "one/cctf/gpu_metrics.jsonl": gpu_file(first),
        "two/cctf/gpu_metrics.jsonl": gpu_file(second),
        "all/cctf/gpu_metrics.jsonl": gpu_file([*first, *second]),
    }
    lake = built_from(tmp_path, files)
    assert count_of(lake, "bronze_gpu_metrics") == 2 * (len(first) + len(second))
    assert count_of(lake, "silver_gpu_samples") == len(first) + len(second)
    energies = rows_of(lake, "FROM gold_job_energy ORDER BY owner_kind, owner_id")
    assert same(energies, by_hand.energy([*first, *second]), ("owner_kind", "owner_id"))
    assert {row["owner_id"] for row in energies} == {job for job, _, _ in jobs} | {"nobody", "unseen"}
    # What the board's own counter says of each recording; it began anew in between.
    counted = sum((rows[-1].energy_joules_total or 0) - (rows[0].energy_joules_total or 0) for rows in (first, second))
    (total,) = rows_of(lake, "SELECT sum(energy_joules) AS joules FROM gold_job_energy")
    between = by_hand.covers([*first, *second])[len(first) - 1] * (first[-1].power_watts or 0)
    assert total["joules"] == pytest.approx(counted + between, rel=1e-6)
    (held,) = rows_of(lake, "FROM gold_idle_gpus_daily")
    expected = by_hand.idle([*first, *second], "UTC", [], 0.01)
    assert same([held], expected, ("gpu_id", "dt"))
    # Jobs hold the GPU while they start, load and stop; what fails early leaves it empty.
    assert 0.02 < float(str(held["held_empty_hours"])) < float(str(held["held_idle_hours"])) < 0.2
    (throttled,) = rows_of(lake, "SELECT observed_hours, throttled_hours, power_hours FROM gold_throttled_gpus_daily")
    assert same(
        rows_of(lake, "FROM gold_throttled_gpus_daily"), by_hand.throttled([*first, *second], "UTC"), ("gpu_id", "dt")
    )
    assert throttled["throttled_hours"] == throttled["power_hours"]
    (errors,) = rows_of(lake, "SELECT errors, is_spike FROM gold_gpu_errors_daily")
    assert errors == {"errors": 0, "is_spike": False}


# From one end to the other

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
        ("GPU-1", 0.01, "utilisation", 15.0, 1500.0, "power", "unknown"),  # the counter began anew
        ("GPU-1", 0.02, "utilisation", 0.0, 0.0, "power", "unknown"),
        *[("GPU-2", 0.0, "utilisation", seconds, None, None, "unknown") for seconds in (15.0, 15.0, 0.0)],
        # Two MIG instances share what their board draws.
        *[("GPU-3/7", 0.25, "graphics_engine", s, 150 * s, "power", "unknown") for s in (15.0, 15.0, 0.0)],
        *[("GPU-3/8", None, None, s, 150 * s, "power", "unknown") for s in (15.0, 15.0, 0.0)],
    ]
    hours = 30 / 3600
    query = "SELECT gpu_id, held_hours, held_idle_hours, idle_by_scheduler_hours, free_hours, unmeasured_hours"
    rows = [tuple(row.values()) for row in rows_of(lake, f"{query} FROM gold_idle_gpus_daily ORDER BY gpu_id")]
    # Three of four are held, and nothing says which.
    share = 0.75 * hours
    assert rows == [
        ("GPU-1", *(pytest.approx(each) for each in (share, share / 2, share / 2, hours / 4, 0))),
        ("GPU-2", *(pytest.approx(each) for each in (share, share, share, hours / 4, 0))),
        ("GPU-3/7", *(pytest.approx(each) for each in (share, 0, 0, hours / 4, 0))),
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


def test_two_hosts_of_one_name_stay_two(tmp_path: Path) -> None:
    rows = [{"ts_ms": 1000, "node": "vm0", "host_id": host, "cpu_util": 10.0} for host in ("x", "y")]
    pids = [{"ts_ms": 1000, "node": "vm0", "host_id": host, "pid": 7, "rss_kb": 1} for host in ("x", "y")]
    files = {"host_metrics.jsonl": lines(rows), "proc_metrics.jsonl": lines(pids)}
    lake = built_from(tmp_path, files)
    assert count_of(lake, "silver_host_samples") == count_of(lake, "silver_process_samples") == 2
    assert rows_of(lake, "SELECT node_id, hosts FROM silver_nodes") == [{"node_id": "vm0", "hosts": 2}]


def test_new_telemetry_leads_to_a_build_at_once_and_one_more_day_of_a_trace_does_not(
    trace: tuple[Path, object], tmp_path: Path
) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    sample = Gpu("g", MIDNIGHT_MS, temperature_celsius=0.0)
    flow.land([trace[0], *pages(tmp_path / "one", {"gpu_metrics.jsonl": (gpu_file([sample]), 0.0)})])
    flow.build()
    flow.land(
        pages(tmp_path / "two", {"gpu_metrics.jsonl": (gpu_file([sample._replace(ts_ms=MIDNIGHT_MS + 5000)]), 0.0)})
    )
    assert flow.build().touched is None
    assert rows_of(flow.lake, "SELECT round(observed_hours * 3600) AS s FROM gold_hot_gpus_daily") == [{"s": 5.0}]
    (last,) = rows_of(flow.lake, "SELECT epoch(observed_until) AS until FROM silver_clusters")
    late = f"{'a' * 24},{'b' * 60},u,Terminated,{last['until']},{float(str(last['until'])) + 60}\n"
    flow.land(pages(tmp_path / "three", {"pai_job_table.csv": (late, 0.0)}))
    assert flow.build().touched is not None
    assert rows_of(flow.lake, "SELECT round(observed_hours * 3600) AS s FROM gold_hot_gpus_daily") == [{"s": 5.0}]
