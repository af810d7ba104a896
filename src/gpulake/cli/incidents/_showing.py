"""How an incident is printed. Its texts may come from a log: control characters are replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from gpulake.cli._output import print_json
from gpulake.core.rows import as_document, json_rows
from gpulake.core.words import amount, label

if TYPE_CHECKING:
    from gpulake.core.incidents import Incident
    from gpulake.flow.incidents import IncidentFile

MOST_TEXT = 400


def print_all_changed(incidents: Sequence[Incident], as_json: bool, skipped: Sequence[Incident] = ()) -> None:
    if as_json:
        print_json([as_document(one) for one in (*incidents, *skipped)])
        return
    for one in incidents:
        print_changed(one)
    for one in skipped:
        click.echo(f"{label(one.incident_id)} is already {one.state}: skipped")
    if not incidents and not skipped:
        click.echo("nothing has changed", err=True)


def print_changed(incident: Incident) -> None:
    said = f"{incident.incident_id}: {incident.event}, {incident.reason}"
    click.echo(f"{label(said)} ({label(incident.cause, MOST_TEXT)})")


def print_case(case: IncidentFile) -> None:
    last = case.incident
    confirmed = "confirmed" if last.is_confirmed else "not confirmed"
    click.secho(f"{label(last.incident_id)}: {label(last.reason)}, {last.state}, {confirmed}", bold=True)
    click.echo(f"  cause    {label(last.cause, MOST_TEXT)}")
    if last.remedy:
        click.echo(f"  remedy   {label(last.remedy, MOST_TEXT)}")
    click.echo(f"  subject  {label(last.subject, MOST_TEXT)}")
    about = (("cluster", last.cluster_id, None), ("job", last.job_id, last.claimed_job_id))
    for name, value, claimed in (*about, ("node", last.node, last.claimed_node)):
        if value is not None:
            click.echo(f"  {name:<8} {label(value, 100)}")
        elif claimed is not None:
            click.echo(f"  {name:<8} {label(claimed, 100)} (claimed by the log)")
    if last.assigned_to:
        click.echo(f"  assigned {label(last.assigned_to, 100)}")
    if last.is_held or last.muted_until is not None or last.merged_into:
        click.echo(f"  {_standing(last)}")
    if last.gpu_hours_lost is not None:
        click.echo(f"  lost     {amount(last.gpu_hours_lost)} GPU-hours")
    if case.worth:
        click.echo(f"  worth    {label(case.worth, MOST_TEXT)}")
    _print_members(last)
    _print_diagnosis(case.diagnosis)
    click.secho("History", bold=True)
    noted = ""
    for event in case.history:
        note = f": {label(event.note, MOST_TEXT)}" if event.note and event.note != noted else ""
        noted = event.note  # later events carry it along
        when = f"{event.changed_at:%Y-%m-%d %H:%M}"
        to = f" to {label(event.assigned_to or 'nobody', 100)}" if event.event == "assigned" else ""
        click.echo(f"  {when}  {event.event}{to} by {label(event.changed_by, 100)}, {label(event.reason, 60)}{note}")


def _standing(last: Incident) -> str:
    until = f"muted until {last.muted_until:%Y-%m-%d %H:%M} UTC" if last.muted_until else ""
    into = f"part of incident {label(last.merged_into, 60)}" if last.merged_into else ""
    return ", ".join(filter(None, ("held open by a person" if last.is_held else "", until, into)))


def _print_members(last: Incident) -> None:
    if not last.members:
        return
    click.secho(f"What was seen, {last.times_seen:,} in all", bold=True)
    for member in last.members:
        when = f"{member.began_at:%Y-%m-%d %H:%M} to {member.ended_at:%Y-%m-%d %H:%M}"
        click.echo(f"  {when}  {label(member.kind, 60)}: {label(member.headline, MOST_TEXT)}")
        if member.detail:
            click.secho(f"    {label(member.detail, MOST_TEXT)}", dim=True)


def _print_diagnosis(diagnosis: Mapping[str, Any]) -> None:
    if not diagnosis:
        return
    how = f"{label(diagnosis.get('method'))} {label(diagnosis.get('rule') or '', 100)}".strip()
    click.secho(f"Last diagnosis: {label(diagnosis.get('reason'), 60)}, by {how}", bold=True)
    for quote in json_rows(diagnosis.get("evidence")):
        where = f"{quote['file']}:" if quote.get("file") else ""
        click.echo(f"  {label(where, 100)}{label(quote.get('line'), 20)}: {label(quote.get('text'), MOST_TEXT)}")
    similar = json_rows(diagnosis.get("similar"))
    if similar:
        click.secho("Similar", bold=True)
    for one in similar:
        seal = "confirmed" if one.get("is_confirmed") else "not confirmed"
        words = f"{label(one.get('incident_id'), 60)}  {label(one.get('reason'), 60)}, {seal}"
        click.echo(f"  {words}: {label(one.get('cause'), MOST_TEXT)}")
