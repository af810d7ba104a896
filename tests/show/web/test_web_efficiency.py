"""Efficiency: every way to cut what was held sums to the same, and a report card is that of the command line."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from conftest import rows_of
from gpulake.core.config import Config, GpuType
from gpulake.core.ledger import HELD, LOST, WASTED, bucket_name
from gpulake.flow import Flow
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.efficiency import Scope, efficiency_card
from gpulake.show.web.given import carried
from gpulake.show.web.pages import pages
from gpulake.show.web.questions.options import BINS
from hand_made import Attempt, write_trace
from show.web.asking import ask, client_of, figure_of

PRICES = {"V100": GpuType(price_per_hour=3.0, busy_watts=300, idle_watts=40)}
ATTEMPTS = [
    # Held empty: 2 GPUs for 10 hours.
    Attempt("empty", "ann", 1, 11, gpus=2, used=0, group="one", workload="bert"),
    # Four GPUs, three of them unused.
    Attempt("wide", "ann", 1, 11, gpus=4, used=1, peak_gib=100, group="two"),
    # Lost after five hours, then done.
    Attempt("long", "bob", 12, 17, gpus=4, status="failed", group="two"),
    Attempt("long", "bob", 18, 19, gpus=4, used=4, group="two"),
    # As good as it gets; and one that nobody saw, on the second day.
    Attempt("good", "eve", 1, 23, gpus=1, used=1, machine="t"),
    Attempt("unseen", "eve", 30, 40, gpus=1, machine="t"),
]
# Of each job: used, under-used, idle, failed, timed out, interrupted, unobserved; counted by hand.
BY_HAND = {
    "empty": (0.0, 0.0, 20.0, 0.0, 0.0, 0.0, 0.0),
    "wide": (10.0, 30.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "long": (4.0, 0.0, 0.0, 20.0, 0.0, 0.0, 0.0),
    "good": (22.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "unseen": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0),
}
CUTS = ("user", "group", "gpu_type", "workload")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("efficiency")
    config = Config(lake=folder / "lake", threads=1, gpu_types=PRICES)
    Flow(config).refresh([write_trace(folder / "raw", ATTEMPTS)], None)
    return config


@pytest.fixture(scope="module")
def client(small: Config) -> Iterator[TestClient]:
    with TestClient(application(Lake(small))) as result:
        yield result


@pytest.fixture(scope="module")
def everything(rich: Config) -> Iterator[TestClient]:
    with TestClient(application(Lake(rich))) as result:
        yield result


def held_of(row: dict[str, Any]) -> tuple[float, ...]:
    return tuple(row[f"{bucket}_gpu_hours"] for bucket in HELD)


def sums(rows: list[dict[str, Any]]) -> list[float]:
    return [sum(row[f"{bucket}_gpu_hours"] for row in rows) for bucket in HELD]


def test_a_job_has_what_was_counted_by_hand(client: TestClient) -> None:
    jobs = {row["job_id"]: row for row in ask(client, "efficiency_of_jobs", by="held")}
    assert {job: held_of(row) for job, row in jobs.items()} == {
        job: pytest.approx(parts) for job, parts in BY_HAND.items()
    }
    for job, (used, under_used, idle, *lost, unobserved) in BY_HAND.items():
        sensed, held = used + under_used + idle, sum(BY_HAND[job])
        assert jobs[job]["wasted_gpu_hours"] == pytest.approx(idle + sum(lost))
        # No checkpoint is known: nobody can say that anything was lost.
        assert jobs[job]["wasted_at_least_gpu_hours"] == pytest.approx(idle)
        assert jobs[job]["held_gpu_hours"] == pytest.approx(sensed + sum(lost) + unobserved)
        assert jobs[job]["efficiency_ratio"] == (pytest.approx(used / sensed) if sensed else None)
        assert jobs[job]["sensed_ratio"] == pytest.approx(sensed / held)
    assert [row["job_id"] for row in ask(client, "efficiency_of_jobs")] == ["empty", "long"]
    assert [row["job_id"] for row in ask(client, "efficiency_of_jobs", by="lost")] == ["long"]
    assert [row["job_id"] for row in ask(client, "efficiency_of_jobs", by="timed_out")] == []
    assert [row["job_id"] for row in ask(client, "efficiency_of_jobs", by="under_used")] == ["wide"]
    assert [row["job_id"] for row in ask(client, "efficiency_of_jobs", by="unobserved")] == ["unseen"]
    assert [row["job_id"] for row in ask(client, "efficiency_of_jobs", workload="bert")] == ["empty"]
    assert [row["job_id"] for row in ask(client, "efficiency_of_jobs", by="held", user="ann", group="two")] == ["wide"]


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"cluster": "synth"}, {"cluster": "tiger"}, {"gpu_type": "T4"}])
def test_every_cut_sums_to_what_the_ledger_says_was_held(everything: TestClient, given: dict[str, str]) -> None:
    days = ask(everything, "ledger_by_day", **given)
    ledger = [sum(day[bucket] for day in days) for bucket in HELD]
    assert sum(ledger) > 0
    for cut in CUTS:
        rows = ask(everything, f"efficiency_by_{cut}", **given)
        assert sums(rows) == pytest.approx(ledger), cut
        for row in rows:
            assert sum(held_of(row)) == pytest.approx(row["held_gpu_hours"])
        assert sum(row["share_of_waste_ratio"] for row in rows) == pytest.approx(1.0)


def test_what_a_user_holds_sums_over_their_groups_and_what_a_group_holds_over_its_users(client: TestClient) -> None:
    for cut, other in (("user", "group"), ("group", "user")):
        for row in ask(client, f"efficiency_by_{cut}"):
            parts = ask(client, f"efficiency_by_{other}", **{cut: row[f"{cut}_id"]})
            assert sums(parts) == pytest.approx(held_of(row))


@pytest.mark.slow
def test_each_step_of_efficiency_leads_to_its_jobs(everything: TestClient, rich: Config) -> None:
    steps = ask(everything, "job_efficiencies", cluster="synth")
    known = [step for step in steps if step["bin"] is not None]
    for step in known:
        jobs = ask(everything, "efficiency_of_jobs", cluster="synth", bin=step["bin"], by="held")
        assert len(jobs) == step["jobs"]
        assert sum(row["held_gpu_hours"] for row in jobs) == pytest.approx(step["held_gpu_hours"])
        assert all(step["from_ratio"] - 1e-6 <= row["efficiency_ratio"] <= step["to_ratio"] + 1e-6 for row in jobs)
    query = "SELECT sum(held_gpu_hours) AS held FROM gold_job_efficiency_daily WHERE cluster_id = 'synth'"
    assert [{"held": pytest.approx(sum(step["held_gpu_hours"] for step in steps))}] == rows_of(Lake(rich), query)


def test_the_picture_of_efficiencies_tells_of_what_no_sensor_saw(client: TestClient) -> None:
    text = client.get("/panels/efficiency/spread").text
    assert "and 10 GPU-hours of 1 job without a share of use" in text
    assert pages()["efficiency"].panels[3].limit > BINS + 1


def test_costs_are_those_of_the_types_that_have_a_price(client: TestClient, small: Config) -> None:
    rows = {row["user_id"]: row for row in ask(client, "cost_by_user")}
    costs = ("held_cost", "wasted_cost", "wasted_at_least_cost", "under_used_cost")
    assert {user: [row[cost] for cost in costs] for user, row in rows.items()} == {
        # At 3 an hour: 20 + 40 held, 20 idle, 30 under-used; 24 held, 20 lost at most. A T4 has no price.
        "ann": pytest.approx([180.0, 60.0, 60.0, 90.0]),
        "bob": pytest.approx([72.0, 60.0, 0.0, 0.0]),
    }
    assert {row["currency"] for row in rows.values()} == {"USD"}
    sums = "sum(held_cost) AS held, sum(wasted_cost) AS wasted, sum(under_used_cost) AS beside"
    query = f"SELECT {sums} FROM gold_energy_daily"
    assert rows_of(Lake(small), query) == [pytest.approx({"held": 252.0, "wasted": 120.0, "beside": 90.0})]


def test_without_prices_the_panel_says_how_to_set_one(tmp_path: Path) -> None:
    config = Config(lake=tmp_path / "lake", threads=1, gpu_types={})
    Flow(config).refresh([write_trace(tmp_path / "raw", ATTEMPTS[:1])], None)
    with TestClient(application(Lake(config))) as client:
        assert "price_per_hour" in client.get("/panels/efficiency/costs").text


SCOPES = [
    Scope(user="ann"),
    Scope(user="bob"),
    Scope(user="eve", first_day=date(2026, 1, 2)),
    Scope(user="eve", last_day=date(2026, 1, 1), cluster="pai"),
    Scope(group="two"),
    Scope(group="one"),
    Scope(user="ann", group="two"),
]


def test_advice_on_a_page_is_for_a_user_or_a_group(client: TestClient) -> None:
    assert ask(client, "advice", user="ann")
    assert ask(client, "advice") == []


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_a_report_card_on_a_page_is_the_card(client: TestClient, small: Config, scope: Scope) -> None:
    with Lake(small).open().reading() as reader:
        card = efficiency_card(reader, small, scope)
    given = {"user": scope.user, "group": scope.group, "cluster": scope.cluster}
    given |= {"from": scope.first_day, "to": scope.last_day}  # type: ignore[dict-item]
    given = {name: value for name, value in given.items() if value is not None}
    tiles = {row["label"]: row["value"] for row in ask(client, "report_card", **given)}
    assert tiles["held"] == pytest.approx(card.held)
    shown = [bucket for bucket in HELD if bucket not in LOST or card.buckets[bucket]]
    of = {bucket: card.sensed if bucket == "used" else card.held for bucket in shown}
    assert {bucket: tiles[bucket_name(bucket)] for bucket in shown} == {
        bucket: pytest.approx(card.buckets[bucket] / of[bucket]) if of[bucket] else None for bucket in shown
    }
    assert not {bucket_name(bucket) for bucket in set(HELD) - set(shown)} & set(tiles)
    assert (tiles["wasted"], tiles["lost"]) == pytest.approx((card.wasted / card.held, card.lost / card.held))
    assert tiles["cost"] == (pytest.approx(card.money.amount) if card.money else None)
    energy = card.energy_kilowatt_hours
    assert tiles["energy"] == (pytest.approx(energy.amount) if energy else None)
    assert tiles.get("rank by waste") == (card.standing.waste_rank if card.standing else None)
    assert tiles.get("wait") == (card.waits.median_seconds if card.waits else None)
    advice = ask(client, "advice", **given)
    assert [(row["kind"], row["saved_gpu_hours"], row["saved_cost"]) for row in advice] == [
        (one.kind, pytest.approx(one.saved_gpu_hours), pytest.approx(one.saved_cost)) for one in card.advice
    ]
    assert [[proof["job_id"] for proof in row["proofs"]] for row in advice] == [
        [proof.job_id for proof in one.proofs] for one in card.advice
    ]
    days = ask(client, "held_by_day", **given)
    assert [{bucket: day[bucket] for bucket in ("day", *HELD)} for day in days] == [
        {"day": str(day["day"]), **{bucket: pytest.approx(day[bucket]) for bucket in HELD}} for day in card.days
    ]
    causes: dict[str, float] = defaultdict(float)
    for row in ask(client, "waste_by_cause", **given):
        causes[row["bucket"]] += row["wasted_gpu_hours"]
    wasted = {bucket: card.buckets[bucket] for bucket in WASTED if card.buckets[bucket] > 0}
    assert dict(causes) == pytest.approx(wasted)


def test_a_loss_that_is_not_known_is_shown_as_a_range_and_says_what_is_inferred(client: TestClient) -> None:
    tiles = {row["label"]: row for row in ask(client, "report_card", user="bob")}
    assert (tiles["lost"]["words"], tiles["lost"]["note"]) == ("0.0% to 83%", "0 to 20.0 GPU-hours")
    assert tiles["used"]["note"] == "100% of the 4.0 GPU-hours that sensors measured: 4.0, 17% to 100% of what was held"
    (advice,) = ask(client, "advice", user="bob")
    assert advice["headline"].startswith("Checkpoint long runs: saves up to 18.0 GPU-hours, ")
    assert (advice["saves"], advice["saved_at_least_gpu_hours"], advice["inferred_gpu_hours"]) == ("lost", 0.0, 0.0)
    (cause,) = ask(client, "waste_by_cause", user="bob")
    assert (cause["bucket"], cause["is_at_most"], cause["inferred_lost_ratio"]) == ("failed", True, 0.0)


def test_the_whole_ledger_has_its_bounds_and_its_time(client: TestClient) -> None:
    rows = {row["bucket"]: row for row in ask(client, "ledger_buckets")}
    assert list(rows) == ["down", "unknown", "unallocated", "idle", "under_used", *LOST, "unobserved", "used"]
    bounds = {bucket: (row["gpu_hours_at_least"], row["gpu_hours_at_most"]) for bucket, row in rows.items()}
    assert bounds["failed"] == (0.0, pytest.approx(20.0))
    assert bounds["used"] == (pytest.approx(36.0), pytest.approx(66.0))
    (observed,) = ask(client, "observed")
    assert {rows["used"][name] for name in ("observed_from",)} == {observed["observed_from"]}
    assert (observed["observed_basis"], observed["is_generated"]) == ("events", False)


def test_the_card_of_a_group_has_what_its_jobs_held(small: Config) -> None:
    with Lake(small).open().reading() as reader:
        card = efficiency_card(reader, small, Scope(group="two"))
    parts = [sum(values) for values in zip(BY_HAND["wide"], BY_HAND["long"], strict=True)]
    assert [card.buckets[bucket] for bucket in HELD] == pytest.approx(parts)
    assert (card.capacity, card.jobs, card.users, card.standing) == (None, 2, 2, None)
    # Who used a part of what they held wasted nothing.
    assert [user.user_id for user in card.worst_users] == ["bob"]


@pytest.mark.slow
def test_a_brief_card_has_the_numbers_of_the_whole(small: Config) -> None:
    with Lake(small).open().reading() as reader:
        for scope in (Scope(), *SCOPES):
            whole = efficiency_card(reader, small, scope)
            brief = efficiency_card(reader, small, scope, is_brief=True)
            assert brief == replace(whole, advice=(), worst_jobs=(), worst_users=())


def test_days_without_anything_have_no_card_and_no_error(client: TestClient) -> None:
    for name in ("report_card", "advice", "held_by_day", "waste_by_cause", "job_efficiencies", "efficiency_of_jobs"):
        assert ask(client, name, user="ann", **{"from": "2031-01-01"}) == []
    assert "Nothing was held" in client.get("/panels/user/card?user=ann&from=2031-01-01").text


def test_an_unknown_user_has_an_empty_page(client: TestClient) -> None:
    """As of every other question; a page says so in its own words."""
    for name in ("report_card", "advice"):
        for given in ({"user": "anne"}, {"group": "twoo"}, {"user": "ann", "cluster": "nowhere"}):
            assert ask(client, name, **given) == []
    for panel in ("card", "advice"):
        response = client.get(f"/panels/user/{panel}?user=anne")
        assert (response.status_code, "under this name" in response.text) == (200, True)


def test_a_computed_answer_is_sorted_paged_and_downloaded_like_any_other(client: TestClient) -> None:
    every = ask(client, "report_card", user="ann")
    assert ask(client, "report_card", user="ann", sort="-place") == every[::-1]
    assert ask(client, "report_card", user="ann", limit=2, offset=3) == every[3:5]
    assert client.get("/api/v1/report_card?user=ann&limit=2").json()["total"] == len(every)
    lines = list(csv.DictReader(io.StringIO(client.get("/api/v1/report_card.csv?user=ann").text)))
    assert [line["label"] for line in lines] == [row["label"] for row in every]
    table = pq.read_table(io.BytesIO(client.get("/api/v1/advice.parquet?user=ann").content))
    assert table["kind"].to_pylist() == [row["kind"] for row in ask(client, "advice", user="ann")]


def test_a_dear_answer_knows_how_many_rows_it_has_on_every_page(client: TestClient) -> None:
    for offset, count in ((0, 2), (2, 2), (4, 1), (6, 0)):
        answer = client.get(f"/api/v1/efficiency_of_jobs?by=held&limit=2&offset={offset}").json()
        assert (answer["total"], len(answer["rows"])) == (5, count)
        assert "answered_rows" not in {column["name"] for column in answer["columns"]}


def test_an_empty_field_of_the_form_is_no_value(client: TestClient) -> None:
    assert client.get("/panels/efficiency/users?from=&to=&cluster=&gpu_type=").status_code == 200
    assert client.get("/rows/efficiency_of_jobs?bin=&by=&user=&from=").status_code == 200
    assert client.get("/rows/efficiency_of_jobs?bin=x").status_code == 422


def test_a_click_carries_what_was_given_and_not_what_it_names_itself() -> None:
    given = {"user": "a&b {x}", "from": "2026-01-01", "to": None, "cluster": "pai"}
    assert carried("/jobs?from={x}&to={x}", given) == "/jobs?from={x}&to={x}&user=a%26b+%7Bx%7D&cluster=pai"
    assert carried("/jobs?user={user}&to={x}", given) == "/jobs?user=a%26b+%7Bx%7D&to={x}&from=2026-01-01&cluster=pai"
    assert carried("/jobs", {"cluster": None}) == "/jobs"


def test_what_a_function_made_is_seen_by_its_own_question_alone(client: TestClient, small: Config) -> None:
    assert ask(client, "report_card", user="ann") != ask(client, "report_card", user="bob")
    with Lake(small).open().reading() as reader:
        assert "computed" not in reader.tables()


def test_the_figure_of_holders_has_those_who_hold_most(shared_lake: Config) -> None:
    client = client_of(shared_lake)
    users = [row["user_id"] for row in ask(client, "efficiency_by_user")]
    assert len(users) > 15
    figure = figure_of(client, "efficiency", "holders")
    assert {name for trace in figure["data"] for name in trace["customdata"]} == set(users[:15])
