"""What people change beside incidents: saved views, annotations, maintenance windows; and tests of sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Path, Request
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from gpulake.core.annotations import ANNOTATIONS
from gpulake.core.errors import GpulakeError, UsageError
from gpulake.core.words import label
from gpulake.show.web.actions import ERRORS_OF_ACTIONS, MOST_NAME, MOST_NOTE, is_json, permitted, refused
from gpulake.show.web.api import PREFIX, viewer_of
from gpulake.show.web.pages import pages
from gpulake.show.web.questions import MOST_TEXT, questions
from gpulake.show.web.viewers import Viewer

# Carries out a change for a viewer, and returns the id of what changed. `flow` passes them in, by name.
Change = Callable[[Viewer, Mapping[str, Any]], str]
MOST_ADDRESS = 2_000


def _is_page(address: str) -> str:
    """A page of this dashboard: a saved view must not lead elsewhere."""
    parts = urlsplit(address)
    is_here = address.startswith("/") and not parts.netloc and "\\" not in address and address.isprintable()
    head, _, name = parts.path.strip("/").rpartition("/")
    if not is_here or not ((head == "" and name in (*pages(), "sql")) or (head == "rows" and name in questions())):
        raise ValueError("is no page of this dashboard")
    return address


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ViewModel(_Model):
    title: str = Field(min_length=1, max_length=MOST_NAME, description="how people call it")
    address: Annotated[str, AfterValidator(_is_page)] = Field(
        max_length=MOST_ADDRESS, description="path and query of a page", examples=["/explore?range=7d"]
    )


class AnnotationModel(_Model):
    text: str = Field(min_length=1, max_length=MOST_NOTE, description="what happened")
    kind: Literal["deployment", "maintenance", "note"] = Field("note", description=f"one of {', '.join(ANNOTATIONS)}")
    cluster_id: str = Field("", max_length=MOST_NAME, description="empty: all clusters")
    starts_at: AwareDatetime | None = Field(None, description="with its zone; without it, now")
    ends_at: AwareDatetime | None = Field(None, description="with its zone; without it, a moment")


class WindowModel(_Model):
    cluster: str = Field("*", max_length=MOST_NAME, description="as a pattern with * and ?")
    node: str = Field("*", max_length=MOST_NAME, description="as a pattern")
    kind: str = Field("*", max_length=MOST_NAME, description="kinds of incidents, as a pattern")
    starts_at: AwareDatetime | None = Field(None, description="without it, now")
    ends_at: AwareDatetime | None = Field(None, description="without it, only of a weekly window")
    weekdays: str = Field("", max_length=MOST_NAME, description="such as sat,sun")
    hours: str = Field("", max_length=MOST_NAME, description="such as 22:00-06:00")
    time_zone: str = Field("UTC", max_length=MOST_NAME)
    note: str = Field("", max_length=MOST_NOTE)


class NothingModel(_Model):
    pass


class ChangedModel(BaseModel):
    id: str


# By name: the path, what it does, its body, and whether operators alone may do it.
_ROUTES: tuple[tuple[str, str, str, type[_Model], bool], ...] = (
    ("save_view", "/views", "Save a view", ViewModel, False),
    ("remove_view", "/views/{id}/remove", "Remove a saved view", NothingModel, False),
    ("annotate", "/annotations", "Annotate a moment or a time, on all charts", AnnotationModel, True),
    ("remove_annotation", "/annotations/{id}/remove", "Remove an annotation", NothingModel, True),
    ("add_window", "/windows", "Add a maintenance window", WindowModel, True),
    ("remove_window", "/windows/{id}/remove", "Remove a maintenance window", NothingModel, True),
    ("test_sink", "/sinks/{id}/test", "Send a test alert to a sink", NothingModel, True),
)


def router(changes: Mapping[str, Change]) -> APIRouter:
    """Without changes (a read-only lake) each is refused."""
    routes = APIRouter(prefix=PREFIX, tags=["changes"])
    for name, path, summary, body, is_for_operators in _ROUTES:
        routes.add_api_route(
            path,
            _route(body, changes.get(name), "{id}" in path),
            methods=["POST"],
            summary=summary,
            operation_id=name,
            response_model=ChangedModel,
            responses=ERRORS_OF_ACTIONS,
            dependencies=[Depends(permitted if is_for_operators else _unlimited)],
        )
    return routes


def _unlimited(request: Request) -> None:
    is_json(request)
    if viewer_of(request).is_limited:
        raise refused(403, "saved views are shown to everybody", "copy the address instead")


def _route(body_model: type[_Model], change: Change | None, has_id: bool) -> Callable[..., ChangedModel]:
    def changed(request: Request, body: _Model, values: Mapping[str, Any]) -> ChangedModel:
        if change is None:
            raise refused(403, "the lake is read-only here", "change it where gpulake may write to it")
        given = {**body.model_dump(), **values}
        # Control characters are replaced: texts are printed to terminals.
        texts = {key: label(value, MOST_NOTE) for key, value in given.items() if isinstance(value, str)}
        try:
            return ChangedModel(id=change(viewer_of(request), given | texts))
        except UsageError as error:
            raise refused(400, error.message, error.hint) from error
        except GpulakeError as error:  # a sink refused, or the lake is busy
            raise refused(503, error.message, error.hint) from error

    if not has_id:

        def add(request: Request, body: _Model) -> ChangedModel:
            return changed(request, body, {})

        add.__annotations__["body"] = body_model
        return add

    def one(request: Request, id: str, body: _Model) -> ChangedModel:  # noqa: A002 - the word of the path
        return changed(request, body, {"id": id})

    one.__annotations__.update(id=Annotated[str, Path(max_length=MOST_TEXT)], body=body_model)
    return one
