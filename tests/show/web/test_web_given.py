"""What a URL gives is checked before anything is asked, and the API's document says how."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request

from gpulake.show.web.given import described, taken
from gpulake.show.web.questions import Option

OPTIONS = (
    Option("job", "the job's id", is_needed=True),
    Option("from", "the first day", "date"),
    Option("least_gpus", "at least so many", "number"),
    Option("size", "a class", "integer"),
    Option("status", "how it ended", choices=("failed", "succeeded")),
)
ROWS: dict[str, int | str] = {"limit": 100, "offset": 0, "sort": ""}


def read(query: str) -> dict[str, Any]:
    return taken(OPTIONS, **ROWS)(Request({"type": "http", "query_string": query.encode()}))


def test_values_are_of_their_kinds_and_what_is_not_given_is_nothing() -> None:
    nothing = {"from": None, "least_gpus": None, "size": None, "status": None}
    assert read("job=1") == {"given": {"job": "1", **nothing}, **ROWS}
    given = {"job": "0", "from": "2026-01-02", "least_gpus": 0.0, "size": 0, "status": "failed"}
    asked = read("job=0&from=2026-01-02&least_gpus=0&size=0&status=failed&limit=7&offset=3&sort=-size&other=x")
    assert asked == {"given": given, "limit": 7, "offset": 3, "sort": "-size"}


def test_an_empty_field_of_a_form_is_no_value() -> None:
    assert read("job=1&from=&least_gpus=&size=&status=") == read("job=1")


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("", {"job"}),
        ("job=1&from=yesterday&size=x", {"from", "size"}),
        ("job=1&least_gpus=nan", {"least_gpus"}),
        ("job=1&status=fail", {"status"}),
        ("job=1&limit=0&offset=-1", {"limit", "offset"}),
        ("job=1&limit=", {"limit"}),
        (f"job={'x' * 301}", {"job"}),
    ],
)
def test_every_value_that_is_wrong_is_named(query: str, wrong: set[str]) -> None:
    with pytest.raises(RequestValidationError) as caught:
        read(query)
    assert {fault["loc"] for fault in caught.value.errors()} == {("query", name) for name in wrong}


def test_the_document_names_every_parameter() -> None:
    parameters = {one["name"]: one for one in described(OPTIONS, **ROWS)["parameters"]}
    assert list(parameters) == ["job", "from", "least_gpus", "size", "status", "limit", "offset", "sort"]
    assert [name for name, one in parameters.items() if one["required"]] == ["job"]
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
