"""SQL queries of viewers: POST /api/v1/sql, where the settings allow it."""

from __future__ import annotations

import threading
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, Field

from gpulake.core.serve_settings import Serve
from gpulake.lake.allowed import MOST_QUERY
from gpulake.lake.sandbox import Sandbox
from gpulake.show.web.api import ERRORS, PREFIX, ColumnModel, ErrorModel, viewer_of

AT_ONCE = 2
PATIENCE_SECONDS = 5.0


class QueryModel(BaseModel):
    query: str = Field(min_length=1, max_length=MOST_QUERY, examples=["from gold_ledger_hourly limit 5"])


class RowsModel(BaseModel):
    """Rows by position: a query may give two columns one name."""

    columns: list[ColumnModel]
    rows: list[list[Any]]
    is_cut: bool  # there are more rows


def router(settings: Serve, sandbox: Sandbox) -> APIRouter:
    routes = APIRouter(prefix=PREFIX)
    turns = threading.BoundedSemaphore(AT_ONCE)
    busy = {"model": ErrorModel, "description": "other queries are running"}

    @routes.post(
        "/sql",
        summary="Run a SQL query",
        tags=["about"],
        operation_id="sql",
        response_model=RowsModel,
        responses={**ERRORS, 429: busy},
    )
    def sql(request: Request, asked: QueryModel) -> Response:
        if not settings.sql:
            raise HTTPException(403, "queries are not allowed here; set sql = true in [serve] of gpulake.toml")
        if viewer_of(request).is_limited:
            raise HTTPException(403, "queries could read rows of other groups; use the questions of the API")
        if not turns.acquire(timeout=PATIENCE_SECONDS):
            raise HTTPException(429, "other queries are running; try again in a moment", {"Retry-After": "5"})
        try:
            return Response(sandbox.ask(asked.query), media_type="application/json")
        finally:
            turns.release()

    return routes
