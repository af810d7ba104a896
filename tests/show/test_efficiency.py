"""The efficiency card: what was held, what would save, which jobs prove it; on one screen and on a page."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.core.config import Config, GpuType
from gpulake.core.errors import GpulakeError, LakeError, UsageError
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.show.advice import Proof
from gpulake.show.card_text import card_text
from gpulake.show.efficiency import Card, Energy, Money, Waits
from hand_made import FIRST, Attempt, hour, write_accounting, write_checkpoints, write_trace

GOLDEN = Path(__file__).parent.parent / "golden"
PRICES = {"V100": GpuType(price_per_hour=3.0, busy_watts=300, idle_watts=40), "T4": GpuType(price_per_hour=0.2)}
UNPRICED = {name: replace(kind, price_per_hour=-1.0) for name, kind in Config().gpu_types.items()}
ATTEMPTS = [
    # Held empty: 2 GPUs for 10 hours.
    Attempt("empty", "ann", 1, 11, gpus=2, used=0),
    # Four failures in a row, of half an hour each: the third and the fourth could have been spared.
    *(Attempt("retry", "bob", hours, hours + 0.5, gpus=4, status="failed") for hours in (1, 2, 3, 4)),
    Attempt("retry", "bob", 5, 6, gpus=4, used=4),
    # Lost after five hours.
    Attempt("long", "bob", 12, 17, gpus=4, status="interrupted"),
    # A fifth of four GPUs, more memory than a T4 has.
    Attempt("wide", "cy", 1, 11, gpus=4, used=1, peak_gib=100),
    # Small in every way, on a V100.
    Attempt("small", "cy", 12, 22, gpus=1, used=0.1, peak_gib=4),
    # Five runs of one kind of job, each on a whole T4.
    *(Attempt(f"again{run}", "dee", 1 + run, 2 + run, used=0.25, machine="t", group="g") for run in range(5)),
    # As good as it gets.
    Attempt("good", "eve", 1, 23, gpus=1, used=1, machine="t"),
    Attempt("unseen", "eve", 30, 40, gpus=1, machine="t"),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("small")
    config = Config(lake=folder / "lake", threads=1, gpu_types=UNPRICED)
    Flow(config).refresh([write_trace(folder / "raw", ATTEMPTS)], None)
    return config


def rounded(total: Money | Energy | None) -> tuple[float, ...]:
    assert total is not None
    return tuple(round(value, 6) for value in asdict(total).values() if not isinstance(value, bool))


def kinds(config: Config, user: str | None = None) -> dict[str, float]:
    card = Flow(config).efficiency_card(user)
    return {advice.kind: round(advice.saved_gpu_hours, 6) for advice in card.advice}


@pytest.mark.slow
def test_each_card_says_what_would_have_saved_what(small: Config) -> None:
    assert {user: kinds(small, user) for user in ("ann", "bob", "cy", "dee", "eve")} == {
        "ann": {"release": 20.0},
        # Two of four failures of half an hour on four GPUs; five hours on four GPUs less half an hour.
        "bob": {"checkpoint": 18.0, "stop": 4.0},
        # 10 h × (4 − 1.2 × 1); 10 h × (1 − 0.1), which is more than the 10 h × (1 − 1.2 × 0.1) of asking for less.
        "cy": {"fewer": 28.0, "smaller": 9.0},
        # 5 h × (1 − 1.2 × 0.25)
        "dee": {"share": 3.5},
        "eve": {},
    }
    assert kinds(small) == {"fewer": 28.0, "release": 20.0, "checkpoint": 18.0}


def test_a_proof_is_a_job_with_its_day_what_it_held_and_what_it_used(small: Config) -> None:
    (advice,) = Flow(small).efficiency_card("ann").advice
    assert (advice.title, advice.jobs, advice.users, advice.saved_cost) == ("Release empty GPUs", 1, 1, None)
    assert advice.proofs == (Proof("empty", "ann", "pai", "V100", date(2026, 1, 1), 1, 20.0, 0.0, 20.0),)
    stop = Flow(small).efficiency_card("bob").advice[1]
    assert stop.proofs == (Proof("retry", "bob", "pai", "V100", date(2026, 1, 1), 2, 4.0, None, 4.0),)


def test_without_a_price_in_the_settings_the_list_price_of_the_model_counts(small: Config) -> None:
    default = Config(lake=small.lake, threads=1)
    # 20 GPU-hours of a V100 for 2.48, all of them idle.
    card = Flow(default).efficiency_card("ann")
    assert rounded(card.money) == (49.6, 49.6, 49.6, 0.0, 0.0)
    assert "49.6 USD, 49.6 of it wasted, 0 under-used, at list prices\n" in card_text(card)
    named = replace(default, gpu_types={"Tesla V100-SXM2": GpuType(price_per_hour=1.0)})
    assert rounded(Flow(named).efficiency_card("ann").money) == (20.0, 20.0, 20.0, 0.0, 0.0)


def test_the_card_of_a_user_has_all_that_they_held(small: Config) -> None:
    card = Flow(replace(small, gpu_types=PRICES)).efficiency_card("cy")
    assert card.buckets == pytest.approx(
        {
            "used": 11.0,
            "under_used": 39.0,
            "idle": 0.0,
            "unobserved": 0.0,
            "failed": 0.0,
            "timed_out": 0.0,
            "interrupted": 0.0,
        }
    )
    assert (card.capacity, card.jobs, card.failed_jobs, card.inferred) == (None, 2, 0, 0.0)
    assert card.held == pytest.approx(50.0)
    assert card.standing is not None
    # Who uses a part of what they hold wastes nothing: others lost GPU-hours, or left them empty.
    assert (card.wasted, card.standing.waste_rank, card.standing.held_rank, card.users) == (0.0, 3, 1, 5)
    assert rounded(card.money) == (150.0, 0.0, 0.0, 117.0, 0.0)
    # 11 GPU-hours of 300 W, 39 of 40 W.
    assert rounded(card.energy_kilowatt_hours) == (4.86, 1.56, 0.0)
    assert card.waits == Waits(2, 0.0, 0.0)
    # Nobody's GPU-hours are saved twice; the smaller type saves 2.8 of 3 for all that was held.
    assert {advice.kind: advice.saved_cost for advice in card.advice} == pytest.approx({"fewer": 84.0, "smaller": 28.0})


@pytest.mark.slow
def test_a_price_that_is_not_known_is_not_zero(small: Config) -> None:
    card = Flow(replace(small, gpu_types={"T4": PRICES["T4"]})).efficiency_card()
    assert card.money is not None
    assert card.money.without_gpu_hours == pytest.approx(20 + 8 + 4 + 20 + 50)
    assert {advice.kind: advice.saved_cost for advice in card.advice} == {
        "fewer": None,
        "release": None,
        "checkpoint": None,
    }
    # Not even the T4's price makes a V100's worth known; none makes a T4 cheaper than it.
    assert kinds(replace(small, gpu_types={"T4": PRICES["T4"]}), "cy") == {"fewer": 28.0, "smaller": 9.0}
    dear = {"V100": GpuType(price_per_hour=1.0), "T4": GpuType(price_per_hour=0.9)}
    assert kinds(replace(small, gpu_types=dear), "cy") == {"fewer": 36.8}


@pytest.mark.slow
def test_the_days_are_the_last_ones_and_a_job_counts_as_far_as_it_lies_in_them(config: Config, tmp_path: Path) -> None:
    attempts = [Attempt("early", "ann", 1, 5, used=0), Attempt("night", "ann", 20, 30, gpus=2, used=0)]
    Flow(config).refresh([write_trace(tmp_path / "raw", attempts)], None)
    card = Flow(config).efficiency_card("ann", days=1)
    assert (card.first_day, card.last_day, round(card.held, 6)) == (date(2026, 1, 2), date(2026, 1, 2), 12.0)
    (advice,) = card.advice
    assert advice.proofs == (Proof("night", "ann", "pai", "V100", date(2026, 1, 2), 1, 12.0, 0.0, 12.0),)


@pytest.mark.slow
def test_a_success_between_ends_the_row_of_failures(config: Config, tmp_path: Path) -> None:
    failed = [Attempt("j", "ann", hours, hours + 0.5, gpus=8, status="failed") for hours in (1, 2, 5, 6)]
    good = Attempt("j", "ann", 3, 4, gpus=8, used=8)
    Flow(config).refresh([write_trace(tmp_path / "raw", [*failed[:2], good, *failed[2:]])], None)
    assert kinds(config, "ann") == {}


@pytest.mark.slow
def test_recurrences_that_fail_at_the_same_time_are_no_retries(config: Config, tmp_path: Path) -> None:
    at_once = [Attempt(f"a{run}", "ann", 1, 2, status="failed", group="g") for run in range(5)]
    in_turn = [Attempt(f"b{run}", "bob", run, run + 1, status="failed", group="h") for run in range(5)]
    Flow(config).refresh([write_trace(tmp_path / "raw", [*at_once, *in_turn])], None)
    assert {user: kinds(config, user) for user in ("ann", "bob")} == {"ann": {}, "bob": {"stop": 3.0}}


def promised(card: Card, *kinds: str) -> float:
    return sum(advice.saved_gpu_hours for advice in card.advice if advice.kind in kinds)


@pytest.mark.slow
def test_no_advice_promises_more_than_there_was_to_save(shared_lake: Config) -> None:
    flow = Flow(shared_lake)
    everyone = flow.efficiency_card()
    for user in (None, *(standing.user_id for standing in everyone.worst_users)):
        card = flow.efficiency_card(user)
        slack = 1.000001
        released = promised(card, "release")
        assert released == pytest.approx(card.buckets["idle"]) or not released
        assert promised(card, "stop", "checkpoint") <= card.lost * slack
        # What is under-used could be made smaller; it is no part of what was wasted.
        assert promised(card, "fewer", "smaller", "share") <= card.buckets["under_used"] * slack
        assert promised(card, "release", "stop", "checkpoint") <= card.wasted * slack


@pytest.mark.slow
def test_idle_is_the_bucket_and_under_used_is_no_waste(config: Config, tmp_path: Path) -> None:
    attempts = [Attempt("part", "ann", 0, 10, gpus=8, used=1), Attempt("empty", "bob", 0, 1, gpus=1, used=0)]
    Flow(config).refresh([write_trace(tmp_path / "raw", attempts)], None)
    card = Flow(config).efficiency_card()
    assert (card.buckets["idle"], card.wasted) == pytest.approx((1.0, 1.0))
    assert [user.user_id for user in card.worst_users] == ["bob"]
    assert [job["job_id"] for job in card.worst_jobs] == ["empty"]
    assert card.buckets["under_used"] == pytest.approx(70.0)


@pytest.mark.slow
def test_without_a_checkpoint_what_is_lost_is_a_range_and_with_one_it_is_known(config: Config, tmp_path: Path) -> None:
    attempts = [
        # Saved after four of five hours: one hour on four GPUs is lost, sixteen GPU-hours count by use.
        Attempt("saved", "bob", 0, 5, gpus=4, used=4, status="failed"),
        Attempt("unsaved", "bob", 6, 8, gpus=4, used=4, status="failed"),
        # Its end is not recorded: the job's is inferred for it.
        Attempt("cut", "ann", 0, None, gpus=2, status="interrupted"),
        Attempt("cut", "ann", 3, 4, gpus=2, used=2),
    ]
    paths = [write_trace(tmp_path / "raw", attempts), write_checkpoints(tmp_path, [("saved", 2), ("saved", 4)])]
    Flow(config).refresh(paths, None)
    bob = Flow(config).efficiency_card("bob")
    assert (bob.lost_at_least, bob.lost) == pytest.approx((4.0, 12.0))
    assert (bob.wasted_at_least, bob.wasted, bob.inferred_lost) == pytest.approx((4.0, 12.0, 0.0))
    assert (bob.buckets["failed"], bob.buckets["used"]) == pytest.approx((12.0, 16.0))
    # Nothing that ran for an hour since its checkpoint; two hours on four GPUs less half an hour.
    (checkpoint,) = bob.advice
    assert (checkpoint.saved_at_least_gpu_hours, checkpoint.saving) == (0.0, "saves up to 6.0 GPU-hours")
    assert "  wasted     4.0 to 12.0 GPU-hours (14% to 43%): 0 idle, 4.0 to 12.0 lost\n" in card_text(bob)
    ann = Flow(config).efficiency_card("ann")
    assert ann.inferred_lost == pytest.approx(ann.lost)
    assert "lost (100% inferred)\n" in card_text(ann)
    assert [advice.saving for advice in ann.advice] == ["saves up to 5.0 GPU-hours (100% inferred)"]


@pytest.mark.slow
def test_a_card_says_of_what_time_it_is_and_what_is_not_known(config: Config, tmp_path: Path) -> None:
    raw = write_trace(tmp_path / "raw", [Attempt("j", "ann", 0, 10, gpus=2, used=1), Attempt("k", "ann", 2, 4)])
    # Nobody knows what the second one asked for.
    tasks = raw / "pai_task_table.csv"
    tasks.write_text("".join(line for line in tasks.read_text().splitlines(keepends=True) if line.startswith("j,")))
    Flow(config).refresh([raw], None)
    card = Flow(config).efficiency_card()
    (cluster,) = card.clusters
    assert (cluster.observed_from, cluster.observed_until) == (FIRST, hour(10))
    assert (cluster.observed_basis, cluster.unknown_demand_ratio, cluster.is_generated) == ("events", 0.5, False)
    assert card.buckets["unknown"] > 0
    text = card_text(card)
    assert "  observed   pai from 2025-12-31 16:00 to 2026-01-01 02:00 UTC (first to last event)\n" in text
    assert "  missing    the requests of 50% of the attempts of pai are not known\n" in text
    assert "generated" not in text


@pytest.mark.slow
def test_generated_data_are_called_generated(config: Config, tmp_path: Path) -> None:
    Flow(config).refresh([write_accounting(tmp_path / "raw", "synth")], tmp_path / "report.html")
    assert "  generated  synth: not measured on a real cluster\n" in report(config)
    document = json.loads(report(config, "--json"))
    assert [(one["cluster_id"], one["is_generated"]) for one in document["clusters"]] == [("synth", True)]
    report(config, "--out", str(tmp_path / "card.html"))
    for page in ("card.html", "report.html"):
        assert "<b>Generated data:</b> synth was written by" in (tmp_path / page).read_text()


def test_the_buckets_of_the_cluster_add_up_to_its_capacity(shared_lake: Config) -> None:
    card = Flow(shared_lake).efficiency_card()
    assert card.capacity is not None
    assert sum(card.buckets.values()) == pytest.approx(card.capacity, rel=1e-6)
    assert sum(sum(float(day[bucket]) for bucket in card.buckets) for day in card.days) == pytest.approx(card.capacity)


@pytest.mark.parametrize(("user", "file"), [(None, "card_cluster.txt"), ("cy", "card_user.txt")])
def test_the_text_is_the_golden_one(small: Config, user: str | None, file: str) -> None:
    prices = {**PRICES, "T4": GpuType(busy_watts=70, idle_watts=10)}
    assert card_text(Flow(replace(small, gpu_types=prices)).efficiency_card(user)) == (GOLDEN / file).read_text()


@pytest.mark.slow
def test_a_card_is_one_screen_and_nothing_in_the_data_can_break_it(config: Config, tmp_path: Path) -> None:
    evil = "\x1b[2J" + "long" * 30
    attempts = [replace(attempt, user=f"{evil}{attempt.user}", job=f"{evil}{attempt.job}") for attempt in ATTEMPTS]
    Flow(config).refresh([write_trace(tmp_path / "raw", attempts)], None)
    priced = replace(config, gpu_types={**PRICES, "T4": GpuType(busy_watts=70, idle_watts=10)})
    for user in (None, f"{evil}cy", f"{evil}bob"):
        text = card_text(Flow(priced).efficiency_card(user))
        assert "\x1b" not in text
        assert len(text.splitlines()) <= 40
        assert max(map(len, text.splitlines())) <= 100


@pytest.mark.slow
def test_the_page_shows_hostile_labels_and_they_do_nothing(config: Config, tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    attempts = [
        replace(attempt, user=f"{hostile}{attempt.user}", job=f"{hostile}{attempt.job}") for attempt in ATTEMPTS
    ]
    Flow(config).refresh([write_trace(tmp_path / "raw", attempts)], None)
    for user in (None, f"{hostile}cy"):
        Flow(config).efficiency_card(user, path=tmp_path / "card.html")
        page = (tmp_path / "card.html").read_text()
        assert "alert(1)" in page
        assert hostile not in page
        assert "<img src=x" not in page
        assert page.count("</script>") == page.count("<script>") == 2
        body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
        assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", body)


def report(config: Config, *arguments: str) -> str:
    answer = CliRunner().invoke(root, ["report", "efficiency", *arguments, "--lake", str(config.lake)])
    if isinstance(answer.exception, GpulakeError):
        raise answer.exception
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.mark.slow
def test_the_command_prints_a_card_a_document_or_the_path_of_a_page(small: Config, tmp_path: Path) -> None:
    assert report(small, "--user", "ann").startswith("user ann on pai, 2026-01-01 to 2026-01-02 (2 days)\n")
    document = json.loads(report(small, "--user", "bob", "--json"))
    lost = {name: document[name] for name in ("lost", "lost_at_least", "inferred_lost", "wasted", "wasted_at_least")}
    assert lost == {"lost": 28.0, "lost_at_least": 0.0, "inferred_lost": 0.0, "wasted": 28.0, "wasted_at_least": 0.0}
    document = json.loads(report(small, "--user", "ann", "--json"))
    assert (document["held"], document["advice"][0]["proofs"][0]["job_id"]) == (20.0, "empty")
    out = tmp_path / "card.html"
    assert report(small, "--out", str(out)) == f"{out}\n"
    assert "Release empty GPUs" in out.read_text()


def test_a_mistyped_user_or_cluster_gets_the_nearest_names(small: Config) -> None:
    with pytest.raises(UsageError, match="no user named 'anne'") as raised:
        report(small, "--user", "anne")
    assert raised.value.hint == "did you mean 'ann'?"
    with pytest.raises(UsageError, match="no user named 'x'") as raised:
        report(small, "--user", "x")
    assert raised.value.hint == "choose from: ann, bob, cy, dee, eve"
    with pytest.raises(UsageError, match="no cluster named 'pay'") as raised:
        report(small, "--cluster", "pay")
    assert raised.value.hint == "did you mean 'pai'?"


@pytest.mark.slow
def test_a_card_needs_a_whole_build(config: Config, tmp_path: Path) -> None:
    Flow(config).refresh([write_trace(tmp_path / "raw", ATTEMPTS)], None, ["silver_jobs"])
    with pytest.raises(LakeError, match="no whole build yet") as raised:
        report(config)
    assert raised.value.hint == "run: gpulake build"


@pytest.mark.slow
def test_a_user_who_held_nothing_has_nothing_to_change(config: Config, tmp_path: Path) -> None:
    raw = write_trace(tmp_path / "raw", ATTEMPTS)
    with (raw / "pai_job_table.csv").open("a") as table:
        table.write("cpu,i-cpu,zoe,Terminated,1767200000,1767203600\n")
    Flow(config).refresh([raw], None)
    text = report(config, "--user", "zoe")
    assert "held       0 GPU-hours in 0 jobs" in text
    assert "No advice: no change" in text
    assert "zoe" in report(config, "--user", "zoe", "--json")
    with Lake(config).reading():
        Flow(config).efficiency_card("zoe", path=tmp_path / "card.html")
