from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.synth.clock import FIRST_SECOND, at, iso, submissions
from gpulake.synth.draws import LENGTHS, Curve, Ids, deal, generator, quotas, ranks
from gpulake.synth.placement import Closure, Drag, place
from gpulake.synth.tables import decimals, floats, seconds, words
from gpulake.synth.usage import BIN_SECONDS, level, load


def test_a_curve_passes_through_its_points_and_is_straight_in_the_logarithm() -> None:
    known = Curve.through([25, 75], [10.0, 1000.0], least=1.0, most=5000.0)
    assert known.value(np.array([0.0, 0.25, 0.5, 0.75, 1.0])) == pytest.approx([1, 10, 100, 1000, 5000])
    assert known.share(np.array([10.0, 100.0, 1000.0])) == pytest.approx([0.25, 0.5, 0.75])


def test_a_pixel_that_steps_back_does_not_bend_a_curve() -> None:
    known = Curve.through([1, 2, 50], [16.66, 16.62, 300.0], least=2.0, most=900.0)
    assert (np.diff(known.value(np.linspace(0, 1, 101))) >= 0).all()


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=12), st.integers(0, 5_000))
def test_quotas_add_up_and_miss_a_share_by_less_than_one(weights: list[float], total: int) -> None:
    counts = quotas(weights, total)
    assert counts.sum() == total
    assert (np.abs(counts - np.array(weights) / sum(weights) * total) < 1 + 1e-6).all()


def test_dealing_is_even_over_every_part_of_the_order() -> None:
    order = np.arange(3_000.0)
    dealt = deal([0.9, 0.1], order, generator(0, 99))
    for low in range(0, 3_000, 300):
        assert (dealt[low : low + 300] == 1).mean() == pytest.approx(0.1, abs=0.01)


def test_ranks_stand_for_places() -> None:
    assert ranks(np.array([5.0, 1.0, 3.0])).tolist() == pytest.approx([2.5 / 3, 0.5 / 3, 1.5 / 3])


@pytest.mark.parametrize("kind", LENGTHS)
def test_ids_say_that_they_are_generated_and_are_never_the_same(kind: str) -> None:
    found = Ids(7).column(kind, np.arange(20_000)).to_pylist()
    assert len(set(found)) == 20_000
    assert {len(text) for text in found} == {LENGTHS[kind]}
    assert {text[:6] for text in found} == {"synth-"}
    assert set("".join(text[6:] for text in found)) == set("0123456789abcdef")


def test_an_id_does_not_depend_on_its_neighbours() -> None:
    ids = Ids(7)
    assert ids.column("job", np.array([5, 900]))[1].as_py() == ids.text("job", 900)
    assert ids.text("job", 900) != ids.text("inst", 900)[:24]
    assert ids.text("job", 900) != Ids(8).text("job", 900)


def test_numbers_are_written_as_in_the_real_file() -> None:
    assert seconds(np.array([4550879, 0]), np.array([True, False])).to_pylist() == ["4550879.0", None]
    assert floats(np.array([600, 29.296875, 600])).to_pylist() == ["600.0", "29.296875", "600.0"]
    assert floats(np.array([50, 0]), np.array([True, False])).to_pylist() == ["50.0", None]
    assert words(np.array([1, -1, 0]), ["a", "b"]).to_pylist() == ["b", None, "a"]
    assert decimals(np.array([0.12345678]), 4).to_pylist() == [0.1235]


def test_the_fake_calendar_keeps_shanghai_time() -> None:
    assert FIRST_SECOND == at(1, 25) == 2_044_800
    assert iso(4_550_879) == "1970-02-23T00:07:59+08:00"


def test_submissions_keep_the_rhythm_of_the_day() -> None:
    hour = (submissions(50_000, generator(0, 98)) + 8 * 3600) % 86_400 // 3600
    share = np.bincount(hour, minlength=24) / 50_000 * 24
    assert share[11] > 1.3
    assert share[3] < 0.7
    assert share[0] > 1.25  # the jobs of midnight


def attempts(*spans: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start, end, plan = (np.array(column, dtype=np.int32) for column in zip(*spans, strict=True))
    return start + FIRST_SECOND, end + FIRST_SECOND, plan


def test_what_fits_side_by_side_goes_side_by_side() -> None:
    placed = place(*attempts((0, 600, 100), (0, 600, 100), (0, 600, 200)), np.array([200, 200]))
    assert placed[0] == placed[1] != placed[2]


def test_room_comes_back_when_an_attempt_ends() -> None:
    assert place(*attempts((0, 600, 200), (720, 900, 200)), np.array([200])).tolist() == [0, 0]


def test_when_nothing_has_room_the_least_loaded_machine_takes_it() -> None:
    placed = place(*attempts((0, 6000, 200), (0, 6000, 50), (240, 6000, 200)), np.array([200, 200]))
    assert placed[2] == placed[1]


def test_a_closed_machine_takes_nothing_until_it_opens() -> None:
    closure = Closure(np.array([0]), FIRST_SECOND + 1200, FIRST_SECOND + 2400)
    spans = [(second, second + 60, 100) for second in range(0, 3600, 120)]
    placed = place(*attempts(*spans), np.array([800, 800]), closure=closure)
    began = np.array([second for second, _, _ in spans])
    is_shut = (began >= 1200) & (began < 2400)
    assert set(placed[is_shut]) == {1}
    assert 0 in placed[~is_shut]


def test_a_slow_machine_moves_the_ends_of_what_runs_on_it() -> None:
    start, end, plan = attempts((0, 100, 100), (1200, 1300, 100))
    place(start, end, plan, np.array([200]), drag=Drag(0, FIRST_SECOND + 1000, FIRST_SECOND + 2000, 2.5))
    assert (end - start).tolist() == [100, 250]


@settings(max_examples=cases(60))
@given(
    st.lists(
        st.tuples(st.integers(0, 20_000), st.integers(1, 4_000), st.sampled_from([5, 10, 25, 50, 100, 200])),
        min_size=1,
        max_size=60,
    )
)
def test_a_machine_is_never_over_committed_while_one_is_empty(spans: list[tuple[int, int, int]]) -> None:
    start, end, plan = attempts(*[(first, first + lasting, asked) for first, lasting, asked in spans])
    placed = place(start, end.copy(), plan, np.full(61, 200))
    for machine in set(placed):
        here = placed == machine
        for second in start[here]:
            held = plan[here & (start <= second) & (end > second)].sum()
            assert held <= 200


def test_a_load_averages_what_was_there_second_by_second() -> None:
    start, end, _ = attempts((100, 1000, 0), (500, 2500, 0))
    levels = level(np.array([0, 0]), start, end, np.array([10.0, 4.0]), 1)
    assert levels[0, :5] * BIN_SECONDS == pytest.approx([10 * 500 + 4 * 100, 10 * 400 + 4 * 600, 2400, 2400, 400])
    average = load(levels).average(np.array([0]), start[:1] - 100, end[1:] + 500)
    assert average == pytest.approx([(9000 + 8000) / 3000])


def test_a_closed_machine_takes_nothing_even_when_the_others_are_full() -> None:
    closure = Closure(np.array([0]), FIRST_SECOND + 1200, FIRST_SECOND + 2400)
    placed = place(*attempts(*[(1300, 2000, 200)] * 9), np.array([200, 200, 200]), closure=closure)
    assert set(placed) == {1, 2}
