"""gpulake collect unit"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from gpulake.cli.collect._live import live_options
from gpulake.cli.collect._options import settings_options
from gpulake.collect.live.session import LiveOptions
from gpulake.collect.settings import Settings

FOLDER = Path("/var/lib/gpulake")
RUN_ID = "service"  # a restart goes on with the same run


@click.command(short_help="Print a systemd unit.")
@settings_options
@live_options
@click.option("--user", default="", help="Whom it runs as. [default: a user that systemd makes up]")
@click.pass_context
def command(context: click.Context, settings: Settings, live: LiveOptions, user: str) -> None:
    """Print a systemd unit that collects as `gpulake collect run` with these options would, and restarts if it dies.

    It needs no root. The folder is /var/lib/gpulake and the run is named service, unless they are given.

    \b
    Example: gpulake collect unit --peer 10.0.0.2 > /etc/systemd/system/gpulake-collect.service
    """
    from gpulake.collect.control import collect_command
    from gpulake.collect.session import check
    from gpulake.collect.unit import unit

    if context.get_parameter_source("base") is click.core.ParameterSource.DEFAULT:
        settings = replace(settings, base=FOLDER)
    settings = replace(
        settings,
        run_id=settings.run_id or RUN_ID,
        pid_dir=None if settings.pid_dir is None else settings.pid_dir.absolute(),
    )
    check(settings)
    click.echo(unit(settings, collect_command(), more=live.arguments(), user=user), nl=False)
