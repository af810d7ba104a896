"""gpulake detect, as its user meets it, on a small cluster with one strange day."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result

from cli.verbs import Verb
from gpulake.cli._output import print_findings
from gpulake.cli._screen import Screen
from gpulake.core.clock import SystemClock
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.explanation import Track
from gpulake.core.incidents import Incident
from gpulake.core.types import Finding
from gpulake.detect.evidence import evidence_of, ran
from gpulake.flow import Flow
from gpulake.lake import Lake
from watched_lake import DAYS, SMALL, STRANGE, day_at, ratio_of, watched_lake

detect = Verb("detect")
document = detect.document


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Shared, and only read."""
    return watched_lake(tmp_path_factory.mktemp("watched"))


def failure(result: Result) -> UsageError:
    assert isinstance(result.exception, UsageError), result.output
    return result.exception


def test_findings_that_have_a_time_are_listed_the_most_severe_first_of_those_the_newest(own: Lake) -> None:
    assert [(one["headline"], one["severity"]) for one in document(own, "list")] == [
        ("machine t is \x1b[31mhot", "critical"),
        ("many failed", "warning"),
        ("by hand", "warning"),
        ("a day", "warning"),
        ("hours", "warning"),
    ]
    text = detect(own, "list").output
    assert "machine t is" in text
    assert "\x1b" not in text


@pytest.mark.slow
def test_findings_are_chosen_by_kind_severity_watch_and_time(own: Lake) -> None:
    def ids(*arguments: str) -> list[str]:
        return [one["finding_id"] for one in document(own, "list", *arguments) if one["watch"]]

    assert ids("--severity", "critical") == ["f-machine"]
    assert ids("--kind", "unusual_utilisation") == ["f-day", "f-hours"]
    assert ids("--watch", "cluster_days") == ["f-day"]
    assert ids("--since", str(day_at(STRANGE + 1))) == ["f-day", "f-hours"], "what lasted until then was seen then"
    assert ids("--since", str(day_at(STRANGE + 1) + timedelta(seconds=1))) == []
    answer = detect(own, "list", "--kind", "none")
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert "nothing like that was found" in answer.stderr


