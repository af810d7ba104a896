"""The study of the PAI trace as its reader meets it: text, JSON and a page, of a whole lake and of a part of one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import LakeError, UsageError
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.show.pai.study import Study, opened, study
from gpulake.synth.facts import gpu_models
from show.pai_by_hand import made_by_hand, write

NOTEBOOK = {2: "ab", 3: "abcd", 4: "ab", 5: "abcd", 6: "abcd", 8: "ab"}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def whole(config: Config) -> Study:
    with Lake(config).reading() as reader:
        return study(opened(reader), [])


def test_json_holds_every_figure_and_table(shared_lake: Config, tmp_path: Path) -> None:
    arguments = ["report", "pai", "--lake", str(shared_lake.lake), "--out", str(tmp_path / "pai.html"), "--json"]
    answer = CliRunner().invoke(root, arguments, catch_exceptions=False)
    result = json.loads(answer.output, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert result["is_generated"] is True
    assert list(result) == ["is_generated", "headlines", "chapters", "durations", "trace", "build", "page"]
    figures = {figure["number"]: figure for chapter in result["chapters"] for figure in chapter["figures"]}
    notebook = [f"{chapter}{part}" for chapter, parts in NOTEBOOK.items() for part in parts]
    paper = [f"paper: {word}" for word in ("recurrence", "machines", "contention", "sharing", "prediction")]
    assert sorted(figures) == sorted([*notebook, *paper])
    about = ["number", "title", "note", "needs", "corrected", "error"]
    assert list(figures["4b"]) == [*about, "missing", "reason", "content"]
    assert list(figures["4b"]["content"]) == ["curves", "measures", "x_title", "y_title", "is_log", "x_range"]
    assert [figure["number"] for figure in figures.values() if figure["reason"]] == []
    assert [figure["number"] for figure in figures.values() if not figure["content"]["measures"]] == []
    assert len(result["durations"]) == 18
    assert len(result["trace"]) == 7


def test_the_text_fits_on_a_screen_and_ends_with_the_page(shared_lake: Config, tmp_path: Path) -> None:
    page = tmp_path / "pai.html"
    answer = CliRunner().invoke(root, ["report", "pai", "--lake", str(shared_lake.lake), "--out", str(page)])
    lines = answer.output.splitlines()
    assert len(lines) <= 60
    assert lines[0] == "• These data are generated (gpulake synth): not of a real cluster"
    assert "tests gpulake, not the real world" in lines[1]
    assert re.match(r"• 9\d\.\d\d % of the tasks request more GPU than they use \(published 98\.02 %\)", lines[2])
    assert lines[-1] == str(page)
    assert page.is_file()


def test_the_page_draws_every_figure_and_needs_no_network(shared_lake: Config, tmp_path: Path) -> None:
    result = Flow(shared_lake).write_study(tmp_path / "pai.html")
    page = (tmp_path / "pai.html").read_text()
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "<h1>The PAI study, from generated data</h1>" in body
    assert len(result.figures) == body.count('class="plot"') == 23
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", body)
    assert all(headline.headline.replace("'", "&#39;") in body for headline in result.headlines)


@pytest.mark.slow
def test_a_hostile_gpu_type_is_shown_and_does_nothing(tmp_path: Path) -> None:
    tasks = made_by_hand()[:30]
    for task in tasks:
        task.gpu_type = HOSTILE if task.plan_gpu else ""
    write(tmp_path / "raw", tasks)
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.refresh([tmp_path / "raw"], None)
    flow.write_study(tmp_path / "pai.html")
    page = (tmp_path / "pai.html").read_text()
    assert "alert(1)" in page
    assert HOSTILE not in page
    assert "<img src=x" not in page
    assert page.count("</script>") == page.count("<script>") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "kept",
    [
        ("machine_spec",),
        ("machine_spec", "instance_table"),
        ("task_table",),
        ("job_table", "task_table", "instance_table"),
        ("job_table", "task_table", "instance_table", "sensor_table"),
        ("machine_metric",),
    ],
    ids="+".join,
)
def test_what_is_missing_is_named_and_the_rest_is_drawn(tmp_path: Path, kept: tuple[str, ...]) -> None:
    write(tmp_path / "raw", made_by_hand())
    config = Config(lake=tmp_path / "lake", threads=1)
    flow = Flow(config)
    flow.refresh([tmp_path / "raw" / f"pai_{name}.csv" for name in kept], None)
    result = flow.write_study(tmp_path / "pai.html")
    tables = {f"pai_{name}" for name in kept}
    for figure in result.figures:
        assert set(figure.missing) == set(figure.about.needs) - tables
        assert all(name in figure.reason for name in figure.missing)
    assert bool(result.listings) == bool({"machine_spec", "instance_table"} & set(kept))


@pytest.mark.slow
def test_a_lake_without_the_trace_is_refused(tmp_path: Path) -> None:
    config = Config(lake=tmp_path / "lake", threads=1)
    flow = Flow(config)
    flow.lake.create()
    with pytest.raises(LakeError, match="no whole build yet"):
        flow.write_study(tmp_path / "pai.html")
    (tmp_path / "tpu_gpus.csv").write_bytes(gpu_models())
    flow.refresh([tmp_path / "tpu_gpus.csv"], None)
    with pytest.raises(UsageError, match="nothing of the PAI trace") as caught:
        flow.write_study(tmp_path / "pai.html")
    assert "gpulake synth" in caught.value.hint
    assert not (tmp_path / "pai.html").exists()


@pytest.mark.slow
@pytest.mark.real
def test_the_real_machines_and_instances_are_counted_as_published(real_data: Path, tmp_path: Path) -> None:
    config = Config(lake=tmp_path / "lake")
    pai = real_data / "pai"
    Flow(config).refresh([pai / "pai_machine_spec.csv", pai / "pai_instance_table_tail.csv.gz"], None)
    listings = {listing.title: listing.rows for listing in whole(config).listings}
    assert [row[4:] for row in listings["Machines"]] == [
        (83, 0, 83),
        (280, 2240, 280),
        (798, 1596, 798),
        (497, 994, 497),
        (45, 360, 45),
        (59, 472, 59),
        (135, 1080, 135),
        (1897, 6742, 1897),
    ]
    statuses = listings["How attempts end, and which times they lack"]
    assert [row[:2] for row in statuses] == [
        ("Terminated", 19_348),
        ("Running", 2_744),
        ("Failed", 2_657),
        ("Interrupted", 2_528),
        ("Waiting", 1_062),
    ]
    for row in statuses:
        for ours, theirs in (row[2:4], row[4:6], row[6:8]):
            assert theirs is None or ours == pytest.approx(theirs, abs=2)
    assert [row[8] for row in statuses] == [0, 0, 0, 0, 100]
    attempts = listings["Attempts of an instance"]
    assert attempts[-1][1] == 35
    assert all(row[2] == pytest.approx(row[3], abs=1) for row in attempts)
    for row in listings["Run time of attempts that ended well"]:
        assert row[1] == pytest.approx(row[2], rel=0.035)
    for row in listings["Instances of a task"]:
        assert row[1] == pytest.approx(row[2], abs=0.5)
    for row in listings["Attempts by the GPU type of their machine"]:
        assert row[2] is None or row[1] == pytest.approx(row[2], abs=1)
        assert row[4] is None or row[3] == pytest.approx(row[4], rel=0.025)
    assert all(row[2] == pytest.approx(row[3], abs=0.5) for row in listings["Starts by the hour of the day"])
