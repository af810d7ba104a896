"""Pages as HTML: a shell that is shown at once, and panels that fill it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader

from gpulake import __version__
from gpulake.lake.values import plain
from gpulake.show.observed import generated
from gpulake.show.web import cells
from gpulake.show.web.actions import ALLOWED, may_act
from gpulake.show.web.answers import Answer, Answers, Asked
from gpulake.show.web.api import FIRST_ROWS, PREFIX, observed, viewer_of
from gpulake.show.web.given import FILTERS, as_query, carried, described, filters_of, taken, under
from gpulake.show.web.pages import Page, Panel, pages
from gpulake.show.web.questions import Option, Question, Value, questions
from gpulake.show.web.viewers import NOBODY, SESSION

CHOICES = """
SELECT 'cluster' AS kind, cluster_id AS name FROM silver_clusters
UNION SELECT 'gpu_type', gpu_type FROM silver_machines WHERE gpu_type IS NOT NULL ORDER BY ALL
"""
MOST_CLUSTERS = 3  # whose time is shown on every page; all are at /rows/observed
_CHOICES = Question("choices", "what filters offer", CHOICES.strip(), "ALL")
KINDS = ("tiles", "table", "figure", "list")


@cache
def environment() -> Environment:
    jinja = Environment(
        loader=PackageLoader("gpulake.show.web"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_without_nulls,
    )
    jinja.globals.update(
        cell=cells.cell,
        heading=cells.heading,
        link=cells.link,
        as_query=as_query,
        carried=carried,
        version=__version__,
        asset=asset,
    )
    jinja.filters["embedded"] = embedded
    jinja.filters["under"] = under
    return jinja


def _without_nulls(value: Any) -> Any:
    """HTML cannot contain the null character."""
    return value.replace("\x00", "\ufffd") if isinstance(value, str) and "\x00" in value else value


@cache
def static_file(name: str) -> bytes:
    return files("gpulake.show.web").joinpath("static", name).read_bytes()


@cache
def asset(name: str) -> str:
    """Its URL changes with its content, so that browsers may cache it for ever."""
    return f"/static/{hashlib.sha256(static_file(name)).hexdigest()[:12]}/{name}"


def embedded(value: object) -> str:
    """JSON inside a page: a label must not be able to close the element that it stands in."""
    return json.dumps(plain(value), allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")


def router(answers: Answers) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    def home() -> Response:
        return RedirectResponse(f"/{next(iter(pages()))}")

    for page in pages().values():
        _add_page(routes, answers, page)
    for question in questions().values():
        _add_rows(routes, answers, question)
    return routes


def _add_page(routes: APIRouter, answers: Answers, page: Page) -> None:
    options = (*FILTERS, *page.options)
    read = taken(options)
    # Filters that no panel takes are not offered.
    of_panels = {one.name for panel in page.panels for one in filters_of(questions()[panel.question])}

    def shell(request: Request) -> Response:
        return _rendered(
            request, answers, "page.html", page=page, options=page.options, taken=of_panels, **read(request)
        )

    routes.add_api_route(f"/{page.name}", shell, response_class=HTMLResponse, openapi_extra=described(options))
    for panel in page.panels:
        _add_panel(routes, answers, page, panel)


def _add_panel(routes: APIRouter, answers: Answers, page: Page, panel: Panel) -> None:
    question = questions()[panel.question]
    options = (*FILTERS, *page.options)
    chosen: dict[str, int | str] = {"limit": panel.limit, "sort": ""}
    read = taken(options, **chosen)

    def fragment(request: Request) -> Response:
        values = read(request)
        given, sort = values["given"], values["sort"]
        taken_values, viewer = asked_of(question, {**given, **panel.given}), viewer_of(request)
        asked = Asked(question, taken_values, viewer, values["limit"], 0, sort)

        def rendered() -> str:
            answer = answers.ask(asked)
            content = {
                "page": page,
                "panel": panel,
                "answer": answer,
                "given": taken_values,
                "filters": given,
                "sort": sort,
            }
            if panel.draw and answer.rows:
                content["figure"] = panel.draw(answer.rows)
            name = f"panels/{panel.show}.html" if panel.show in KINDS else f"panels/{panel.show}"
            return (
                environment()
                .get_template(name)
                .render(**content, api=PREFIX, viewer=viewer, may_act=may_act(request), allowed=ALLOWED)
            )

        key = (answers.version(question), asked.key, tuple(given.items()))
        return answers.rendered.respond(request, key, viewer, "text/html; charset=utf-8", rendered)

    path = f"/panels/{page.name}/{panel.name}"
    routes.add_api_route(path, fragment, response_class=HTMLResponse, openapi_extra=described(options, **chosen))


def _add_rows(routes: APIRouter, answers: Answers, question: Question) -> None:
    options = (*filters_of(question), *question.options)

    read = taken(options, **FIRST_ROWS)

    def rows(request: Request) -> Response:
        values = read(request)
        answer = answers.ask(Asked(question, viewer=viewer_of(request), **values))
        return _rendered(
            request, answers, "rows.html", page=None, options=_without_filters(options), answer=answer, **values
        )

    extra = described(options, **FIRST_ROWS)
    routes.add_api_route(f"/rows/{question.name}", rows, response_class=HTMLResponse, openapi_extra=extra)


def asked_of(question: Question, given: Mapping[str, Value]) -> dict[str, Value]:
    """The values of a page that the question takes."""
    names = {option.name for option in (*filters_of(question), *question.options)}
    return {name: value for name, value in given.items() if name in names}


def _without_filters(options: tuple[Option, ...]) -> tuple[Option, ...]:
    return tuple(option for option in options if option not in FILTERS)


def _rendered(request: Request, answers: Answers, template: str, **content: Any) -> Response:
    clusters = observed(answers, content["given"].get("cluster"))
    text = (
        environment()
        .get_template(template)
        .render(
            **content,
            pages=pages(),
            api=PREFIX,
            viewer=viewer_of(request),
            has_session=SESSION in request.cookies,
            choices=_choices(answers),
            generated=generated(clusters),
            clusters=clusters,
            most_clusters=MOST_CLUSTERS,
            path=request.url.path,
            token=request.app.state.events.token,
        )
    )
    return HTMLResponse(text)


def _choices(answers: Answers) -> dict[str, list[str]]:
    """What the filters offer."""
    answer: Answer = answers.ask(Asked(_CHOICES, {}, NOBODY, 1_000))
    choices: dict[str, list[str]] = {"cluster": [], "gpu_type": []}
    for row in answer.rows:
        choices[row["kind"]].append(str(row["name"]))
    return choices
