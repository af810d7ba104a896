"""The front page: measures by day with what was expected, who has most, relative days, and the search."""

from __future__ import annotations

import html
from collections import defaultdict
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.ledger import HELD
from gpulake.lake import Lake
from gpulake.show.web.bar import bar_of, sections
from gpulake.show.web.figures.explore import change_of, change_words
from gpulake.show.web.pages import pages
from show.web.asking import ask, figure_of

LEDGER = ("capacity", "held", "used", "under_used", "idle", "lost")


def ledger(config: Config, **chosen: str) -> dict[tuple[str, str], float]:
    """Measure and day, summed by hand from the rows of the ledger by holder."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows_of(Lake(config), "FROM gold_ledger_daily WHERE cluster_id = 'synth'"):
        amounts = {name: float(str(row[f"{name}_gpu_hours"])) for name in LEDGER if name != "held"}
        amounts["held"] = sum(float(str(row[f"{bucket}_gpu_hours"])) for bucket in HELD)
        for name in LEDGER:
            is_counted = name == "capacity" or all(row[f"{key}_id"] == value for key, value in chosen.items())
            sums[name, str(row["dt"])] += amounts[name] if is_counted else 0.0
    return sums


@pytest.mark.parametrize("is_of_holder", [False, True])
def test_measures_are_the_sums_of_the_ledger_by_day(client: TestClient, rich: Config, is_of_holder: bool) -> None:
    (holder, *_) = ask(client, "leaders", cluster="synth", by="held")
    chosen = {"user": holder["name"]} if is_of_holder else {}
    rows = ask(client, "measures", cluster="synth", **chosen)
    found = {(row["measure"], row["day"]): row["value"] for row in rows if row["measure"] in LEDGER}
    assert found == pytest.approx(ledger(rich, **chosen))
    others = {row["measure"] for row in rows} - set(LEDGER)
    assert bool(others) is not bool(chosen), "tables without holders say nothing of one"


def test_what_is_expected_are_percentiles_of_the_28_days_before(client: TestClient) -> None:
    rows = [row for row in ask(client, "measures", cluster="synth") if row["measure"] == "held"]
    days = {date.fromisoformat(row["day"]): row for row in rows}
    assert len(days) > 30
    for day, row in days.items():
        past = [days[day - timedelta(days=back)] for back in range(1, 29) if day - timedelta(days=back) in days]
        whole = [one["value"] for one in past if not one["is_partial"]]
        band = np.percentile(whole, [10, 90]).tolist() if len(whole) >= 7 else [None, None]
        assert [row["expected_low"], row["expected_high"]] == pytest.approx(band)


def test_the_days_before_are_as_many_as_are_shown(client: TestClient) -> None:
    every = {(row["measure"], row["day"]): row["value"] for row in ask(client, "measures", cluster="synth")}
    last = max(day for _, day in every)
    shown = ask(client, "measures", cluster="synth", range="7d")
    first = date.fromisoformat(last) - timedelta(days=6)
    assert {row["day"] for row in shown if row["measure"] == "held"} <= {
        str(first + timedelta(days=at)) for at in range(7)
    }
    for row in shown:
        before = str(date.fromisoformat(row["day"]) - timedelta(days=7))
        assert row["compared_value"] == pytest.approx(every.get((row["measure"], before)))


def test_a_day_that_was_observed_in_part_is_shaded_and_every_name_has_its_colour(client: TestClient) -> None:
    partial = {row["day"] for row in ask(client, "measures", cluster="synth") if row["is_partial"]}
    rows = ask(client, "breakdown", cluster="synth", by="held")
    assert {row["day"] for row in rows if row["is_partial"]} == partial & {row["day"] for row in rows} != set()
    drawn = figure_of(client, "explore", "breakdown", cluster="synth", by="held")
    noons = {date.fromisoformat(shape["x0"][:10]) + timedelta(days=1) for shape in drawn["layout"]["shapes"]}
    assert {str(day) for day in noons} == {row["day"] for row in rows if row["is_partial"]}
    colours = [trace["marker"]["color"] for trace in drawn["data"]]
    assert len(set(colours)) == len(colours) == 9


def test_who_has_most_is_of_the_ledger_and_shares_sum_to_one(client: TestClient, rich: Config) -> None:
    rows = ask(client, "leaders", cluster="synth", by="held")
    sums: dict[str, float] = defaultdict(float)
    for row in rows_of(Lake(rich), "FROM gold_ledger_daily WHERE cluster_id = 'synth' AND user_id IS NOT NULL"):
        sums[str(row["user_id"])] += sum(float(str(row[f"{bucket}_gpu_hours"])) for bucket in HELD)
    assert {row["name"]: row["amount_gpu_hours"] for row in rows} == pytest.approx(
        {name: value for name, value in sums.items() if value > 0}
    )
    assert sum(row["share_ratio"] for row in rows) == pytest.approx(1)
    for dimension in ("account", "group", "gpu_type", "workload", "machine"):
        amounts = [row["amount_gpu_hours"] for row in ask(client, "leaders", cluster="synth", dimension=dimension)]
        assert amounts == sorted(amounts, reverse=True)


def test_a_breakdown_sums_to_the_leaders(client: TestClient) -> None:
    given = {"cluster": "synth", "by": "held", "dimension": "user"}
    whole = sum(row["amount_gpu_hours"] for row in ask(client, "leaders", **given))
    rows = ask(client, "breakdown", **given)
    assert sum(row["amount_gpu_hours"] for row in rows) == pytest.approx(whole)
    assert len({row["name"] for row in rows}) <= 9


def test_the_headline_is_the_largest_waste_and_who_has_most_of_it(client: TestClient) -> None:
    (row,) = ask(client, "headline", cluster="synth")
    sums: dict[str, float] = defaultdict(float)
    for one in ask(client, "measures", cluster="synth"):
        sums[one["measure"]] += one["value"]
    largest = max(("idle", "lost", "under_used"), key=sums.__getitem__)
    assert (row["bucket"], row["amount_gpu_hours"]) == (largest, pytest.approx(sums[largest]))
    top = ask(client, "leaders", cluster="synth", by=largest)[0]
    assert (row["user_id"], row["user_gpu_hours"]) == (top["name"], pytest.approx(top["amount_gpu_hours"]))


def test_a_relative_range_is_the_last_days_of_the_data_and_days_come_before_it(client: TestClient) -> None:
    days = [row["day"] for row in ask(client, "ledger_by_day", cluster="synth")]
    assert [row["day"] for row in ask(client, "ledger_by_day", cluster="synth", range="7d")] == days[-7:]
    given = {"cluster": "synth", "range": "7d", "from": days[0], "to": days[1]}
    assert [row["day"] for row in ask(client, "ledger_by_day", **given)] == days[:2]


def test_the_search_finds_a_job_a_user_a_machine_an_incident_and_a_run(client: TestClient) -> None:
    def found(text: str) -> set[tuple[str, str]]:
        return {(row["kind"], row["link"].partition("?")[0]) for row in ask(client, "search", text=text)}

    (incident, *_) = ask(client, "incidents")
    (run, *_) = ask(client, "runs_collected")
    assert ("job", "/job") in found("80")
    assert ("user", "/user") in found("ANN")
    assert ("machine", "/machine") in found("gpu0")
    assert ("incident", "/incident") in found(incident["incident_id"])
    assert ("run", "/run") in found(run["run_name"])
    assert found("nothing is called so") == set()
    assert ask(client, "search", text="80")[0]["label"] == "80"


@pytest.mark.parametrize(
    ("rows", "change", "words"),
    [
        ([(10, 5), (20, None)], 1.0, "+100%"),
        ([(0, 4)], -1.0, "-100%"),
        ([(60, 5)], 11.0, "×12"),
        ([(1, 0)], None, ""),
        ([(1, None)], None, ""),
    ],
)
def test_a_change_is_of_days_that_have_one_to_compare_with(rows: Any, change: float | None, words: str) -> None:
    given = [{"value": value, "compared_value": before} for value, before in rows]
    assert (change_of(given), change_words(change)) == (change, words)


def test_the_bar_leads_to_the_days_before_after_and_around() -> None:
    given = {"cluster": "a b", "range": "7d", "from": None, "to": None}
    bar = bar_of(given, {"from": "2026-01-08", "to": "2026-01-14"})
    assert bar.days == "2026-01-08 to 2026-01-14"
    assert [words for words, _, is_chosen in bar.ranges if is_chosen] == ["7 days"]
    assert (bar.earlier, bar.later, bar.wider) == (
        "cluster=a+b&from=2026-01-01&to=2026-01-07",
        "cluster=a+b&from=2026-01-15&to=2026-01-21",
        "cluster=a+b&from=2026-01-05&to=2026-01-17",
    )


def test_clusters_stand_side_by_side_where_all_are_chosen() -> None:
    page = pages()["explore"]
    one, all_ = ({"cluster": name, "from": None} for name in ("a", "*"))
    assert [section.id for section in sections(page, one, ["a", "b"])] == [panel.name for panel in page.panels]
    shown = [(section.id, section.query) for section in sections(page, all_, ["a", "b"])]
    assert [one for one in shown if one[0].startswith("measures")] == [
        ("measures-0", "cluster=a"),
        ("measures-1", "cluster=b"),
    ]
    assert ("found", "") in shown


def test_a_page_of_a_lake_of_two_clusters_is_of_one_of_them(client: TestClient) -> None:
    text = client.get("/explore").text
    newest = max(ask(client, "observed"), key=lambda one: (one["observed_until"], one["cluster_id"]))["cluster_id"]
    assert f'data-source="/panels/explore/measures?cluster={newest}"' in text
    assert 'data-source="/panels/explore/measures?cluster=synth"' in client.get("/explore?cluster=*").text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("range=2d", "range: '2d' is none of 1d, 7d, 30d, 90d"),
        ("from=yesterday", "from: 'yesterday' is not a day; write it as 2026-03-01"),
        ("by=<b>", "by: '<b>' is none of wasted"),
    ],
)
def test_a_choice_that_there_is_not_is_answered_with_those_that_there_are(
    client: TestClient, query: str, words: str
) -> None:
    page = client.get(f"/explore?{query}")
    assert page.status_code == 422
    assert words in html.unescape(page.text)
    assert "<b>" not in page.text