def test_on_a_narrow_terminal_a_finding_has_lines_of_its_own(own: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulake.cli.detect.screen", lambda: Screen(60, 40))
    every = document(own, "list")
    lines = detect(own, "list").output.splitlines()
    assert max(map(len, lines)) <= 60
    heads = [line for line in lines if not line.startswith(" ")]
    assert [head.split()[0] for head in heads] == [row["finding_id"] for row in every]
    assert lines[:3] == ["f-machine  2026-02-05 03:00  critical", "  hot_machine", "  machine t is \ufffd[31mhot"]


def test_findings_after_a_build_contain_no_control_codes(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings([Finding("runaway_user", "u", "user \x1b[31mu\n held", "a\rb", 1.0, "jobs")])
    assert capsys.readouterr().out.splitlines()[1:] == ["  • user \ufffd[31mu\ufffd held", "    a\ufffdb"]


def test_an_unknown_watch_is_an_error_that_names_the_nearest(own: Lake) -> None:
    error = failure(detect(own, "list", "--watch", "cluster_day"))
    assert (error.message, error.hint) == ("no watch named 'cluster_day'", "did you mean 'cluster_days'?")


def test_watches_say_what_they_read_and_whether_there_is_any(own: Lake) -> None:
    by_name = {one["name"]: one for one in document(own, "watches")}
    days = by_name["cluster_days"]
    assert (days["detector"], days["has_data"], days["empty"], days["findings"]) == ("spell", True, [], 1)
    assert "gold_cluster_util_daily" in days["tables"]
    assert days["least_points"] > 0
    assert days["about"]
    assert "cluster_days" in detect(own, "watches").output


@pytest.mark.slow
def test_a_watch_without_rows_says_which_table_is_empty(config: Config, tmp_path: Path) -> None:
    (tmp_path / "pai_job_table.csv").write_text("j,i,ann,Terminated,1.0,2.0\n")
    flow = Flow(config)
    flow.land([tmp_path / "pai_job_table.csv"])
    flow.build()
    by_name = {one["name"]: one for one in document(flow.lake, "watches")}
    assert by_name["cluster_days"]["has_data"] is False
    assert "no rows in gold_cluster_util_daily" in detect(flow.lake, "watches").output


def test_a_finding_is_explained_by_its_series_and_by_the_jobs_of_that_time(own: Lake) -> None:
    found = document(own, "explain", "f-da")
    shown = found["evidence"]
    (track,) = shown["tracks"]
    usual = 0.3
    # Of one machine, twice as busy as usual is as much as counts.
    busier = [min(math.log(ratio_of(day) / usual), math.log(2)) for day in range(DAYS)]
    assert track["values"][:DAYS] == pytest.approx(busier, abs=1e-6)
    assert shown["times"][shown["peak"]] == str(day_at(STRANGE))
    assert [place for place, is_flagged in enumerate(shown["is_flagged"]) if is_flagged] == [STRANGE]
    assert (shown["history_points"], shown["detector"], track["share"]) == (STRANGE, "spell", 1.0)
    assert track["low"][STRANGE] < track["expected"][STRANGE] < track["high"][STRANGE] < math.log(2)
    assert shown["scores"][STRANGE] >= shown["threshold"]
    ran = found["ran"]
    assert (ran["since"], ran["until"]) == (str(day_at(STRANGE)), str(day_at(STRANGE + 1)))
    first = [(job["job_id"], job["gpus"], job["gpu_hours"], job["status"]) for job in ran["jobs"][:3]]
    assert first == [
        ("large", 8.0, 144.0, "failed"),
        ("second", 4.0, 40.0, "succeeded"),
        ("elsewhere", 2.0, 4.0, first[2][3]),
    ]
    assert ran["jobs"][0]["began_at"] == str(day_at(STRANGE) - timedelta(hours=12))
    assert (len(ran["jobs"]), ran["more"]) == (20, SMALL + 3 - 20)


def test_the_text_has_the_chart_the_band_and_the_jobs_and_steers_no_terminal(own: Lake) -> None:
    answer = detect(own, "explain", "f-day")
    assert answer.exit_code == 0
    assert [
        word for word in ("◆", "░", "seen", "expected", "large", "and 8 more jobs") if word not in answer.output
    ] == []
    assert "\x1b" not in answer.output


def test_an_incident_is_explained_by_the_finding_that_has_a_series(own: Lake) -> None:
    incidents = Flow(Config(lake=own.root)).lake.journal("incident_events")
    name = next(row["incident_id"] for row in incidents if row["kind"] == "unusual_utilisation")
    found = document(own, "explain", str(name)[:10])
    assert found["explained_id"] == name
    assert (found["finding"]["finding_id"], found["others"]) == ("f-day", ["by hand", "hours"])
    assert found["evidence"]["detector"] == "spell"


def test_a_machine_has_its_own_jobs(own: Lake) -> None:
    answer = detect(own, "explain", "f-machine", "--json")
    assert answer.exit_code != 0
    ran = json.loads(answer.stdout)["ran"]
    assert (ran["of"], [(job["job_id"], job["gpu_hours"]) for job in ran["jobs"]]) == (
        "machine t",
        [("elsewhere", 2.0)],
    )


def test_machines_that_carry_a_finding_have_their_jobs_shown_and_who_died_of_it(own: Lake) -> None:
    begin = day_at(STRANGE) + timedelta(hours=14)  # when job elsewhere ended
    finding = {"cluster_id": "pai", "subject": "t, x", "began_at": begin, "ended_at": begin + timedelta(hours=1)}
    tracks = tuple(Track(name, share, (), (), (), ()) for name, share in (("t", 0.9), ("v", 0.05), ("x", 0.5)))
    with own.reading() as reader:
        carried = evidence_of(reader.query, {**finding, "watch": "cluster_days", "series": "pai"})
        assert carried is not None
        jobs = ran(reader, finding, replace(carried, tracks=tracks))
    assert jobs is not None
    assert (jobs.of, [(job.job_id, job.gpu_hours) for job in jobs.jobs]) == ("machine t", [("elsewhere", 0.0)])


def test_where_no_job_is_known_on_a_machine_those_of_its_cluster_are_shown(own: Lake) -> None:
    begin = day_at(STRANGE) + timedelta(hours=12)
    finding = {"cluster_id": "pai", "node": "t", "began_at": begin + timedelta(hours=3), "ended_at": None}
    with own.reading() as reader:
        jobs = ran(reader, {**finding, "ended_at": begin + timedelta(hours=4)})
        unending = ran(reader, finding)
    assert jobs is not None
    assert (jobs.of, jobs.note) == ("cluster pai", "none is known to have been on machine t then")
    assert [job.job_id for job in jobs.jobs] == ["large", "second"]
    with own.reading() as reader:
        elsewhere = ran(reader, {**finding, "cluster_id": "another", "node": None})
    assert elsewhere is not None
    assert (elsewhere.of, elsewhere.jobs) == ("cluster another", ())
    assert unending is not None
    assert {job.job_id for job in unending.jobs} == {"large", "second", "later"}


@pytest.mark.slow
def test_what_has_no_series_says_what_it_rests_on_and_shows_the_jobs_of_its_day(own: Lake, tmp_path: Path) -> None:
    (burst,) = document(own, "list", "--kind", "failure_burst")
    answer = detect(own, "explain", burst["finding_id"])
    error = failure(answer)
    assert (error.exit_code, error.message) == (2, f"{burst['finding_id']} has no series to show")
    assert "no watch found it" in error.hint
    assert "Jobs of all clusters, 2026-02-04 16:00 to 2026-02-05 16:00 UTC" in answer.stdout
    assert "large" in answer.stdout
    failure(detect(own, "explain", burst["finding_id"], "--plot", str(tmp_path / "why.html")))
    assert not (tmp_path / "why.html").exists()


def test_a_plot_is_one_file(own: Lake, tmp_path: Path) -> None:
    answer = detect(own, "explain", "f-day", "--plot", str(tmp_path / "why.html"))
    assert answer.exit_code == 0
    assert answer.stdout.splitlines()[-1] == str(tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text()
    assert "</script><b>ann" not in page
    assert "&lt;/script&gt;&lt;b&gt;ann" in page


def test_an_unknown_id_says_where_ids_are_listed(own: Lake) -> None:
    error = failure(detect(own, "explain", "zzz"))
    assert (error.exit_code, error.message) == (2, "no id 'zzz'")
    assert "gpulake detect list" in error.hint
    assert failure(detect(own, "explain", "f-")).message.startswith("'f-' begins ")


def test_an_incident_that_the_build_did_not_find_shows_the_jobs_of_its_time(tmp_path: Path, own: Lake) -> None:
    shutil.copytree(own.root, tmp_path / "lake")
    lake = Lake(Config(lake=tmp_path / "lake"))
    began = day_at(STRANGE) + timedelta(hours=12)
    died = Incident(
        "i-died", SystemClock().now(), "opened", "gpulake", subject="a.log", job_id="second", cause="it died"
    )
    reported = {**died.row(), "began_at": began, "last_seen_at": began + timedelta(hours=1), "cluster_id": "pai"}
    lake.append("incident_events", [reported])
    answer = detect(lake, "explain", "i-died")
    assert "diagnosed from a log" in failure(answer).hint
    assert "it died" in answer.stdout
    assert "Jobs of job second" in answer.stdout
    assert "bob" in answer.stdout


def test_without_a_build_there_is_nothing_to_explain(lake: Lake, config: Config, tmp_path: Path) -> None:
    for arguments in (["list"], ["watches"], ["explain", "f-1"]):
        error = failure(detect(lake, *arguments))
        assert (error.exit_code, error.hint) == (2, "run: gpulake build")
    (tmp_path / "pai_job_table.csv").write_text("j,i,ann,Terminated,1.0,2.0\n")
    flow = Flow(config)
    flow.land([tmp_path / "pai_job_table.csv"])
    flow.build(["silver_jobs"])
    assert failure(detect(lake, "list")).message == "the current build has no findings: it is a part of one"
