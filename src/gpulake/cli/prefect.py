"""gpulake prefect: the refresh as a Prefect flow."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from gpulake.cli._flow import flow_option
from gpulake.cli._options import ANY_PATH
from gpulake.cli._output import print_findings
from gpulake.cli._verbs import Group
from gpulake.core.errors import UsageError
from gpulake.flow import Flow


@click.group(cls=Group)
def command() -> None:
    """Run the refresh under Prefect, on the server that PREFECT_API_URL names."""


@command.command()
@click.option("--path", "paths", multiple=True, required=True, type=ANY_PATH, help="What to land; repeatable.")
@click.option("--cron", metavar="EXPRESSION", help='When to run, in UTC, such as "0 6 * * *".')
@click.option("--every", "every_seconds", type=click.IntRange(min=1), metavar="SECONDS", help="Run this often.")
@click.option("--name", default="gpulake", show_default=True, help="The deployment's name.")
@flow_option
def serve(paths: tuple[Path, ...], cron: str | None, every_seconds: int | None, name: str, flow: Flow) -> None:
    """Create the deployment and run it when it is due, until Ctrl-C.

    Without a schedule it runs on request. A path may be a folder that other programs fill: a file that has landed does
    not land again.

    \b
    Example:  gpulake prefect serve --path data_raw/ --cron "0 6 * * *"
    """
    if cron is not None and every_seconds is not None:
        raise UsageError("--cron and --every were both given", "give one of them")
    if not name.strip() or set(name) & set("/%&<>"):
        raise UsageError(f"{name!r} cannot name a deployment", "leave out / % & < and >")
    _need_prefect()
    from gpulake.schedule import refresh

    places = [_absolute(path) for path in paths]
    refresh.serve(name, places, _absolute(flow.config.lake), _absolute(flow.default_report), cron, every_seconds)


@command.command()
@click.argument("paths", nargs=-1, type=ANY_PATH)
@click.option("--report", "report_path", type=ANY_PATH, help="The report. [default: LAKE/report.html]")
@flow_option
def run(paths: tuple[Path, ...], report_path: Path | None, flow: Flow) -> None:
    """Run the flow once, here and now, and record it on the server.

    \b
    Example:  gpulake prefect run data_raw/
    """
    _need_prefect()
    from gpulake.schedule import refresh

    target = _absolute(report_path or flow.default_report)
    result = refresh.run_once([_absolute(path) for path in paths], _absolute(flow.config.lake), target)
    print_findings(result.findings)
    click.echo(f"Report: {target}", err=True)


def _absolute(path: Path) -> Path:
    """A run may start in another folder than this command, and its parameters travel as JSON."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{str(path)!r} is not UTF-8", "rename it: Prefect keeps names as text") from error
    return path.absolute()


def _need_prefect() -> None:
    if find_spec("prefect") is None:
        raise UsageError("Prefect is not installed", "in an environment of its own: pip install 'gpulake[prefect]'")
