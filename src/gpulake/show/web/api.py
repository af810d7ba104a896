"""The API: every question at /api/v1/<name>, as JSON, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from gpulake.core.errors import UsageError
from gpulake.lake.values import plain
from gpulake.show.observed import Observed
from gpulake.show.web.answers import MOST_ROWS, Answer, Answers, Asked
from gpulake.show.web.downloads import download
from gpulake.show.web.given import described, filters_of, taken
from gpulake.show.web.questions import Question, Value, questions
from gpulake.show.web.viewers import NOBODY, Viewer

PREFIX = "/api/v1"
FIRST_ROWS: dict[str, int | str] = {"limit": 100, "offset": 0, "sort": ""}


class ColumnModel(BaseModel):
    name: str
    type: str


class AnswerModel(BaseModel):
    """Rows of a question, and how many there are in all."""

    question: str
    title: str
    columns: list[ColumnModel]
    rows: list[dict[str, Any]]
    total: int
    offset: int
    missing: list[str]  # tables that no build has made yet
    version: str  # the same version, the same rows
    generated: list[str]  # clusters whose data were generated, not measured


class QuestionModel(BaseModel):
    name: str
    title: str
    about: str
    parameters: list[str]
    tables: list[str]


class ErrorModel(BaseModel):
    error: str
    hint: str


# By reference: FastAPI would inspect a model again for each of the hundreds of routes.
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorModel"}}},
        "description": words,
    }
    for code, words in {
        400: "invalid parameters",
        401: "not logged in",
        403: "not allowed for this viewer",
        413: "the request is too large",
        422: "a value is not of its type",
        429: "too many requests: see Retry-After",
        503: "the lake cannot be read",
    }.items()
}


def viewer_of(request: Request) -> Viewer:
    viewer: Viewer = request.state.viewer
    return viewer


def router(answers: Answers) -> APIRouter:
    routes = APIRouter(prefix=PREFIX)

    @routes.get("", summary="All questions", tags=["about"], operation_id="questions_api_v1_get", responses=ERRORS)
    def about() -> list[QuestionModel]:
        return [_described(question) for question in questions().values()]

    for question in questions().values():
        _add(routes, answers, question)
    return routes


def _described(question: Question) -> QuestionModel:
    names = [option.name for option in (*filters_of(question), *question.options)]
    return QuestionModel(
        name=question.name,
        title=question.title,
        about=question.about,
        parameters=[*names, "limit", "offset", "sort"],
        tables=sorted(question.tables),
    )


def _add(routes: APIRouter, answers: Answers, question: Question) -> None:
    options = (*filters_of(question), *question.options)
    read_rows, read = taken(options, **FIRST_ROWS), taken(options)

    def rows(request: Request) -> Response:
        asked = asked_by(answers, question, request, read_rows(request))

        def rendered() -> str:
            clusters = observed(answers, asked.given.get("cluster"))
            names = [one.cluster_id for one in clusters if one.is_generated]
            return as_model(answers.ask(asked), asked.offset, names).model_dump_json()

        key = (answers.version(question), asked.key)
        return answers.rendered.respond(request, key, asked.viewer, "application/json", rendered)

    def as_csv(request: Request) -> Response:
        return download(answers, asked_by(answers, question, request, read(request)), "csv")

    def as_parquet(request: Request) -> Response:
        return download(answers, asked_by(answers, question, request, read(request)), "parquet")

    path, described_all = f"/{question.name}", described(options)
    words: dict[str, Any] = {"summary": question.title, "description": question.about}
    routes.add_api_route(
        path,
        rows,
        response_model=AnswerModel,
        operation_id=question.name,
        tags=["questions"],
        responses=ERRORS,
        openapi_extra=described(options, **FIRST_ROWS),
        **words,
    )
    for ending, call, kind in (("csv", as_csv, "text/csv"), ("parquet", as_parquet, "application/octet-stream")):
        routes.add_api_route(
            f"{path}.{ending}",
            call,
            response_class=Response,
            operation_id=f"{question.name}_{ending}",
            tags=["downloads"],
            responses={200: {"content": {kind: {}}, "description": "all rows"}, **ERRORS},
            openapi_extra=described_all,
            **words,
        )


def asked_by(answers: Answers, question: Question, request: Request, values: dict[str, Any]) -> Asked:
    return Asked(question, viewer=viewer_of(request), **values | {"given": answers.settled(values["given"])})


def observed(answers: Answers, cluster: Value) -> list[Observed]:
    """The clusters (or the one) and the time under observation of each."""
    try:
        answer = answers.ask(Asked(questions()["observed"], {"cluster": cluster}, NOBODY, MOST_ROWS))
    except UsageError:
        # A build of an earlier version lacks it; its panels say so.
        return []
    return [Observed(**row) for row in answer.rows]


def as_model(answer: Answer, offset: int = 0, generated: Sequence[str] = ()) -> AnswerModel:
    return AnswerModel(
        question=answer.question.name,
        title=answer.question.title,
        columns=[ColumnModel(name=name, type=kind) for name, kind in answer.columns],
        rows=[{name: plain(value) for name, value in row.items()} for row in answer.rows],
        total=answer.total,
        offset=offset,
        missing=list(answer.missing),
        version=answer.version,
        generated=list(generated),
    )
