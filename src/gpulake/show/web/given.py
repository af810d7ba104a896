"""What a URL gives: filters, the options of a question or a page, and which rows of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import Query
from pydantic import BeforeValidator, Field

from gpulake.core.errors import UsageError
from gpulake.show.web.answers import MOST_ROWS
from gpulake.show.web.questions import MOST_TEXT, TYPES, Option, Question, Value

FILTERS = (
    Option("from", "the first day, in the cluster's own time zone", "date"),
    Option("to", "the last day", "date"),
    Option("cluster", "rows of this cluster alone"),
    Option("gpu_type", "rows of this type of GPU alone"),
)
_OF_FILTER = {"days": ("from", "to"), "cluster": ("cluster",), "gpu_type": ("gpu_type",)}
MOST_OFFSET = 10_000_000


def filters_of(question: Question) -> tuple[Option, ...]:
    names = {name for kind in question.filters for name in _OF_FILTER[kind]}
    return tuple(option for option in FILTERS if option.name in names)


def signed(call: Callable[..., Any], options: Iterable[Option], has_rows: bool = True) -> Callable[..., Any]:
    """The function with the options as parameters of its own, so that the API's document and its checks know them.

    It is called with a mapping of them, and with what it takes besides.
    """
    own = [
        parameter
        for parameter in inspect.signature(call, eval_str=True).parameters.values()
        if parameter.name not in ("given", *(() if has_rows else ("limit", "offset", "sort")))
    ]
    taken = {f"option_{option.name}": option for option in options}

    def called(**values: Any) -> Any:
        given = {option.name: _plain(values.pop(name, None)) for name, option in taken.items()}
        check_days(given)
        return call(given=given, **values)

    parameters = [*own, *(_parameter(name, option) for name, option in taken.items())]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__name__ = call.__name__
    called.__doc__ = call.__doc__
    return called


def _parameter(name: str, option: Option) -> inspect.Parameter:
    kind: Any = TYPES[option.kind]
    checks: dict[str, Any] = {"max_length": MOST_TEXT} if option.kind == "text" else {}
    if option.kind == "integer":
        checks = {"ge": -(2**53), "le": 2**53}
    if option.kind == "number":
        checks = {"allow_inf_nan": False}
    if option.choices:
        checks["pattern"] = f"^({'|'.join(option.choices)})$"
    kind = Annotated[kind, Field(**checks)]
    # An empty field of a form is no value, whatever its type.
    kind = kind if option.is_needed else Annotated[kind | None, BeforeValidator(_given)]
    annotation = Annotated[kind, Query(alias=option.name, description=option.about)]
    default = inspect.Parameter.empty if option.is_needed else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _given(value: Any) -> Any:
    return None if value == "" else value


def _plain(value: Any) -> Value:
    """A day as text."""
    plain: Value = value.isoformat() if isinstance(value, date) else value
    return plain


def check_days(given: Mapping[str, Value]) -> None:
    begin, end = given.get("from"), given.get("to")
    if begin is not None and end is not None and str(begin) > str(end):
        raise UsageError(f"the days end ({end}) before they begin ({begin})", "let `to` be the later day")


def as_query(given: Mapping[str, Value], **more: object) -> str:
    """The same values as a URL has them."""
    values = {**given, **more}
    return urlencode({name: str(value) for name, value in values.items() if value not in (None, "")})


def under(link: str, given: Mapping[str, Value]) -> str:
    """A link of ours, under the filters of a page where it does not name them itself."""
    named = {name for name, _ in parse_qsl(urlsplit(link).query)}
    more = as_query({option.name: given.get(option.name) for option in FILTERS if option.name not in named})
    return f"{link}{'&' if '?' in link else '?'}{more}" if more else link


Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="at most so many rows")]
Offset = Annotated[int, Query(ge=0, le=MOST_OFFSET, description="without so many of the first rows")]
Sort = Annotated[
    str, Query(max_length=MOST_TEXT, description="a column to sort by; with a minus before it from the largest")
]
