"""The decorator that runs a table of examples inside one test."""

from __future__ import annotations

import pytest

from examples import each


@each("number, square", [(2, 4), (3, 9)])
def test_every_example_is_given_with_the_fixtures(number: int, square: int, tmp_path_factory: object) -> None:
    assert tmp_path_factory
    assert number**2 == square


def test_every_example_that_fails_is_named() -> None:
    @each("number", [1, 2, 3, 4])
    def is_odd(number: int) -> None:
        assert number % 2

    with pytest.raises(ExceptionGroup) as caught:
        is_odd()
    assert caught.value.message == "2 of 4 examples failed"
    assert [error.__notes__ for error in caught.value.exceptions] == [["example: 2"], ["example: 4"]]
