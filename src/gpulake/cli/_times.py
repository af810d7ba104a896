"""Times that people type: a moment, or how long from now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from gpulake.cli._options import Function

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Moment(click.ParamType):  # type: ignore[type-arg]
    """ISO 8601; UTC where it says no zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no time; write it like 2026-01-31T18:00 (UTC)", param, ctx)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


class Span(click.ParamType):  # type: ignore[type-arg]
    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = _SPAN.fullmatch(str(value).strip())
        seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
        if not 0 < seconds <= 366 * 86400:
            self.fail(f"{value!r} is no span of time; write it like 30m, 2h or 3d", param, ctx)
        return timedelta(seconds=seconds)


class Since(click.ParamType):  # type: ignore[type-arg]
    """A moment, or how long before now."""

    name = "time or span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime | timedelta:
        is_span = isinstance(value, timedelta) or _SPAN.fullmatch(str(value).strip())
        return Span().convert(value, param, ctx) if is_span else Moment().convert(value, param, ctx)


def until_options(function: Function) -> Function:
    function = click.option("--for", "span", type=Span(), metavar="SPAN", help="For this long, such as 30m, 2h or 3d.")(
        function
    )
    return click.option("--until", type=Moment(), metavar="TIME", help="Until this time; UTC where no zone is given.")(
        function
    )


def end_of(until: datetime | None, span: timedelta | None, start: datetime) -> datetime | None:
    if until is not None and span is not None:
        raise click.UsageError("--until and --for were both given; leave one of them out")
    return start + span if span is not None else until
