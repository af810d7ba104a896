"""Queries of one's own: POST /api/v1/sql, where the settings allow it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, Field

from gpulake.lake import Lake
from gpulake.lake.sandbox import ask
from gpulake.show.web.answers import kind_of, values
from gpulake.show.web.api import ERRORS, PREFIX, ColumnModel, ErrorModel, plain, viewer_of

MOST_QUERY = 20_000  # characters
AT_ONCE = 2
PATIENCE_SECONDS = 5.0


class QueryModel(BaseModel):
    query: str = Field(min_length=1, max_length=MOST_QUERY, examples=["from gold_ledger_hourly limit 5"])


class RowsModel(BaseModel):
    """Rows by position: a query may give two columns one name."""

    columns: list[ColumnModel]
    rows: list[list[Any]]
    is_cut: bool  # there are more rows


def router(lake: Lake) -> APIRouter:
    routes = APIRouter(prefix=PREFIX)
    settings, turns = lake.config.serve, threading.BoundedSemaphore(AT_ONCE)
    own = Lake(replace(lake.config, memory_limit=settings.sql_memory))
    busy = {"model": ErrorModel, "description": "others ask already"}

    @routes.post(
        "/sql",
        summary="A query of one's own",
        tags=["about"],
        operation_id="sql",
        response_model=RowsModel,
        responses={**ERRORS, 429: busy},
    )
    def sql(request: Request, asked: QueryModel) -> Response:
        if not settings.sql:
            raise HTTPException(403, "queries are not allowed here; set sql = true in [serve] of gpulake.toml")
        if viewer_of(request).is_limited:
            raise HTTPException(403, "queries would read rows of others; ask the questions of the API")
        if not turns.acquire(timeout=PATIENCE_SECONDS):
            raise HTTPException(429, "others ask already; try again in a moment", {"Retry-After": "5"})
        try:
            rows = ask(own, asked.query, settings.sql_seconds, settings.sql_rows)
        finally:
            turns.release()
        columns = [ColumnModel(name=column.name, type=kind_of(column.type)) for column in rows.schema]
        told = zip(*(values(column) for column in rows.columns), strict=True)
        cells = [[plain(value) for value in row] for row in told]
        is_cut = len(cells) > settings.sql_rows
        model = RowsModel(columns=columns, rows=cells[: settings.sql_rows], is_cut=is_cut)
        return Response(model.model_dump_json(), media_type="application/json")

    return routes
