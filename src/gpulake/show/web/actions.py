"""Actions on incidents from the dashboard: who may take them, and the API for them."""

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
from gpulake.show.web.questions import MOST_TEXT, questions
from gpulake.show.web.viewers import Viewer

MOST_NOTE = 2_000
MOST_NAME = 100


# Carries out a verb on an incident: verb, incident's id, person, values of the verb. `flow` passes it in.
Actions = Callable[[str, str, str, Mapping[str, Any]], Incident]
SUMMARIES = {
    "acknowledge": "Acknowledge an incident: you look after it",
    "mute": "Mute an incident: no notifications for a while",
    "unmute": "Unmute an incident: send notifications again",
    "resolve": "Resolve an incident",
    "reopen": "Reopen an incident, and hold it open",
    "assign": "Assign an incident to a person",
    "comment": "Comment on an incident",
    "confirm": "Confirm the reason of an incident",
    "correct": "Correct the reason of an incident",
}
# The states in which each action is allowed.
ALLOWED = {verb: VERBS[verb].comes_from for verb in SUMMARIES}


class NoteModel(BaseModel):
    model_config = ConfigDict(extra="forbid")
    note: str = Field("", max_length=MOST_NOTE, description="what others should know")


class AcknowledgeModel(NoteModel):
    is_held: bool = Field(False, description="it stays until a person resolves it")


class MuteModel(NoteModel):
    until: AwareDatetime | None = Field(None, description="with its zone; without it, until it is unmuted")


class AssignModel(NoteModel):
    to: str = Field("", max_length=MOST_NAME, description="the person; empty: nobody")


class CorrectModel(NoteModel):
    reason: str = Field(min_length=1, max_length=MOST_NAME, description="what it was, as gpulake names reasons")


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
    "correct": CorrectModel,
}
ERRORS_OF_ACTIONS: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    **{
        code: {"model": ErrorModel, "description": words}
        for code, words in {
            404: "no such incident",
            409: "the incident is in another state",
            415: "the body is not JSON",
        }.items()
    },
}


def router(answers: Answers, actions: Actions | None) -> APIRouter:
    """Without actions (a read-only lake) each is refused."""
    routes = APIRouter(prefix=f"{PREFIX}/incidents", tags=["actions"], dependencies=[Depends(permitted)])
    for verb in ALLOWED:
        _add(routes, answers, actions, verb)
    return routes


def permitted(request: Request) -> None:
    is_json(request)
    viewer = viewer_of(request)
    if not viewer.is_operator:
        raise refused(403, f"{label(viewer.name, 80)} may look, and not act", "ask an operator")


def is_json(request: Request) -> None:
    """Forms of other sites cannot send JSON, and the guard refuses requests of their scripts."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise refused(415, f"an action is JSON, and not {label(kind, 80)!r}", "send Content-Type: application/json")


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
        # Control characters are replaced: texts are printed to terminals.
        texts = {name: label(value) for name, value in values.items() if isinstance(value, str)}
        try:
            incident = actions(verb, incident_id, viewer.name, values | texts)
        except UsageError as error:
            is_other_state = _state(answers, viewer, incident_id) not in ALLOWED[verb]
            raise refused(409 if is_other_state else 400, error.message, error.hint) from error
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
        responses=ERRORS_OF_ACTIONS,
    )


def _state(answers: Answers, viewer: Viewer, incident_id: str) -> str | None:
    """None: there is no such incident, or the viewer may not see it."""
    answer = answers.ask(Asked(questions()["incident"], {"incident": incident_id}, viewer, 1))
    return str(answer.rows[0]["state"]) if answer.rows else None
