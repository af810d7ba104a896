"""Telemetry beside a trace: what its jobs would have looked like to a collector, and what goes wrong on purpose."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpulake.synth import TraceSummary, write_trace
from gpulake.synth.calibration import opened

Row = dict[str, Any]
BEGIN, END = 5_443_200, 5_443_200 + 43_200


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TraceSummary]:
    folder = tmp_path_factory.mktemp("told")
    return folder, write_trace(folder, jobs=10_000, seed=3, has_telemetry=True)


def rows_of(folder: Path, name: str) -> list[Row]:
    return [json.loads(line) for line in (folder / "telemetry" / f"{name}.jsonl").read_text().splitlines()]


def test_half_a_day_of_one_machine_of_each_type_is_reported(reported: tuple[Path, TraceSummary]) -> None:
    folder, summary = reported
    gpus = rows_of(folder, "gpu_metrics")
    assert {row["ts_ms"] for row in gpus} == {1000 * second for second in range(BEGIN, END, 120)}
    nodes = json.loads((folder / "telemetry" / "nodes.json").read_text())
    assert sorted(node["gpus"] for node in nodes) == [2, 2, 8, 8, 8]
    assert set(Counter(row["gpu_uuid"] for row in gpus).values()) == {360}
    listed = set(opened(folder).texts("pai_machine_spec", "machine"))
    assert {row["node"] for row in gpus} == {node["node_id"] for node in nodes} <= listed
    assert folder / "telemetry" / "gpu_metrics.jsonl" in summary.files


@pytest.mark.slow
def test_who_holds_a_gpu_ran_there_and_then(reported: tuple[Path, TraceSummary]) -> None:
    folder, _ = reported
    trace = opened(folder)
    ran: dict[str, list[tuple[str, float, float]]] = {}
    columns = (trace.texts("pai_instance_table", name) for name in ("worker_name", "machine"))
    times = (trace.numbers("pai_instance_table", name) for name in ("start_time", "end_time"))
    for worker, machine, start, end in zip(*columns, *times, strict=True):
        ran.setdefault(worker, []).append((machine, start, end))
    owned = [row for row in rows_of(folder, "gpu_metrics") if row.get("owner_kind") == "container"]
    assert len(owned) > 100
    for row in owned:
        second = row["ts_ms"] / 1000
        # Records lack the times of what did not end well.
        assert any(
            machine == row["node"] and not (start > second) and not (end <= second)
            for machine, start, end in ran[row["owner_id"]]
        )


def test_a_gpu_that_nobody_uses_is_idle_and_cool(reported: tuple[Path, TraceSummary]) -> None:
    rows = [row for row in rows_of(reported[0], "gpu_metrics") if row["gpu_busy_ratio"] == 0]
    assert rows
    assert {row["clock_event_reasons"] for row in rows} <= {0x1, 0x88}
    assert max(row["temperature_celsius"] - row["slowdown_temperature_celsius"] for row in rows) < 0


def test_what_goes_wrong_is_in_the_truth_and_nowhere_else(reported: tuple[Path, TraceSummary]) -> None:
    folder, _ = reported
    truth = {row["kind"]: row for row in json.loads((folder / "truth.json").read_text())}
    gpus = rows_of(folder, "gpu_metrics")

    def seen(is_so: Any) -> tuple[set[str], float, float]:
        hit = [row for row in gpus if is_so(row)]
        seconds = [row["ts_ms"] / 1000 for row in hit]
        return {row["gpu_uuid"] for row in hit}, min(seconds), max(seconds) + 120

    def expected(kind: str) -> tuple[set[str], float, float]:
        return set(truth[kind]["subject_ids"]), truth[kind]["first_second"], truth[kind]["last_second"]

    assert seen(lambda row: row["temperature_celsius"] >= row["slowdown_temperature_celsius"]) == expected("hot_gpu")
    assert seen(lambda row: row["clock_event_reasons"] == 0x60) == expected("hot_gpu")
    assert seen(lambda row: row["clock_event_reasons"] == 0x88) == expected("throttled_gpu")
    assert {row["gpu_uuid"] for row in gpus if row["ecc_corrected_total"]} == set(truth["gpu_errors"]["subject_ids"])
    (event,) = rows_of(folder, "node_events")
    assert (event["kind"], event["code"], event["ts_ms"] // 1000) == ("xid", 48, truth["gpu_errors"]["last_second"])


def test_the_throttled_gpus_are_those_of_the_slow_machine(reported: tuple[Path, TraceSummary]) -> None:
    truth = {row["kind"]: row for row in json.loads((reported[0] / "truth.json").read_text())}
    (slow,) = truth["slow_machine"]["subject_ids"]
    assert truth["throttled_gpu"]["subject_ids"] == [f"GPU-{slow}-0", f"GPU-{slow}-1"]


@pytest.mark.slow
def test_telemetry_changes_no_row_of_the_trace_and_is_the_same_every_time(tmp_path: Path) -> None:
    write_trace(tmp_path / "without", jobs=1_000, seed=5)
    for name in ("one", "two"):
        write_trace(tmp_path / name, jobs=1_000, seed=5, has_telemetry=True)
    for file in (tmp_path / "without").glob("pai_*.csv"):
        assert file.read_bytes() == (tmp_path / "one" / file.name).read_bytes()
    files = {file.name for file in (tmp_path / "one" / "telemetry").iterdir()}
    assert len(files) == 9
    for name in files:
        path = Path("telemetry") / name
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()
