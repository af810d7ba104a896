"""Pages that are no panels of questions: the API in words, SQL, and administration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from gpulake.core.annotations import ANNOTATIONS
from gpulake.core.config import Config
from gpulake.core.errors import LakeError
from gpulake.core.service_state import read_state
from gpulake.lake.allowed import MOST_QUERY
from gpulake.show.web.answers import Answers, Asked
from gpulake.show.web.api import viewer_of
from gpulake.show.web.given import filters_of
from gpulake.show.web.guard import Guard
from gpulake.show.web.html import environment, rendered
from gpulake.show.web.questions import Option, Question, questions

COLUMNS = """
SELECT table_name, column_name, data_type FROM duckdb_columns()
WHERE table_name ~ '^(bronze|silver|gold)_' OR table_name IN {tables} ORDER BY table_name, column_index
"""
# Panels of other pages that operators look at here, too.
FRAGMENTS = (
    ("muted", "Muted incidents", "/panels/incidents/incidents?state=muted"),
    ("sinks", "Notifications by sink", "/panels/incidents/sinks"),
    ("steps", "What ran", "/panels/quality/steps"),
)


def router(answers: Answers, guard: Guard) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    config = answers.lake.config

    @routes.get("/docs")
    def docs(request: Request) -> Response:
        changes = list(_changes(request.app.openapi()))
        every = questions().values()
        return rendered(request, answers, "docs.html", **NOTHING, questions=every, options_of=_options, changes=changes)

    @routes.get("/sql")
    def sql(
        request: Request,
        query: Annotated[str, Query(max_length=MOST_QUERY)] = "",
        shown: Annotated[str, Query(alias="as", max_length=10)] = "",
    ) -> Response:
        if not config.serve.sql or viewer_of(request).is_limited:
            raise HTTPException(
                404, "the SQL page is off: sql = true in [serve] of gpulake.toml, for viewers of all rows"
            )
        content: dict[str, Any] = {"settings": config.serve, "query": query, "shown": shown, "most": MOST_QUERY}
        return rendered(request, answers, "sql.html", **NOTHING, **content, tables=_tables(answers))

    @routes.get("/service")
    def service(request: Request) -> Response:
        """Part of Data quality: how each part of gpulake run stands."""
        if viewer_of(request).is_limited:
            return HTMLResponse(environment().get_template("service.html").render(state=None, is_hidden=True))
        try:
            state, error = read_state(config.lake), ""
        except LakeError as refused:
            state, error = None, refused.message
        return HTMLResponse(environment().get_template("service.html").render(state=state, error=error))

    @routes.get("/admin")
    def admin(request: Request) -> Response:
        viewer = viewer_of(request)
        if not viewer.is_operator:
            raise HTTPException(403, "this page is for operators")
        windows = answers.ask(Asked(questions()["maintenance_windows"], {}, viewer, 100)).rows
        sinks = [
            (name, sink, [one for one in sink.variables if not os.environ.get(one)])
            for name, sink in config.alerts.sinks.items()
        ]
        content: dict[str, Any] = {"users": list(_users(config, guard)), "sinks": sinks, "windows": windows}
        content |= {"kinds": ANNOTATIONS, "settings": list(_facts(config)), "fragments": FRAGMENTS}
        return rendered(request, answers, "admin.html", **NOTHING, **content)

    return routes


NOTHING: Mapping[str, Any] = {"page": None, "options": (), "given": {}}


def _options(question: Question) -> tuple[Option, ...]:
    return (*filters_of(question), *question.options)


def _changes(document: Mapping[str, Any]) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Path, summary and fields of what is sent."""
    models = document["components"]["schemas"]
    for path, verbs in document["paths"].items():
        if "post" not in verbs or "requestBody" not in verbs["post"]:
            continue
        schema = verbs["post"]["requestBody"]["content"]["application/json"]["schema"]
        fields = models[schema["$ref"].rpartition("/")[2]].get("properties", {})
        yield path, verbs["post"]["summary"], [(name, one.get("description", "")) for name, one in fields.items()]


def _tables(answers: Answers) -> list[tuple[str, list[tuple[str, str]]]]:
    with answers.snapshots.reading() as reader:
        names = sorted(answers.snapshots.tables())
        listed = "(" + ", ".join("'" + name.replace("'", "''") + "'" for name in names) + ")" if names else "('')"
        rows = reader.rows(COLUMNS.format(tables=listed))
    return [
        (table, [(row["column_name"], row["data_type"].lower()) for row in some])
        for table, some in groupby(rows, key=lambda row: str(row["table_name"]))
    ]


def _users(config: Config, guard: Guard) -> Iterator[tuple[str, str, str, str]]:
    serve = config.serve
    with_token = set(guard.tokens.values())
    if guard.is_open:
        yield "everybody on this machine", "operator", "all rows", "no login"
    for name in sorted(with_token | set(serve.users)):
        groups = serve.groups_of(name)
        sees = "all rows" if groups is None else f"rows of {', '.join(sorted(groups)) or 'nobody'}"
        yield name, serve.role_of(name), sees, "token" if name in with_token else "proxy" if serve.proxy_header else "–"
    if serve.proxy_header:
        yield "others", serve.default_role, "by the proxy's groups", f"header {serve.proxy_header}"


def _facts(config: Config) -> Iterator[tuple[str, str]]:
    incidents, ages = config.incidents, config.retention.ages()
    yield "resolved after", f"{incidents.resolve_after_hours:g} h without being seen"
    yield "no incident of", ", ".join(incidents.ignored_kinds) or "–"
    yield "critical", ", ".join(incidents.critical_kinds) or "as each kind's default"
    for table, age in ages.items():
        yield table, f"raw for {age.raw_days} days, then one a minute{_then(age.minute_days)}"
    if not ages:
        yield "samples", "all are kept as they are"
    yield "SQL", f"on: {config.serve.sql_seconds:g} s, {config.serve.sql_memory}" if config.serve.sql else "off"
    yield "sessions", f"{config.serve.session_hours:g} h"


def _then(days: int) -> str:
    return f" for {days} days, then one an hour" if days else ""
