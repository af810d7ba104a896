"""How an incident looks to people and to machines. Its words may be a log's own: they are printed, never read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from gpulake.core.words import amount, label

if TYPE_CHECKING:
    from gpulake.core.incidents import Incident
    from gpulake.flow.incidents import Case

MOST_TEXT = 400


def incident_document(incident: Incident) -> dict[str, Any]:
    times = {name: getattr(incident, name) for name in ("changed_at", "opened_at")}
    return {**incident.row(), **{name: at.isoformat() if at else None for name, at in times.items()}}


def print_changed(incident: Incident) -> None:
    said = f"{incident.incident_id}: {incident.event}, {incident.reason}"
    click.echo(f"{label(said)} ({label(incident.cause, MOST_TEXT)})")


def print_case(case: Case) -> None:
    last = case.incident
    confirmed = "confirmed" if last.is_confirmed else "not confirmed"
    click.secho(f"{label(last.incident_id)}: {label(last.reason)}, {last.state}, {confirmed}", bold=True)
    click.echo(f"  cause    {label(last.cause, MOST_TEXT)}")
    if last.remedy:
        click.echo(f"  remedy   {label(last.remedy, MOST_TEXT)}")
    click.echo(f"  subject  {label(last.subject, MOST_TEXT)}")
    for name, value in (("cluster", last.cluster_id), ("job", last.job_id), ("node", last.node)):
        if value is not None:
            click.echo(f"  {name:<8} {label(value, 100)}")
    if last.gpu_hours_lost is not None:
        click.echo(f"  lost     {amount(last.gpu_hours_lost)} GPU-hours")
    _print_diagnosis(case.diagnosis)
    click.secho("History", bold=True)
    noted = ""
    for event in case.history:
        note = f": {label(event.note, MOST_TEXT)}" if event.note and event.note != noted else ""
        noted = event.note  # later events carry it along
        when = f"{event.changed_at:%Y-%m-%d %H:%M}"
        click.echo(f"  {when}  {event.event} by {label(event.changed_by, 100)}, {label(event.reason, 60)}{note}")


def _print_diagnosis(diagnosis: Mapping[str, Any]) -> None:
    if not diagnosis:
        return
    how = f"{label(diagnosis.get('method'))} {label(diagnosis.get('rule') or '', 100)}".strip()
    click.secho(f"Last diagnosis: {label(diagnosis.get('reason'), 60)}, by {how}", bold=True)
    for quote in rows_of(diagnosis.get("evidence")):
        where = f"{quote['file']}:" if quote.get("file") else ""
        click.echo(f"  {label(where, 100)}{label(quote.get('line'), 20)}: {label(quote.get('text'), MOST_TEXT)}")
    similar = rows_of(diagnosis.get("similar"))
    if similar:
        click.secho("Similar", bold=True)
    for one in similar:
        seal = "confirmed" if one.get("is_confirmed") else "not confirmed"
        words = f"{label(one.get('incident_id'), 60)}  {label(one.get('reason'), 60)}, {seal}"
        click.echo(f"  {words}: {label(one.get('cause'), MOST_TEXT)}")


def rows_of(value: Any) -> Iterable[Mapping[str, Any]]:
    """A column of JSON, as a journal has it."""
    import json

    try:
        listed = json.loads(value) if isinstance(value, str) else value or []
    except ValueError:
        return []
    return [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
