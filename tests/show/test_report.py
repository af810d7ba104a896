"""The page: findings first, everything inside the file, hostile labels harmless."""

from __future__ import annotations

import hashlib
import re
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from gpulake.core.config import Config
from gpulake.core.errors import LakeError
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.show.plots import utilisation
from gpulake.show.report import figures, write_report
from hand_made import Attempt, write_trace

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"

# plotly.js-cartesian-dist-min of npm: the basic bundle can draw neither boxes nor heat maps.
PLOTLY = ("3.7.0", "7c593b9eda0e74a1d07335cf89cbf7a55ffc114909980c3729af835453bdb02a")


def test_plotly_is_the_published_file_of_its_version() -> None:
    script = files("gpulake.show").joinpath("web/static/plotly.js").read_bytes()
    version, digest = PLOTLY
    assert hashlib.sha256(script).hexdigest() == digest
    assert f"plotly.js (cartesian - minified) v{version}".encode() in script[:100]
    assert version in Path("NOTICE").read_text()


def test_the_page_has_findings_plots_and_needs_no_network(shared_lake: Config, tmp_path: Path) -> None:
    with Lake(shared_lake).reading() as reader:
        write_report(reader, tmp_path / "report.html")
        headlines = [row["headline"] for row in reader.query("SELECT headline FROM findings").to_pylist()]
    page = (tmp_path / "report.html").read_text()
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert headlines
    assert all(headline.replace("'", "&#39;") in body for headline in headlines)
    assert [name for name in ("utilisation", "ledger", "holders", "jobs") if f'id="{name}"' not in body] == []
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", body)
    assert len(page.encode()) < 1_600_000
    assert re.search(r"\w+: observed from \d{4}-\d\d-\d\d \d\d:\d\d to ", body)


@pytest.mark.slow
def test_the_picture_of_holders_adds_nothing_to_idle(config: Config, tmp_path: Path) -> None:
    attempts = [Attempt("part", "ann", 0, 10, gpus=8, used=1), Attempt("empty", "bob", 0, 1, gpus=1, used=0)]
    Flow(config).refresh([write_trace(tmp_path / "raw", attempts)], None)
    with Lake(config).reading() as reader:
        bars = {
            bar["name"]: dict(zip(bar["text"], bar["x"], strict=True)) for bar in figures(reader)["holders"]["data"]
        }
    assert bars["idle"] == {"ann": 0.0, "bob": pytest.approx(1.0)}
    assert bars["under-used"] == {"ann": pytest.approx(70.0), "bob": 0.0}
    assert list(bars["idle"])[-1] == "bob"


@pytest.mark.slow
def test_a_hostile_user_name_is_shown_and_does_nothing(config: Config, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "pai_job_table.csv").write_text(f"j,i,{HOSTILE},Terminated,1.0,900000.0\n")
    (raw / "pai_task_table.csv").write_text("j,worker,1.0,Terminated,1.0,2.0,600.0,29.3,100.0,T4\n")
    (raw / "pai_instance_table.csv").write_text("j,worker,n,w,i,Terminated,1.0,900000.0,m\n")
    (raw / "pai_sensor_table.csv").write_text("j,worker,w,i,m,/dev/nvidia0,1,0,1,1,1,1,0,0,0,0\n")
    (raw / "pai_machine_spec.csv").write_text("m,T4,96,512,2\n")
    Flow(config).refresh([raw], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "alert(1)" in page
    assert HOSTILE not in page
    assert "<img src=x" not in page
    assert page.count("</script>") == page.count("<script>") == 2


def test_a_place_that_cannot_be_written_is_an_error(shared_lake: Config, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Lake(shared_lake).reading() as reader, pytest.raises(LakeError, match="cannot write the report"):
        write_report(reader, tmp_path / "file" / "report.html")


def test_the_plot_has_the_expected_band_our_flags_solid_and_the_forests_hollow() -> None:
    first = date(2026, 1, 5)
    dates = [first + timedelta(days=place) for place in range(4)]
    days = [
        {"dt": dt, "gpu_util_ratio": ratio, "cpu_util_ratio": 0.1, "coverage_ratio": 0.4, "is_poorly_covered": is_poor}
        for dt, ratio, is_poor in zip(dates, (0.2, 0.3, 0.6, 0.0), (True, False, False, False), strict=True)
    ]
    scored = [
        {
            "dt": dt,
            "own_flag": place == 2,
            "anomaly_flag": int(place in (0, 2)),
            "own_low_ratio": None if place < 2 else 0.2,
            "own_high_ratio": None if place < 2 else 0.4,
            "why_they_differ": "a < b",
        }
        for place, dt in enumerate(dates)
    ]
    low, high, _, line, selected, forest = utilisation(days, scored)["data"]
    assert (low["x"], low["y"]) == (["2026-01-07", "2026-01-08"], [0.2, 0.2])
    assert (high["y"], high["fill"]) == ([0.4, 0.4], "tonexty")
    assert line["marker"]["color"][0] == "white"
    assert (selected["x"], selected["y"], selected["marker"]["symbol"]) == (["2026-01-07"], [0.6], "circle")
    assert (forest["x"], forest["marker"]["symbol"]) == (["2026-01-05", "2026-01-07"], "circle-open")
    assert selected["text"] == ["a &lt; b"]
    named = [trace["name"] for trace in (high, line, selected, forest)]
    assert len(set(named)) == 4
