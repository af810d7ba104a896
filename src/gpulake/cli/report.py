"""gpulake report: the overview, efficiency cards, the report of a job, nudges and the study of PAI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_option, flow_options
from gpulake.cli._options import FILE
from gpulake.cli._output import print_json, print_screen, print_table
from gpulake.cli._progress import progress_bar
from gpulake.cli._times import Moment
from gpulake.cli._verbs import Group
from gpulake.core.errors import ActError
from gpulake.core.words import NO_NAME, count, label, span
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.act.messages import Message
    from gpulake.act.nudges import Nudge


@click.group(cls=Group)
def command() -> None:
    """Write reports from the last complete build."""


@command.command("overview")
@click.option("--out", type=FILE, help="The page. [default: LAKE/report.html]")
@flow_option
def overview(out: Path | None, flow: Flow) -> None:
    """Findings, plots and the data behind them, as one HTML file that works offline.

    \b
    Example:  gpulake report overview --out report.html
    """
    target = out or flow.default_report
    flow.write_report(target)
    click.echo(target)


@command.command("efficiency")
@click.option("--user", help="The card of this user. [default: all users, and who wastes most]")
@click.option("--account", help="The card of this account. [default: all accounts]")
@click.option("--cluster", help="Only this cluster. [default: all]")
@click.option("--days", type=click.IntRange(min=1), help="Only the last DAYS days of each cluster. [default: all]")
@click.option("--out", type=FILE, help="Write it as an HTML page that works offline.")
@flow_options
def efficiency(
    user: str | None,
    account: str | None,
    cluster: str | None,
    days: int | None,
    out: Path | None,
    flow: Flow,
    as_json: bool,
) -> None:
    """What was held, used and wasted, what it cost, and the changes that would save most.

    \b
    Example:  gpulake report efficiency --user alice --days 30
              gpulake report efficiency --account physics
    """
    card = flow.efficiency_card(user, cluster, days, out, account)
    if as_json:
        print_json(asdict(card))
    elif out:
        click.echo(out)
    else:
        from gpulake.show.card_text import card_text

        print_screen(card_text(card))


@command.command("job")
@click.argument("job", metavar="ID")
@click.option("--cluster", help="Its cluster, if several have a job of that id.")
@flow_options
def job_(job: str, cluster: str | None, flow: Flow, as_json: bool) -> None:
    """What one job asked for, held, used of each GPU, waited and cost; how it ended and why; what to change.

    \b
    Example:  gpulake report job 4711 --cluster tiger
    """
    from gpulake.flow.reports import job_report

    report = job_report(flow, job, cluster)
    if as_json:
        print_json(asdict(report))
    else:
        from gpulake.show.job_text import job_text

        print_screen(job_text(report))


@command.command("nudges")
@click.option("--cluster", help="Only this cluster. [default: all]")
@click.option("--at", type=Moment(), metavar="TIME", help="As of this time, in ISO 8601. [default: when last seen]")
@click.option("--execute", "is_executed", is_flag=True, help="Take the steps: write the journal, run cancel_command.")
@flow_options
def nudges(cluster: str | None, at: datetime | None, is_executed: bool, flow: Flow, as_json: bool) -> None:
    """Who holds GPUs without using them, and what is due: a warning, a final warning, a cancellation.

    Nothing is done without --execute; then the journal (table nudges) keeps what was done, so that no step is skipped.
    Times, exceptions, the command that cancels and mail to users are set in [nudges] of gpulake.toml.

    \b
    Example:  gpulake report nudges --cluster pai
    """
    from gpulake.act.messages import messages
    from gpulake.act.nudges import summary

    due = flow.nudges(cluster, at, is_executed)
    letters = messages(due, flow.config.nudges, flow.config.currency)
    if as_json:
        counts = {"is_executed": is_executed, "counts": summary(due)}
        print_json({**counts, "nudges": list(map(asdict, due)), "messages": list(map(asdict, letters))})
    else:
        _print_nudges(due, letters, is_executed)
    if is_executed:
        _send_mails(flow, letters)
    for nudge in due:
        if nudge.outcome and nudge.outcome.status != "done":
            job, code = nudge.holder.job_id, nudge.outcome.exit_code
            how = f"with exit code {code}" if code is not None else "without an exit code"
            raise ActError(f"cancelling job {job} failed {how}: {nudge.outcome.detail}", "check cancel_command")


def _send_mails(flow: Flow, letters: Sequence[Message]) -> None:
    from gpulake.act.nudge_mail import send_mails

    sent, failures = send_mails(letters, flow.config, os.environ, flow.clock)
    if sent:
        click.echo(f"{count(sent, 'mail')} sent", err=True)
    if failures:
        more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
        raise ActError(f"mail was not sent: {failures[0]}{more}", "check mail_to of [nudges] and its sink")


def _print_nudges(due: Sequence[Nudge], letters: Sequence[Message], is_executed: bool) -> None:
    from gpulake.act.nudges import summary

    counts = summary(due)
    words = f"warn {counts['warn']}, warn finally {counts['final']}, cancel {counts['cancel']}"
    click.secho(f"{'Done' if is_executed else 'Due'}: {words}; left alone {counts['left alone']}", bold=True)
    if not due:
        click.echo("  no job holds GPUs without using them")
        return
    columns = ("step", "job", "user", "GPUs", "for", "GPU-hours", "why not")
    rows = [
        (
            nudge.step or "–",
            label(nudge.holder.job_id),
            NO_NAME if nudge.holder.user_id is None else label(nudge.holder.user_id),
            nudge.holder.gpus,
            span(60 * nudge.holder.minutes),
            round(nudge.holder.gpu_hours, 1),
            label(nudge.reason),
        )
        for nudge in due
    ]
    print_table(columns, rows)
    for letter in letters:
        click.secho(letter.subject, bold=True)
        click.echo(f"{letter.text}\n")
    if not is_executed:
        click.echo("nothing was sent and nothing was cancelled; take these steps with --execute", err=True)


@command.command("pai")
@click.option("--out", type=FILE, help="The page. [default: LAKE/pai.html]")
@flow_options
def pai(out: Path | None, flow: Flow, as_json: bool) -> None:
    """The published study of the Alibaba PAI trace, drawn again from this lake.

    Every figure beside the published one, with the difference: findings first, on one HTML page that works offline.

    \b
    Example:  gpulake report pai --out pai.html
    """
    from gpulake.show.pai.study import COLUMNS, short_rows

    target = out or flow.config.lake / "pai.html"
    with progress_bar(is_silent=as_json) as flow.report:
        study = flow.write_study(target)
    if as_json:
        print_json({**study.as_dict(), "page": str(target)})
        return
    for headline in study.headlines:
        click.echo(f"• {headline.headline}")
        click.secho(f"  {headline.detail}", dim=True)
    print_table(COLUMNS, short_rows(study.figures))
    click.echo(target)
