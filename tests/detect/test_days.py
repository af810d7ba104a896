"""Scored days and findings, on a generated trace whose incidents are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.preprocessing import StandardScaler

from conftest import count_of, rows_of
from gpulake.core.alert_settings import Incidents
from gpulake.core.config import Config
from gpulake.core.types import Finding
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.synth import write_trace

FEATURES = ["avg_gpu_util", "p95_gpu_util", "avg_cpu_util"]


def test_flags_and_scores_are_those_of_the_reference(shared_lake: Config) -> None:
    scored = rows_of(Lake(shared_lake), "FROM gold_cluster_util_daily_scored ORDER BY dt")
    days = rows_of(Lake(shared_lake), "FROM gold_cluster_util_daily_reference ORDER BY dt")
    assert [{name: row[name] for name in ("dt", *FEATURES)} for row in scored] == days
    rows = np.array([[row[name] for name in FEATURES] for row in days], dtype=float)
    scaled = StandardScaler().fit(rows).transform(rows)
    forest = IsolationForest(n_estimators=100, contamination=0.05, random_state=42).fit(scaled)
    assert [row["anomaly_score"] for row in scored] == pytest.approx(
        forest.decision_function(scaled).tolist(), abs=1e-12
    )
    assert [row["anomaly_flag"] for row in scored] == (forest.predict(scaled) == -1).astype(int).tolist()


def test_days_at_the_edge_of_the_data_are_said_to_be_poorly_covered(shared_lake: Config) -> None:
    days = rows_of(Lake(shared_lake), "SELECT dt, coverage_ratio, is_poorly_covered FROM gold_cluster_util_daily")
    usual = float(np.median([float(str(row["coverage_ratio"])) for row in days]))
    poor = {row["dt"] for row in days if row["is_poorly_covered"]}
    assert poor == {row["dt"] for row in days if float(str(row["coverage_ratio"])) < 0.5 * usual}
    assert min(str(row["dt"]) for row in days) in {str(day) for day in poor}


@pytest.mark.slow
def test_a_given_model_scores_without_being_fitted_again(built_lake: Config, tmp_path: Path) -> None:
    lake = Lake(built_lake)
    before = rows_of(lake, "SELECT dt, anomaly_score FROM gold_cluster_util_daily_scored ORDER BY dt")
    kept = tmp_path / "kept.json"
    kept.write_bytes((built_lake.lake / "models" / "cluster_anomaly_iforest.json").read_bytes())
    (built_lake.lake / "models" / "cluster_anomaly_iforest.json").unlink()
    Flow(built_lake).build(is_forced=True, model=kept)
    assert rows_of(lake, "SELECT dt, anomaly_score FROM gold_cluster_util_daily_scored ORDER BY dt") == before
    assert not (built_lake.lake / "models" / "cluster_anomaly_iforest.json").exists()
    stricter = json.loads(kept.read_text())
    kept.write_text(json.dumps({**stricter, "offset": 0.0}))
    assert Flow(built_lake).build(model=kept).is_new, "a model of other content is another model"


@pytest.mark.slow
def test_too_few_days_are_not_scored(config: Config, tmp_path: Path) -> None:
    (tmp_path / "pai_machine_metric.csv").write_text("w,m,100000.0,200000.0,0,0,0,50.0,1,1,1,20.0\n")
    flow = Flow(config)
    flow.land([tmp_path / "pai_machine_metric.csv"])
    flow.build()
    scored = rows_of(
        Lake(config), "SELECT anomaly_flag, anomaly_score, coverage_ratio FROM gold_cluster_util_daily_scored"
    )
    assert scored == [{"anomaly_flag": 0, "anomaly_score": None, "coverage_ratio": None}]
    assert count_of(Lake(config), "findings") == 0


def findings_of(folder: Path) -> Sequence[Finding]:
    flow = Flow(Config(lake=folder / "lake", threads=2))
    flow.land([folder / "trace"])
    return flow.build(["findings"]).findings or ()


@pytest.mark.slow
def test_the_injected_incidents_are_among_the_findings(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace", jobs=8_000, seed=0)
    truth = {entry["kind"]: entry for entry in json.loads((tmp_path / "trace" / "truth.json").read_text())}
    found = findings_of(tmp_path)
    days = {(finding.kind, finding.day) for finding in found}

    def day_of(kind: str, which: str) -> str:
        return str(truth[kind][which])[:10]

    hot = [day for kind, day in days if kind == "unusual_utilisation"]
    assert any(day_of("hot_weekend", "first_local") <= day <= day_of("hot_weekend", "last_local") for day in hot)
    assert ("failure_burst", day_of("failure_burst", "first_local")) in days
    empty = [(finding.subject, finding.day) for finding in found if finding.kind == "runaway_user"]
    assert empty[0] == (truth["runaway_user"]["subject_ids"][0], day_of("runaway_user", "first_local"))


def test_what_becomes_no_incident_are_the_facts_that_no_watch_finds(shared_lake: Config) -> None:
    facts = rows_of(Lake(shared_lake), "SELECT DISTINCT kind FROM findings WHERE watch IS NULL OR watch = ''")
    others = {"missing_demand", "missing_begin", "fewer_rows", "failed_job"}  # of other lakes, and of streams
    assert {row["kind"] for row in facts} == set(Incidents().ignored_kinds) - others


@pytest.mark.slow
def test_a_healthy_trace_has_no_unusual_day_and_no_failure_burst(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace", jobs=20_000, seed=3, has_incidents=False)
    found = findings_of(tmp_path)
    assert {finding.kind for finding in found} <= set(Incidents().ignored_kinds), [
        finding.headline for finding in found
    ]
