"""From what landed to an incident: detectors on the lake's own tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bench.scoring.traces import Injected, TraceScore, document, generated, is_about, table

from conftest import built_from, rows_of
from detect.scenes import noise
from gpulake.core.config import Config
from gpulake.core.types import Finding
from gpulake.detect.watchlist import rescore
from gpulake.flow import Flow
from gpulake.lake import Lake
from model.telemetry_by_hand import Gpu, gpu_file
from model.test_gold_telemetry import nanogpt

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
HOT_FROM = 120


def gpus(seconds: range) -> list[Gpu]:
    """Eight GPUs; after two minutes the third is hot."""
    drawn = iter(noise(8 * len(seconds), seed=seconds.start))
    return [
        Gpu(
            f"GPU-{gpu}",
            round((BEGIN + timedelta(seconds=second)).timestamp() * 1000),
            node="node-1",
            gpu_busy_ratio=1.0,
            temperature_celsius=round(80.0 if gpu == 2 and second >= HOT_FROM else 50.0 + next(drawn), 1),
        )
        for second in seconds
        for gpu in range(8)
    ]


@pytest.mark.slow
def test_a_hot_gpu_is_one_incident_that_a_later_build_updates(tmp_path: Path) -> None:
    lake = built_from(tmp_path, {"a/gpu_metrics.jsonl": gpu_file(gpus(range(300)))})
    (first,) = rows_of(lake, "FROM findings")
    reported = {name: first[name] for name in ("kind", "subject", "node", "severity", "watch", "series", "cluster_id")}
    assert reported == {
        "kind": "hot_gpu",
        "subject": "node-1 GPU-2",
        "node": "node-1",
        "severity": "warning",
        "watch": "hot_gpus",
        "series": "node-1",
        "cluster_id": "local",
    }
    (incident,) = rows_of(lake, "FROM incidents")
    assert (incident["kind"], incident["severity"], incident["node"]) == ("hot_gpu", "warning", "node-1")
    assert incident["state"] == "open"
    began = incident["began_at"]
    assert began == first["began_at"]
    assert isinstance(began, datetime)
    assert BEGIN + timedelta(seconds=HOT_FROM) <= began <= BEGIN + timedelta(seconds=HOT_FROM + 70)
    assert incident["last_seen_at"] == first["ended_at"]

    more = tmp_path / "more" / "gpu_metrics.jsonl"
    more.parent.mkdir()
    more.write_text(gpu_file(gpus(range(300, 3600))))
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([more])
    assert flow.build().is_new
    (later,) = rows_of(lake, "FROM findings")
    assert (later["began_at"], later["finding_id"]) == (first["began_at"], first["finding_id"])
    (after,) = rows_of(lake, "FROM incidents")
    assert (after["incident_id"], after["began_at"]) == (incident["incident_id"], began)
    assert after["last_seen_at"] == later["ended_at"]
    assert later["ended_at"] == BEGIN + timedelta(seconds=3600)


@pytest.mark.slow
def test_findings_are_read_back_as_they_were_written(built_lake: Config) -> None:
    written = Flow(replace(built_lake, threads=2)).build([], is_forced=True).findings
    read = Flow(built_lake).build().findings
    assert written
    assert any(one.watch for one in written)
    assert read == written
    assert all(one.began_at.utcoffset() == timedelta(0) for one in read or () if one.began_at)


@pytest.mark.slow
def test_findings_alone_come_from_the_watches(built_lake: Config) -> None:
    every = rows_of(Lake(built_lake), "SELECT * FROM findings ORDER BY rank")
    (built_lake.lake / "builds" / "CURRENT").unlink()
    Flow(built_lake).build(["findings"])
    alone = rows_of(Lake(built_lake), "SELECT * FROM findings ORDER BY rank")
    assert list(map(rounded, alone)) == list(map(rounded, every))


def rounded(row: Mapping[str, object]) -> dict[str, object]:
    """Sums of fractions differ in their last digits with the order of their parts."""
    return {name: float(f"{value:.9g}") if isinstance(value, float) else value for name, value in row.items()}


def test_the_series_of_a_finding_in_the_lake_is_had_again(built_lake: Config) -> None:
    with Lake(built_lake).reading() as reader:
        rows = reader.query("SELECT * FROM findings WHERE watch != ''").to_pylist()
        assert rows
        for row in rows:
            given = rescore(reader.query, row)
            assert given is not None
            series, scores = given
            begin = round(row["began_at"].timestamp() * 1000)
            assert scores.is_flagged[series.times_ms >= begin].any()


@pytest.mark.slow
@pytest.mark.real
def test_the_gpu_that_really_ran_hot_is_found_and_no_other(tmp_path: Path, real_data: Path) -> None:
    lake = built_from(tmp_path, {"a/gpu_metrics.jsonl": gpu_file(nanogpt(real_data / "nanogpt_8gpu_telemetry"))})
    found = rows_of(lake, "SELECT kind, subject FROM findings")
    assert found == [{"kind": "hot_gpu", "subject": "a GPU-1"}]


@pytest.mark.slow
@pytest.mark.real
def test_a_recorded_gpu_that_was_well_is_left_alone(tmp_path: Path, real_data: Path) -> None:
    rows = [json.loads(line) for line in (real_data / "lab" / "telemetry.jsonl").read_text().splitlines()[1:]]
    samples = [
        Gpu(
            "GPU-0",
            row["ts_ms"],
            gpu_busy_ratio=row["gpu_util"] / 100,
            temperature_celsius=row["temp_c"],
            power_watts=row["power_mw"] / 1000,
            ecc_corrected_total=row["ecc_corrected"],
        )
        for row in rows
    ]
    assert rows_of(built_from(tmp_path, {"a/gpu_metrics.jsonl": gpu_file(samples)}), "FROM findings") == []


TRUTH = {
    "kind": "slow_machine",
    "subject": "machine",
    "subject_ids": ["m1"],
    "first_second": BEGIN.timestamp(),
    "last_second": BEGIN.timestamp() + 86_400,
}
FOUND = Finding(
    *("slow_machine", "m1", "", "", 2.0, "times"),
    began_at=BEGIN + timedelta(hours=3),
    ended_at=BEGIN + timedelta(hours=9),
)


def test_a_finding_is_about_an_incident_by_kind_subject_and_time() -> None:
    assert is_about(FOUND, TRUTH)
    assert not is_about(replace(FOUND, kind="hot_gpu"), TRUTH)
    assert not is_about(replace(FOUND, subject="m2"), TRUTH)
    assert not is_about(replace(FOUND, began_at=BEGIN + timedelta(days=2), ended_at=BEGIN + timedelta(days=3)), TRUTH)
    assert not is_about(replace(FOUND, began_at=None), TRUTH)


def test_what_was_found_is_counted_by_kind_and_strength() -> None:
    strong = (Injected("dead_rack", 1.0, True), Injected("slow_machine", 1.0, True))
    faint = (Injected("dead_rack", 0.5, True), Injected("slow_machine", 0.5, False))
    reported = document([TraceScore("a", strong, (), 7.0), TraceScore("b", faint, ("a false one",), 7.0)])
    none = {"injected": 0, "found": 0}
    others = {"hot_weekend": none, "runaway_user": none, "failure_burst": none}
    one, two = {"injected": 1, "found": 1}, {"injected": 2, "found": 2}
    assert reported == {
        "traces": 2,
        "injected": 4,
        "found": 3,
        "recall": 0.75,
        "false_alarms": 1,
        "weeks": 14.0,
        "false_alarms_a_week": 1 / 14,
        "by_strength": [
            {"strength": 1.0, "all": two, **others, "dead_rack": one, "slow_machine": one},
            {"strength": 0.5, "all": {"injected": 2, "found": 1}, **others}
            | {"dead_rack": one, "slow_machine": {"injected": 1, "found": 0}},
        ],
        "missed": ["b: slow_machine"],
    }
    heads, *lines = (line.split("  ") for line in table(reported["by_strength"]))
    assert [cell.strip() for cell in heads if cell] == [
        *("strength", "all", "hot_weekend", "runaway_user", "failure_burst", "dead_rack", "slow_machine")
    ]
    assert [[cell.strip() for cell in line if cell] for line in lines] == [
        ["100%", "2 of 2", "0 of 0", "0 of 0", "0 of 0", "1 of 1", "1 of 1"],
        ["50%", "1 of 2", "0 of 0", "0 of 0", "0 of 0", "1 of 1", "0 of 1"],
    ]
    assert table([]) == []


@pytest.mark.slow
def test_what_was_injected_is_found_and_little_else() -> None:
    reported = document([generated(8_000, 21, 1.0), generated(8_000, 23, 0.5), generated(8_000, 22, None)])
    assert reported["injected"] == 10
    assert [row["strength"] for row in reported["by_strength"]] == [1.0, 0.5]
    assert reported["recall"] >= 0.9
    assert reported["false_alarms_a_week"] <= 1
