"""The two-round test: who is faulty, how many tests that takes, and when nobody can tell."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.act.pairwise import PairwiseResult, Works, World, find_faulty
from gpulake.core.errors import ActError


def failing(*faulty: str) -> Works:
    """A world fails if and only if one of its nodes is faulty."""
    return lambda world: not set(world) & set(faulty)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[str], set[str]]:
    """Nodes in any order, fewer than half of them faulty."""
    nodes = draw(st.permutations([f"n{number}" for number in range(draw(st.integers(1, 24)))]))
    most = (len(nodes) - 1) // 2
    return nodes, set(draw(st.lists(st.sampled_from(nodes), max_size=most, unique=True)))


@given(clusters(), st.integers(1, 4))
def test_fewer_than_half_are_found_exactly_and_with_few_tests(
    cluster: tuple[list[str], set[str]], at_once: int
) -> None:
    nodes, faulty = cluster
    found = find_faulty(nodes, failing(*faulty), at_once=at_once)
    assert set(found.faulty) == faulty
    assert set(found.good) == set(nodes) - faulty
    assert found.undecided == ()
    assert len(found.worlds) <= len(nodes) // 2 + 3 + 3 * len(faulty) + 1
    assert max((len(world) for world, _ in found.worlds), default=0) <= 3


@given(
    st.sets(st.integers(0, 11)),
    st.integers(1, 12),
    st.lists(st.integers(20, 23), unique=True),
    st.sets(st.integers(20, 23)),
)
def test_a_good_node_is_never_called_faulty(faulty: set[int], count: int, spares: list[int], bad: set[int]) -> None:
    is_bad = {f"n{number}" for number in faulty | bad}
    nodes = [f"n{number}" for number in range(count)]
    found = find_faulty(nodes, failing(*is_bad), [f"n{number}" for number in spares])
    assert set(found.faulty) <= is_bad
    assert not set(found.good) & is_bad
    assert sorted((*found.faulty, *found.good, *found.undecided)) == sorted(nodes)


def test_two_rounds_of_six_nodes() -> None:
    found = find_faulty(["a", "b", "c", "d", "e", "f"], failing("d"))
    assert found == PairwiseResult(
        faulty=("d",),
        good=("a", "b", "c", "e", "f"),
        worlds=(
            (("a", "b"), True),
            (("c", "d"), False),
            (("e", "f"), True),
            (("c", "a"), True),
            (("d", "b"), False),
        ),
    )


def test_an_odd_one_is_in_a_world_of_three() -> None:
    found = find_faulty(["a", "b", "c", "d", "e"], failing("a"))
    assert [world for world, _ in found.worlds[:2]] == [("a", "b"), ("c", "d", "e")]
    assert found.faulty == ("a",)


def test_a_world_of_three_that_fails_alone_is_taken_apart() -> None:
    assert find_faulty(["a", "b", "c"], failing("b")).faulty == ("b",)


def test_of_two_that_fail_together_one_that_fails_alone_is_faulty() -> None:
    assert find_faulty(["a", "b"], failing("b")) == PairwiseResult(
        faulty=("b",), undecided=("a",), worlds=((("a", "b"), False), (("a",), True), (("b",), False))
    )


def test_two_nodes_that_fail_only_together_are_undecided() -> None:
    assert find_faulty(["a", "b"], lambda world: len(world) == 1).undecided == ("a", "b")


def test_spares_tell_where_every_world_fails() -> None:
    nodes = ["a", "b", "c", "d"]
    assert find_faulty(nodes, failing("a", "c"), spares=["x", "y"]).faulty == ("a", "c")
    assert find_faulty(nodes, failing("a", "c"), spares=["x"]).faulty == ("a", "c")
    # A spare that is faulty itself blames nobody.
    assert find_faulty(nodes, failing("a", "c", "x"), spares=["x"]).good == ()


def test_a_test_that_always_fails_blames_nobody() -> None:
    for count in range(1, 9):
        nodes = tuple(f"n{number}" for number in range(count))
        found = find_faulty(nodes, lambda _: False, spares=["x", "y", "z"])
        assert (found.faulty, found.good, found.undecided) == ((), (), nodes)


def test_no_nodes_need_no_test() -> None:
    assert find_faulty([], failing()) == PairwiseResult()


def test_a_node_that_is_named_twice_is_tested_once() -> None:
    assert [world for world, _ in find_faulty(["a", "a", "b"], failing()).worlds] == [("a", "b")]


def test_a_test_that_fails_now_and_then_is_tried_again() -> None:
    seen: set[World] = set()

    def flaky(world: World) -> bool:
        is_first = world not in seen
        seen.add(world)
        return not is_first and "b" not in world

    assert find_faulty(["a", "b", "c", "d"], flaky, tries=2).faulty == ("b",)


def test_worlds_of_a_round_run_side_by_side_and_share_no_node() -> None:
    both = threading.Barrier(2, timeout=60)
    busy: set[str] = set()
    lock = threading.Lock()

    def test(world: World) -> bool:
        with lock:
            assert not busy & set(world)
            busy.update(world)
        both.wait()
        with lock:
            busy.difference_update(world)
        return True

    assert find_faulty(["a", "b", "c", "d"], test, at_once=2).good == ("a", "b", "c", "d")


def test_a_test_that_cannot_be_run_stops_the_search() -> None:
    def broken(world: World) -> bool:
        raise ActError(f"cannot test {world}")

    with pytest.raises(ActError, match="cannot test"):
        find_faulty(["a", "b"], broken)
