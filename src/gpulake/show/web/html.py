"""Pages as HTML: a shell that is shown at once, and panels that fill it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader

from gpulake import __version__
from gpulake.core.diagnosis import CATEGORY_OF, UNKNOWN
from gpulake.core.errors import UsageError
from gpulake.lake.values import plain
from gpulake.show.observed import generated
from gpulake.show.web import cells
from gpulake.show.web.actions import ALLOWED, may_act
from gpulake.show.web.answers import EVERY, Answer, Answers, Asked
from gpulake.show.web.api import FIRST_ROWS, PREFIX, asked_by, observed, viewer_of
from gpulake.show.web.bar import bar_of, sections
from gpulake.show.web.explained import Explain, explained
from gpulake.show.web.figures.explore import change_words
from gpulake.show.web.given import FILTERS, VIEW, as_query, carried, described, filters_of, taken, under
from gpulake.show.web.pages import Page, Panel, pages
from gpulake.show.web.questions import Option, Question, Value, questions
from gpulake.show.web.viewers import NOBODY, SESSION, Viewer

CHOICES = """
SELECT 'cluster' AS kind, cluster_id AS name FROM silver_clusters
UNION SELECT 'gpu_type', gpu_type FROM silver_machines WHERE gpu_type IS NOT NULL ORDER BY ALL
"""
MOST_CLUSTERS = 3  # whose time is shown on every page; all are at /rows/observed
_CHOICES = Question("choices", "what filters offer", CHOICES.strip(), "ALL")
_ZONES = Question("zones", "time zones", "SELECT DISTINCT time_zone FROM silver_clusters WHERE {cluster}", "time_zone")
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
        change=change_words,
        shown_columns=shown_columns,
        reasons=sorted(set(CATEGORY_OF) - {UNKNOWN}),
        version=__version__,
        asset=asset,
    )
    jinja.filters["embedded"] = embedded
    jinja.filters["under"] = under
    jinja.filters["with_wall"] = lambda address: f"{address}{'&' if '?' in address else '?'}wall=yes"
    return jinja


def _without_nulls(value: Any) -> Any:
    """HTML cannot contain the null character."""
    return value.replace("\x00", "\ufffd") if isinstance(value, str) and "\x00" in value else value


@cache
def static_file(name: str) -> bytes:
    return files("gpulake.show.web").joinpath("static", name).read_bytes()


@cache
def static_names() -> frozenset[str]:
    """Of what pages load; reports alone embed Plotly."""
    folder = files("gpulake.show.web").joinpath("static").iterdir()
    return frozenset(file.name for file in folder if file.name.endswith((".css", ".js"))) - {"plotly.js"}


@cache
def asset(name: str) -> str:
    """Its URL changes with the content of any of them, so that browsers may cache it for ever: modules load others."""
    every = b"".join(map(static_file, sorted(static_names())))
    return f"/static/{hashlib.sha256(every).hexdigest()[:12]}/{name}"


def embedded(value: object) -> str:
    """JSON inside a page: a label must not be able to close the element that it stands in."""
    return json.dumps(plain(value), allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")


def router(answers: Answers, explain: Explain | None = None) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    def home() -> Response:
        return RedirectResponse(f"/{next(iter(pages()))}")

    @routes.get("/overview")
    def overview(request: Request) -> Response:
        """The name of the front page in earlier versions."""
        return RedirectResponse(f"/explore?{request.url.query}")

    for page in pages().values():
        _add_page(routes, answers, page, explain)
    for question in questions().values():
        _add_rows(routes, answers, question)
    return routes


def _add_page(routes: APIRouter, answers: Answers, page: Page, explain: Explain | None) -> None:
    options = (*FILTERS, *VIEW, *page.options)
    read = taken(options)
    # Filters that no panel takes are not offered.
    of_panels = {one.name for panel in page.panels for one in filters_of(questions()[panel.question])}
    # A page about one thing finds it in any cluster; on the others sums of several clusters would mean nothing.
    is_of_cluster = "cluster" in of_panels and not any(option.is_needed for option in page.options)

    def shell(request: Request) -> Response:
        given, clusters = read(request)["given"], observed(answers, None)
        is_default = is_of_cluster and given["cluster"] is None and len(clusters) > 1
        if is_default:
            given["cluster"] = max(clusters, key=lambda one: (one.observed_until, one.cluster_id)).cluster_id
        first = _first(answers, request, page, given) if page.must_exist else None
        is_unknown = first is not None and not first.rows and not first.missing
        shown = sections(page, given, [one.cluster_id for one in clusters])
        return rendered(
            request,
            answers,
            "page.html",
            page=page,
            options=page.options,
            taken=of_panels,
            sections=shown,
            is_of_cluster=is_of_cluster and len(clusters) > 1,
            is_default=is_default,
            given=given,
            words=first.rows[0].get(page.words) if first and first.rows else None,
            status=404 if is_unknown else 200,
        )

    routes.add_api_route(f"/{page.name}", shell, response_class=HTMLResponse, openapi_extra=described(options))
    for panel in page.panels:
        _add_panel(routes, answers, page, panel, explain)


def _add_panel(routes: APIRouter, answers: Answers, page: Page, panel: Panel, explain: Explain | None) -> None:
    question = questions()[panel.question]
    options = (*FILTERS, *VIEW, *page.options)
    chosen: dict[str, int | str] = {"limit": panel.limit, "sort": ""}
    read = taken(options, **chosen)

    def fragment(request: Request) -> Response:
        values = read(request)
        given, sort = values["given"], values["sort"]
        taken_values, viewer = asked_of(question, {**given, **panel.given}), viewer_of(request)
        asked = Asked(question, answers.settled(taken_values), viewer, values["limit"], 0, sort)

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
                by = {name: given[name] for name in panel.drawn_by if given.get(name)}
                content["figure"] = panel.draw(answer.rows, **by)
            if panel.is_explained and answer.rows:
                content["explained"] = explained(explain, str(answer.rows[0]["incident_id"]), viewer)
            name = f"panels/{panel.show}.html" if panel.show in KINDS else f"panels/{panel.show}"
            return (
                environment()
                .get_template(name)
                .render(**content, api=PREFIX, viewer=viewer, may_act=may_act(request), allowed=ALLOWED)
            )

        build = answers.version(questions()["found"]) if panel.is_explained else ""
        key = (answers.version(question), build, asked.key, tuple(given.items()))
        return answers.rendered.respond(request, key, viewer, "text/html; charset=utf-8", rendered)

    path = f"/panels/{page.name}/{panel.name}"
    routes.add_api_route(path, fragment, response_class=HTMLResponse, openapi_extra=described(options, **chosen))


def _add_rows(routes: APIRouter, answers: Answers, question: Question) -> None:
    options = (*filters_of(question), *question.options)

    read = taken(options, **FIRST_ROWS)

    def rows(request: Request) -> Response:
        values = read(request)
        answer = answers.ask(asked_by(answers, question, request, values))
        return rendered(
            request, answers, "rows.html", page=None, options=_without_filters(options), answer=answer, **values
        )

    extra = described(options, **FIRST_ROWS)
    routes.add_api_route(f"/rows/{question.name}", rows, response_class=HTMLResponse, openapi_extra=extra)


def asked_of(question: Question, given: Mapping[str, Value]) -> dict[str, Value]:
    """The values of a page that the question takes."""
    names = {option.name for option in (*filters_of(question), *question.options)}
    return {name: value for name, value in given.items() if name in names}


def shown_columns(answer: Answer, panel: Panel | None, filters: Mapping[str, Value] | None) -> list[tuple[str, str]]:
    """Of a table: those that its panel names, else all; the cluster only where rows may be of several."""
    known = {name: kind for name, kind in answer.columns if name != "link"}
    if panel is None:
        return list(known.items())
    names = [name for name in panel.columns or known if name in known and name != "cluster_id"]
    clusters = {row.get("cluster_id") for row in answer.rows}
    if "cluster_id" in known and not (filters or {}).get("cluster") and (len(clusters) > 1 or not panel.columns):
        names.insert(1, "cluster_id")
    return [(name, known[name]) for name in names]


def _without_filters(options: tuple[Option, ...]) -> tuple[Option, ...]:
    return tuple(option for option in options if option not in FILTERS)


def _first(answers: Answers, request: Request, page: Page, given: Mapping[str, Value]) -> Answer:
    """The answer of the first panel. Without rows, the page's subject is not in the lake, or not for this viewer."""
    panel = page.panels[0]
    question = questions()[panel.question]
    return answers.ask(Asked(question, answers.settled(asked_of(question, given)), viewer_of(request), panel.limit))


