"""The verbs that change incidents: ack, assign, comment, confirm, correct, mute, unmute, reopen and resolve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import Function
from gpulake.cli._output import print_json
from gpulake.cli._times import end_of, until_options
from gpulake.cli._words import Reason, by_option
from gpulake.cli.incidents._showing import print_all_changed, print_changed
from gpulake.core.rows import as_document
from gpulake.flow import Flow


@dataclass(frozen=True)
class IncidentVerb:
    verb: str  # of core.incidents.VERBS
    help: str
    example: str
    options: Sequence[Function] = ()
    is_of_one: bool = False  # one incident, printed as one document; else several, as a list


INCIDENT_VERBS: Mapping[str, IncidentVerb] = {
    "ack": IncidentVerb(
        "acknowledge",
        "Say that you look after incidents. No further alerts are sent unless they get worse.",
        'ack i-3f2a i-77 --note "the fan is on order" --hold',
        (click.option("--hold", "is_held", is_flag=True, help="Keep it open until a person resolves it."),),
    ),
    "assign": IncidentVerb(
        "assign",
        "Say who looks after incidents. Their state stays.",
        'assign i-3f2a --to ada --note "she knows the rack"',
        (click.option("--to", metavar="NAME", help='The person; "": nobody. [default: you]'),),
    ),
    "comment": IncidentVerb(
        "comment",
        "Add a comment to the history of an incident.",
        'comment i-3f2a "the vendor sends a new board on Monday"',
        (click.argument("note", metavar="TEXT"),),
        is_of_one=True,
    ),
    "confirm": IncidentVerb(
        "confirm",
        "Say that the reason of an incident is right. It is recalled with later failures, and may become a rule.",
        'confirm 3f2a --note "the board was replaced"',
        is_of_one=True,
    ),
    "correct": IncidentVerb(
        "correct",
        "Say what an incident really was. It is recalled with later failures, and may become a rule.",
        'correct 3f2a --reason DiskFull --cause "the scratch volume was full"',
        (
            click.option(
                "--reason", type=Reason(), required=True, help="What it was. NotAFailure: nothing had failed."
            ),
            click.option("--cause", default="", help="The cause, in a sentence."),
            click.option("--remedy", default="", help="What helped, or what to do."),
        ),
        is_of_one=True,
    ),
    "mute": IncidentVerb(
        "mute",
        "Suppress the alerts of incidents until a time, or until they are unmuted. Events are still recorded.",
        'mute i-3f2a --for 2h --note "being drained"',
        (until_options,),
    ),
    "unmute": IncidentVerb("unmute", "Send alerts of incidents again.", "unmute i-3f2a"),
    "reopen": IncidentVerb(
        "reopen",
        "Open incidents again. They stay open until a person resolves them.",
        'reopen i-3f2a --note "it throttles again"',
    ),
    "resolve": IncidentVerb(
        "resolve",
        "Say that incidents are over. A finding well after that opens them again.",
        'resolve i-3f2a --note "the fan was replaced"',
    ),
}


def change_command(name: str, entry: IncidentVerb) -> click.Command:
    def run(incidents: tuple[str, ...] | str, by: str, flow: Flow, as_json: bool, **values: Any) -> None:
        from gpulake.flow.incidents import change

        if "span" in values:
            values["until"] = end_of(values["until"], values.pop("span"), flow.clock.now())
        if "to" in values:
            values["to"] = by if values["to"] is None else values["to"].strip()
        changes = change(flow.lake.open(), flow.clock, entry.verb, incidents, by, **values)
        if not entry.is_of_one:
            print_all_changed(changes.made, as_json, changes.skipped)
        elif as_json:
            print_json(as_document(changes.only))
        else:
            print_changed(changes.only)

    function: Function = by_option(flow_options(run))
    if entry.verb != "comment":
        function = click.option("--note", default="", help="What others should know.")(function)
    for option in reversed(entry.options):
        function = option(function)
    metavar, number = ("ID", 1) if entry.is_of_one else ("ID...", -1)
    function = click.argument("incidents", metavar=metavar, nargs=number, required=True)(function)
    about = f"{entry.help}\n\n\b\nExample:  gpulake incidents {entry.example}"
    return click.command(name, help=about)(function)
