"""Parameters of a URL: filters, the options of a question or a page, and paging."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property
from typing import Annotated, Any
from urllib.parse import quote_plus, urlencode

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from gpulake.core.errors import UsageError
from gpulake.show.web.answers import MOST_ROWS, RANGES
from gpulake.show.web.questions import MOST_TEXT, TYPES, Option, Question, Value

FILTERS = (
    Option("from", "the first day, in the cluster's time zone", "date"),
    Option("to", "the last day", "date"),
    Option("cluster", "rows of this cluster alone"),
    Option("gpu_type", "rows of this type of GPU alone"),
    Option("range", "the last days of the data, unless `from` or `to` is given", choices=tuple(RANGES)),
)
# How a page shows what the filters leave; links carry them on.
VIEW = (
    Option("zone", "of times; the default is UTC", choices=("cluster", "mine")),
    Option("of", "of what shares of the ledger are; the default is held", choices=("capacity",)),
    Option("wall", "a screen on a wall: no controls, and the saved views in turn", choices=("yes",)),
)
_OF_FILTER = {"days": ("from", "to", "range"), "cluster": ("cluster",), "gpu_type": ("gpu_type",)}
DAYS = ("from", "to", "range")
MOST_OFFSET = 10_000_000


def filters_of(question: Question) -> tuple[Option, ...]:
    names = {name for kind in question.filters for name in _OF_FILTER[kind]}
    return tuple(option for option in FILTERS if option.name in names)


def taken(options: Sequence[Option], **rows: int | str) -> Callable[[Request], dict[str, Any]]:
    """A function that reads a request: `given`, a mapping of the options; and paging, where defaults are given.

    Checks are built once for each option, not for each of the hundreds of routes.
    """

    def read(request: Request) -> dict[str, Any]:
        faults: list[Any] = []
        given = {option.name: _plain(_checked(request, checks_of(option), faults)) for option in options}
        values = {name: _checked(request, ROWS[name], faults, default) for name, default in rows.items()}
        if faults:
            raise RequestValidationError(faults)
        check_days(given)
        return {"given": given, **values}

    return read


def described(options: Iterable[Option], **rows: int | str) -> dict[str, Any]:
    """The same parameters for the OpenAPI document."""
    every = [*((checks_of(option), None) for option in options), *((ROWS[name], rows[name]) for name in rows)]
    return {"parameters": [checks.described(default) for checks, default in every]}


@dataclass(frozen=True)
class Checks:
    """One parameter of a URL."""

    name: str
    about: str
    adapter: TypeAdapter[Any]
    is_needed: bool = False

    @cached_property
    def schema(self) -> dict[str, Any]:
        return self.adapter.json_schema()

    def described(self, default: int | str | None) -> dict[str, Any]:
        schema = {**self.schema, **({} if default is None else {"default": default})}
        return {
            "name": self.name,
            "in": "query",
            "required": self.is_needed,
            "description": self.about,
            "schema": schema,
        }


@cache
def checks_of(option: Option) -> Checks:
    kind: Any = TYPES[option.kind]
    checks: dict[str, Any] = {"max_length": MOST_TEXT} if option.kind == "text" else {}
    if option.kind == "integer":
        checks = {"ge": -(2**53), "le": 2**53}
    if option.kind == "number":
        checks = {"allow_inf_nan": False}
    if option.choices:
        checks["pattern"] = f"^({'|'.join(option.choices)})$"
    kind = Annotated[kind, Field(**checks)]
    # An empty form field means: not given.
    kind = kind if option.is_needed else Annotated[kind | None, BeforeValidator(_given)]
    return Checks(option.name, option.about, TypeAdapter(kind), option.is_needed)


def _checked(request: Request, checks: Checks, faults: list[Any], default: int | str | None = None) -> Any:
    text = request.query_params.get(checks.name)
    if text is None and not checks.is_needed:
        return default
    if text is None:
        faults.append({"type": "missing", "loc": ("query", checks.name), "msg": "Field required", "input": None})
        return None
    try:
        return checks.adapter.validate_python(text)
    except ValidationError as error:
        faults += [{**fault, "loc": ("query", checks.name)} for fault in error.errors(include_url=False)]
    return None


def _given(value: Any) -> Any:
    return None if value == "" else value


def _plain(value: Any) -> Value:
    plain: Value = value.isoformat() if isinstance(value, date) else value
    return plain


def check_days(given: Mapping[str, Value]) -> None:
    begin, end = given.get("from"), given.get("to")
    if begin is not None and end is not None and str(begin) > str(end):
        raise UsageError(f"the days end ({end}) before they begin ({begin})", "let `to` be the later day")


def as_query(given: Mapping[str, Value], **more: object) -> str:
    """As the query of a URL."""
    values = {**given, **more}
    return urlencode({name: str(value) for name, value in values.items() if value not in (None, "")})


def carried(target: str, given: Mapping[str, Value]) -> str:
    """The target of a link with the given values added, unless it names them itself; {name} in it is filled in."""
    path, _, query = target.partition("?")
    named = {part.partition("=")[0] for part in query.split("&")}
    rest = as_query({name: value for name, value in given.items() if name not in named})
    for name, value in given.items():
        query = query.replace(f"{{{name}}}", quote_plus("" if value is None else str(value)))
    return f"{path}?{'&'.join(part for part in (query, rest) if part)}" if query or rest else path


def under(link: str, given: Mapping[str, Value]) -> str:
    """A link with the filters of the page added, unless it names them itself."""
    names = [option.name for option in (*FILTERS, *VIEW)]
    has_days = any(f"{name}=" in link for name in ("from", "to", "range"))
    return carried(link, {name: given.get(name) for name in names if not (has_days and name in DAYS)})


# Which rows of an answer.
ROWS = {
    "limit": Checks("limit", "at most this many rows", TypeAdapter(Annotated[int, Field(ge=1, le=MOST_ROWS)])),
    "offset": Checks("offset", "skip this many rows", TypeAdapter(Annotated[int, Field(ge=0, le=MOST_OFFSET)])),
    "sort": Checks(
        "sort",
        "a column to sort by; a minus before it sorts descending",
        TypeAdapter(Annotated[str, Field(max_length=MOST_TEXT)]),
    ),
}