def rendered(request: Request, answers: Answers, template: str, status: int = 200, **content: Any) -> Response:
    chosen = content["given"].get("cluster")
    clusters = observed(answers, None if chosen == EVERY else chosen)
    viewer = viewer_of(request)
    text = (
        environment()
        .get_template(template)
        .render(
            **content,
            pages=pages(),
            tools=_tools(answers, viewer),
            api=PREFIX,
            viewer=viewer,
            has_session=SESSION in request.cookies,
            choices=_choices(answers),
            generated=generated(clusters),
            clusters=clusters,
            bar=bar_of(content["given"], answers.settled(content["given"])),
            zone=_zone(answers, chosen),
            most_clusters=MOST_CLUSTERS,
            path=request.url.path,
            token=request.app.state.events.token,
        )
    )
    return HTMLResponse(text, status)


def _tools(answers: Answers, viewer: Viewer) -> dict[str, str]:
    """Pages of tools.py that this viewer may see, and their titles."""
    has_sql = answers.lake.config.serve.sql and not viewer.is_limited
    return {**({"sql": "SQL"} if has_sql else {}), **({"admin": "Admin"} if viewer.is_operator else {})}


def _zone(answers: Answers, cluster: Value) -> str:
    """The time zone of the cluster that is shown, or of the only one."""
    with suppress(UsageError):  # a cluster of a name that no query can have
        rows = answers.ask(Asked(_ZONES, {"cluster": None if cluster == EVERY else cluster}, NOBODY, 2)).rows
        return str(rows[0]["time_zone"]) if len(rows) == 1 else "UTC"
    return "UTC"


def _choices(answers: Answers) -> dict[str, list[str]]:
    """What the filters offer."""
    answer: Answer = answers.ask(Asked(_CHOICES, {}, NOBODY, 1_000))
    choices: dict[str, list[str]] = {"cluster": [], "gpu_type": []}
    for row in answer.rows:
        choices[row["kind"]].append(str(row["name"]))
    return choices
