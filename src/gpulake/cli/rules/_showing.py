"""A rule as text and as JSON. Its words may come from a log: they are printed as labels and never interpreted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gpulake.cli._output import print_json
from gpulake.core.words import count, label

if TYPE_CHECKING:
    from gpulake.diagnose.learn.candidates import Check
    from gpulake.diagnose.learn.learning import Learned
    from gpulake.diagnose.learn.proposing import Effect

MOST_TEXT = 400
MOST_EFFECTS = 10


def warn(message: str) -> None:
    click.echo(f"warning: {label(message, 600)}", err=True)


def learned_document(one: Learned) -> dict[str, Any]:
    document = asdict(one)
    del document["rule"]
    times = {name: document[name].isoformat() for name in ("proposed_at", "changed_at")}
    return {**document, **times, "is_silencing": one.rule is not None and one.candidate.is_silencing}


def print_definition(definition: Mapping[str, Any]) -> None:
    for key, value in definition.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            click.echo(f"  {key:<10} {label(item, MOST_TEXT)}")


def print_checks(checks: Sequence[Check]) -> None:
    for check in checks:
        words = check.check.replace("_", " ")
        click.echo(f"  {'✓' if check.passed else '✗'} {words}{'' if check.passed else ': ' + label(check.says, 600)}")


def print_states(changed: Sequence[Learned], as_json: bool) -> None:
    if as_json:
        print_json([learned_document(one) for one in changed])
        return
    for one in changed:
        click.echo(f"{one.rule_id} {label(one.name)}: {one.state}")


def print_learned(one: Learned) -> None:
    click.secho(f"{label(one.name)} ({one.rule_id}): {one.state} {one.kind}", bold=True)
    print_definition(one.definition)
    if one.trouble:
        warn(f"this version cannot read it: {one.trouble}")
    click.echo(f"proposed by {label(one.proposed_by, 100)} at {one.proposed_at:%Y-%m-%d %H:%M} UTC")
    if one.state != "candidate":
        click.echo(f"{one.state} by {label(one.changed_by, 100)} at {one.changed_at:%Y-%m-%d %H:%M} UTC")
    if one.note:
        click.echo(f"note: {label(one.note, MOST_TEXT)}")
    print_checks(one.checks)


def print_effects(one: Learned, found: Sequence[Effect]) -> None:
    """Like a diff: + is new, ~ has another explanation now."""
    logs = len({effect.log for effect in found})
    lines = sum(effect.lines for effect in found)
    verb = "drop" if one.kind == "filter" else "match"
    click.echo(f"in recent logs it would {verb} {count(lines, 'line')} of {count(logs, 'log')}")
    for effect in found[:MOST_EFFECTS]:
        now = f"   (now: {effect.now})" if effect.now else ""
        click.secho(f"  {effect.sign} {label(effect.text, 200)}{now}", fg="yellow" if effect.now else "green")
    if len(found) > MOST_EFFECTS:
        click.echo(f"  and {len(found) - MOST_EFFECTS} more")
    if one.candidate.is_silencing:
        warn(f"role {one.candidate.rule.role}: it can make a failed job look healthy")
