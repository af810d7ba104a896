"""Telemetry in silver and gold: against a naive reckoning, on real recordings, and from one end to the other."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import built_from, count_of, rows_of
from examples import cases
from gpulake.core.config import Cluster, Config
from gpulake.core.tables import bronze_tables
from gpulake.formats.plausible import RANGES
from gpulake.lake.engine import connect, create_table, name, surrogate_key
from gpulake.lake.types import engine_types
from gpulake.model.build import write_settings
from gpulake.model.plan import shipped_plan
from gpulake.model.pruning import pruned
from model import telemetry_by_hand as by_hand
from model.telemetry_by_hand import Gpu, gpu_file

ZONE = "Asia/Kolkata"
MIDNIGHT_MS = 1_767_205_800_000  # of the first of January 2026 in that zone
CONFIG = Config(clusters={"local": Cluster(time_zone=ZONE)}, hot_gpu_celsius=70.0, threads=1)
GOLD = ("hot_gpus_daily", "throttled_gpus_daily", "gpu_errors_daily", "job_energy", "idle_gpus_daily")
GIVEN = (
    *("silver_machines", "silver_instances", "silver_holdings", "silver_jobs"),
    *("silver_pod_runs", "silver_pod_owners", "silver_held_gpus"),
)


def key_of(cluster: str, node: str) -> str:
    return surrogate_key(f"'{cluster}'", f"'{node}'")


def gold_of(samples: Sequence[Gpu], held: Sequence[tuple[float, int, int]] = ()) -> dict[str, list[dict[str, Any]]]:
    """The gold tables of these samples, by the plan's own SQL on a bench of its own."""
    with connect("1GB", 1, Path("spill")) as bench:
        bench.execute("ATTACH ':memory:' AS landed")
        bench.execute("ATTACH ':memory:' AS lake")
        for table in bronze_tables().values():
            rows = [sample._asdict() for sample in samples] if table.name == "bronze_gpu_metrics" else []
            create_table(bench, f"landed.main.{table.name}", engine_types(table), rows)
        write_settings(bench, CONFIG)
        plan = shipped_plan()
        wanted = plan.select([f"gold_{table}" for table in GOLD]).models
        empty = bronze_tables().keys() - {"bronze_gpu_metrics"}
        for model in wanted:
            if model.name in GIVEN:
                create_table(bench, f"lake.main.{model.name}", {each.name: each.type for each in model.columns}, [])
        for gpus, begin, end in held:
            bench.execute(
                "INSERT INTO lake.main.silver_holdings"
                " (cluster_id, machine_key, gpus, held_from, held_until, held_seconds)"
                f" SELECT 'local', {key_of('local', 'a')}, {gpus}, to_timestamp({begin / 1000}),"
                f" to_timestamp({end / 1000}), 1"
            )
        for model in wanted:
            if {"silver_gpu_samples", "silver_nodes"} & {model.name, *model.depends_on} or "events" in model.name:
                sql = pruned(model.sql, plan.steps, empty)
                bench.execute(f"CREATE TABLE lake.main.{name(model.name)} AS {sql}")
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
                    memory_used_bytes=draw(maybe() | st.sampled_from([0, 2**30 - 1, 2**30])),
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


@pytest.mark.slow
@settings(max_examples=cases(40), suppress_health_check=[HealthCheck.too_slow])
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.real
def test_a_recorded_run_has_its_energy_to_the_joule(tmp_path: Path, real_data: Path) -> None:
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
    # What still counts as busy just after a job has ended has an owner that nothing names.
    others = {"nobody", "unattributed", "unseen"}
    assert {row["owner_id"] for row in energies} == {job for job, _, _ in jobs} | others
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
