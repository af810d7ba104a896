"""What people do to incidents from the dashboard: who may, from where, and what is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from gpulake.core.errors import UsageError
from gpulake.core.incidents import VERBS, Incident
from gpulake.core.words import label
from gpulake.show.web.answers import Answers, Asked
from gpulake.show.web.api import ERRORS, PREFIX, ErrorModel, viewer_of
from gpulake.show.web.questions import MOST_TEXT, catalogue
from gpulake.show.web.viewers import Viewer

MOST_NOTE = 2_000
MOST_NAME = 100


# Changes an incident: the verb, the incident's id, who does it, and the verb's values. Another room carries it out.
Actions = Callable[[str, str, str, Mapping[str, Any]], Incident]
SUMMARIES = {
    "acknowledge": "Say that you look after an incident",
    "mute": "Suppress the alerts of an incident for a while",
    "unmute": "Send alerts of an incident again",
    "resolve": "Say that an incident is over",
    "reopen": "Open an incident again, and hold it open",
    "assign": "Say who looks after an incident",
    "comment": "Add a comment to an incident",
}
# From which states each may be taken.
ALLOWED = {verb: VERBS[verb].comes_from for verb in SUMMARIES}


class NoteModel(BaseModel):
    model_config = ConfigDict(extra="forbid")
    note: str = Field("", max_length=MOST_NOTE, description="what others should know")


class AcknowledgeModel(NoteModel):
    is_held: bool = Field(False, description="it stays until a person resolves it")


class MuteModel(NoteModel):
    until: AwareDatetime | None = Field(None, description="with its zone; without it, until somebody unmutes it")


class AssignModel(NoteModel):
    to: str = Field("", max_length=MOST_NAME, description="the person; empty: nobody")


class CommentModel(NoteModel):
    note: str = Field(min_length=1, max_length=MOST_NOTE, description="the comment")


class IncidentModel(BaseModel):
    """An incident after the change."""

    incident_id: str
    state: str
    event: str
    changed_by: str
    changed_at: datetime
    severity: str
    kind: str
    reason: str
    subject: str
    cause: str
    note: str
    cluster_id: str | None
    node: str | None
    job_id: str | None
    muted_until: datetime | None
    is_held: bool
    assigned_to: str


_BODIES: dict[str, type[NoteModel]] = {
    "acknowledge": AcknowledgeModel,
    "mute": MuteModel,
    "assign": AssignModel,
    "comment": CommentModel,
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    **{
        code: {"model": ErrorModel, "description": words}
        for code, words in {
            404: "no such incident",
            409: "the incident stands otherwise",
            415: "the body is not JSON",
        }.items()
    },
}


def router(answers: Answers, actions: Actions | None) -> APIRouter:
    """Without actions, as of a lake that cannot be written, each is refused."""
    routes = APIRouter(prefix=f"{PREFIX}/incidents", tags=["actions"], dependencies=[Depends(permitted)])
    for verb in ALLOWED:
        _add(routes, answers, actions, verb)
    return routes


def permitted(request: Request) -> None:
    """A form of another site cannot be JSON, and what its scripts send the guard refuses."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise refused(415, f"an action is JSON, and not {label(kind, 80)!r}", "send Content-Type: application/json")
    viewer = viewer_of(request)
    if not viewer.is_operator:
        raise refused(403, f"{label(viewer.name, 80)} may look, and not act", "ask an operator")


def refused(status: int, message: str, hint: str) -> HTTPException:
    return HTTPException(status, {"error": message, "hint": hint})


def may_act(request: Request) -> bool:
    """Whether buttons are shown."""
    return viewer_of(request).is_operator and getattr(request.app.state, "actions", None) is not None


def _add(routes: APIRouter, answers: Answers, actions: Actions | None, verb: str) -> None:
    body_model = _BODIES.get(verb, NoteModel)

    def act(request: Request, incident_id: str, body: NoteModel) -> IncidentModel:
        if actions is None:
            raise refused(403, "the lake is read-only here", "act where gpulake may write to it")
        viewer = viewer_of(request)
        if _state(answers, viewer, incident_id) is None:
            raise refused(404, f"no incident {label(incident_id, 80)!r}", f"they are listed at {PREFIX}/incidents")
        values: dict[str, Any] = body.model_dump()
        # What steers a terminal is replaced: texts are printed, too.
        texts = {name: label(value) for name, value in values.items() if isinstance(value, str)}
        try:
            incident = actions(verb, incident_id, viewer.name, values | texts)
        except UsageError as error:
            stands_otherwise = _state(answers, viewer, incident_id) not in ALLOWED[verb]
            raise refused(409 if stands_otherwise else 400, error.message, error.hint) from error
        return IncidentModel(**{name: getattr(incident, name) for name in IncidentModel.model_fields})

    act.__annotations__.update(
        incident_id=Annotated[str, Path(max_length=MOST_TEXT, description="the incident's id")], body=body_model
    )
    act.__name__ = verb
    routes.add_api_route(
        f"/{{incident_id}}/{verb}",
        act,
        methods=["POST"],
        summary=SUMMARIES[verb],
        operation_id=f"{verb}_incident",
        response_model=IncidentModel,
        responses=_ERRORS,
    )


def _state(answers: Answers, viewer: Viewer, incident_id: str) -> str | None:
    """How it stands; nothing where there is none, or none that the viewer may see."""
    answer = answers.ask(Asked(catalogue().get("incident"), {"incident": incident_id}, viewer, 1))
    return str(answer.rows[0]["state"]) if answer.rows else None
